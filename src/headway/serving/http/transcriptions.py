"""POST /v1/audio/transcriptions and /v1/audio/translations in OpenAI's form: speech to text."""

import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from headway.base.errors import HeadwayError, UsageError
from headway.bundle import Transcribing
from headway.data.speech import FRAMES_PER_SECOND, RATE, recording_of
from headway.serving.engine import at_once
from headway.serving.http.exchange import note_ignored, result_of
from headway.serving.http.known_fields import TRANSCRIPTIONS, KnownFields, RequestBody, refuse
from headway.serving.http.multipart import Part, read_multipart
from headway.serving.http.replies import ApiError, json_reply
from headway.serving.http.served import ServedModels
from headway.tasks.transcription.options import Transcript
from headway.tasks.transcription.subtitles import srt_lines, vtt_lines

_TOKENS = 448
"""What a window counts, in tokens: the longest transcript that Whisper writes for one."""


class TranscriptionRequest(RequestBody, kw_only=True):
    """A request for the text of a recording.

    file: a WAV file. language: the code of the spoken language; if unset, the model detects it.
    timestamp_granularities: of the times in `verbose_json`, which are those of segments.
    """

    known: ClassVar[KnownFields] = TRANSCRIPTIONS

    file: bytes
    model: str | None = None
    language: str | None = None
    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] = "json"
    timestamp_granularities: tuple[str, ...] = ()


async def transcribe(request: Request) -> Response:
    """Write the words of a recording, in the language that is spoken."""
    return await _answer(request, translate=False)


async def translate(request: Request) -> Response:
    """Write the words of a recording in English."""
    return await _answer(request, translate=True)


async def _answer(request: Request, *, translate: bool) -> Response:
    parts = await read_multipart(request)
    fields = _checked(request, parts)
    models: ServedModels = request.app.state.models
    action = "translate recordings" if translate else "transcribe recordings"
    served, bundle = models.able(fields.model, Transcribing, action)
    language = fields.language or None
    try:
        bundle.check_language(language, translate=translate)
    except UsageError as error:
        hint = f"; {error.hint}" if error.hint and not error.hint.startswith("leave") else ""
        raise ApiError(400, error.what + hint, param=language and "language") from None
    try:
        samples = await run_in_threadpool(
            recording_of, fields.file, parts["file"][0].filename or "file"
        )
    except HeadwayError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise ApiError(400, f"file: {error.what}{hint}", param="file") from None
    timed = fields.response_format in ("srt", "vtt", "verbose_json")
    compute = partial(bundle.transcribe, language=language, translate=translate, timestamps=timed)
    windows = math.ceil(len(samples) * FRAMES_PER_SECOND / RATE / bundle.window)
    (transcript,) = await result_of(
        request,
        served,
        [samples],
        at_once(compute),
        group=object(),  # alone: the client of a short recording does not wait for a long one
        cost=windows * _TOKENS,
    )
    return _reply(transcript, fields.response_format, len(samples) / RATE, translate=translate)


def _checked(request: Request, parts: Mapping[str, list[Part]]) -> TranscriptionRequest:
    """Return the fields of a form. Raises ApiError 400 for one that is wrong or not honoured.

    All values of a form are texts. Clients write the name of a list with or without "[]".
    """
    values: dict[str, Any] = {}
    for name, given in parts.items():
        name = name.removesuffix("[]")
        if name == "file":
            values[name] = given[0].content
        elif name == "timestamp_granularities":
            values[name] = [part.text(name) for part in given]
        elif name in TRANSCRIPTIONS:
            refuse(TRANSCRIPTIONS, name, _value(given[-1].text(name)))
        else:
            values[name] = given[-1].text(name)
    honoured = {field.encode_name for field in msgspec.structs.fields(TranscriptionRequest)}
    note_ignored(request, values.keys() - honoured)
    if not values.get("file"):
        raise ApiError(400, "file must be a WAV file: curl -F file=@talk.wav", param="file")
    for unit in values.get("timestamp_granularities", ()):
        if unit != "segment":
            message = f"timestamp_granularities must be segment, not {unit!r:.80}"
            raise ApiError(400, message, param="timestamp_granularities")
    try:
        return msgspec.convert(
            {name: values[name] for name in honoured & values.keys()}, TranscriptionRequest
        )
    except msgspec.ValidationError as error:
        param = str(error).partition("`$.")[2].rstrip("`") or None
        raise ApiError(400, str(error), param=param) from None


def _value(text: str) -> object:
    """Return a value of a form as JSON, or as the text that it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _reply(transcript: Transcript, form: str, seconds: float, *, translate: bool) -> Response:
    """Return a transcript in a form of OpenAI's API. seconds: the length of the recording."""
    if form == "text":
        return Response(f"{transcript.text}\n", media_type="text/plain; charset=utf-8")
    if form in ("srt", "vtt"):
        lines, media = (srt_lines, "plain") if form == "srt" else (vtt_lines, "vtt")
        text = "".join(f"{line}\n" for line in lines(transcript.segments))
        return Response(text, media_type=f"text/{media}; charset=utf-8")
    usage = {"type": "duration", "seconds": math.ceil(seconds)}
    reply: dict[str, object] = {"text": transcript.text, "usage": usage}
    if form == "verbose_json":
        reply |= {
            "task": "translate" if translate else "transcribe",
            "language": transcript.language,
            "duration": seconds,
            "segments": [
                {"id": number, "start": segment.start, "end": segment.end, "text": segment.text}
                for number, segment in enumerate(transcript.segments)
            ],
        }
    return json_reply(reply)
