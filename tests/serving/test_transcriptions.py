"""Recordings become text over HTTP, in OpenAI's form, as by the Python API."""

import pytest

from headway.serving.http.known_fields import TRANSCRIPTIONS, Refused
from headway.tasks.transcription.subtitles import srt_lines, vtt_lines
from tests.fixtures import bundles
from tests.fixtures.client_schemas import SCHEMAS
from tests.fixtures.model_server import running
from tests.fixtures.small_whisper import noise, transcriber, write_wav

MODEL = transcriber()
PATH, ENGLISH = "/v1/audio/transcriptions", "/v1/audio/translations"
BOUNDARY = "the=boundary"


@pytest.fixture(scope="module")
def client():
    with running({"whisper": MODEL, "translator": bundles.translator()}) as client:
        yield client


@pytest.fixture(scope="module")
def wav(tmp_path_factory):
    """A recording of several windows."""
    return write_wav(tmp_path_factory.mktemp("sound") / "talk.wav", noise(2.5))


def form(file=b"", *fields, name="talk.wav"):
    """A body in the form of HTML's forms with files. fields: pairs of name and text."""
    parts = [(f'name="{key}"', value.encode()) for key, value in fields]
    parts.append((f'name="file"; filename="{name}"', file))
    lines = [
        b"--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n"
        % (BOUNDARY.encode(), described.encode(), value)
        for described, value in parts
    ]
    return b"".join(lines) + f"--{BOUNDARY}--\r\n".encode()


def ask(client, wav, *fields, path=PATH):
    media = f'multipart/form-data; boundary="{BOUNDARY}"'
    body = form(wav.read_bytes(), *fields)
    return client.post(path, body, content_type=media)


@pytest.mark.parametrize("path, language", [(PATH, None), (ENGLISH, "de")])
def test_every_form_has_the_transcript_of_the_python_api(client, wav, path, language):
    fields = [] if language is None else [("language", language)]
    options = {"language": language, "translate": path == ENGLISH}
    (plain,) = MODEL.transcribe([wav], **options)
    (timed,) = MODEL.transcribe([wav], **options, timestamps=True)
    reply = ask(client, wav, *fields, path=path)
    usage = {"type": "duration", "seconds": 3}
    assert reply.json == {"text": plain.text, "usage": usage} and plain.text
    replies = {
        name: ask(client, wav, *fields, ("response_format", name), path=path)
        for name in ("text", "srt", "vtt", "verbose_json")
    }
    assert replies["text"].body.decode() == f"{plain.text}\n"
    for name, lines in (("srt", srt_lines), ("vtt", vtt_lines)):
        expected = "".join(f"{line}\n" for line in lines(timed.segments))
        assert replies[name].body.decode() == expected and len(timed.segments) > 1
        assert replies[name].headers["content-type"].startswith("text/")
    assert replies["verbose_json"].json == {
        "task": "translate" if path == ENGLISH else "transcribe",
        "text": timed.text,
        "language": timed.language,
        "duration": 2.5,
        "usage": usage,
        "segments": [
            {"id": n, "start": part.start, "end": part.end, "text": part.text}
            for n, part in enumerate(timed.segments)
        ],
    }


def test_the_bytes_of_a_file_may_look_like_a_boundary(client, wav, tmp_path):
    odd = tmp_path / "odd.wav"
    chunk = f"\r\n--{BOUNDARY[:-1]}\r\n\r\n\n--{BOUNDARY}--\n".encode()
    content = wav.read_bytes() + b"note" + len(chunk).to_bytes(4, "little") + chunk
    odd.write_bytes(content)
    assert ask(client, odd).json == ask(client, wav).json


def test_fields_that_change_nothing_are_accepted_and_unknown_ones_are_named(client, wav):
    granular = ("timestamp_granularities[]", "segment")
    accepted = (("model", "whisper"), ("temperature", "0"), ("prompt", ""), ("stream", "false"))
    plain = ask(client, wav)
    reply = ask(client, wav, granular, *accepted, ("langauge", "fr"))
    assert reply.json == plain.json
    assert reply.headers["x-headway-ignored-fields"] == "langauge"


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("model", "translator", "cannot transcribe recordings"),
        ("model", "other", "there is no model"),
        ("language", "xx", "it has en, fr, de"),
        ("response_format", "diarized_json", "diarized_json"),
        ("timestamp_granularities[]", "word", "must be segment"),
        ("temperature", "0.5", "greedily"),
        ("temperature", "NaN", "greedily"),
        ("prompt", "Ada Lovelace", "prompt"),
        ("stream", "true", "stream"),
    ],
)
def test_a_field_that_is_wrong_or_not_honoured_is_named(client, wav, name, value, message):
    error = ask(client, wav, (name, value)).json["error"]
    assert message in error["message"]
    assert error["param"] in (name.removesuffix("[]"), None if name == "model" else name)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"ID3" + bytes(90), "an MP3 sound (convert it: ffmpeg"),
        (b"RIFF", "must be a WAV file"),
        (b"", "file must be a WAV file"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_what_to_do(client, content, message):
    media = f"multipart/form-data; boundary={BOUNDARY}"
    reply = client.post(PATH, form(content), content_type=media)
    assert reply.status == 400 and message in reply.json["error"]["message"]
    assert reply.json["error"]["param"] == "file"


@pytest.mark.parametrize(
    "body, media, status, message",
    [
        (b"{}", "application/json", 415, "multipart/form-data"),
        (form(), "multipart/form-data", 400, "has no boundary"),
        (form()[:-9], f"multipart/form-data; boundary={BOUNDARY}", 400, "does not end"),
        (b"", f"multipart/form-data; boundary={BOUNDARY}", 400, "does not end"),
        (b"--a\r\n\r\nx\r\n--a--", "multipart/form-data; boundary=a", 400, "Content-Disposition"),
        (b"--a\r\nx\r\n--a--", "multipart/form-data; boundary=a", 400, "no headers"),
        (form(b"", *[("a", "b")] * 99), f"multipart/form-data; boundary={BOUNDARY}", 400, "100"),
        (form(b"", ("model", "a")).replace(b"\r\n\r\na", b"\r\n\r\n\xff"), None, 400, "UTF-8"),
    ],
)
def test_a_body_that_is_no_form_is_refused(client, body, media, status, message):
    media = media or f"multipart/form-data; boundary={BOUNDARY}"
    reply = client.post(PATH, body, content_type=media)
    assert reply.status == status and message in reply.json["error"]["message"]


def test_a_recording_above_the_limit_of_a_request_is_refused(client):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.serving.guard.Guard._too_large", lambda self: "too large")
        reply = client.send("POST", PATH, b"", content_length="30000001")
    assert reply.status == 413


def test_the_list_of_models_and_the_description_have_the_routes(client):
    routes = client.get("/v1/models/whisper").json["routes"]
    assert routes == ["/transcribe", PATH, ENGLISH]
    paths = client.get("/openapi.json").json["paths"]
    assert list(paths[PATH]["post"]["requestBody"]["content"]) == ["multipart/form-data"]


def test_the_fields_of_every_client_are_honoured_or_refused():
    honoured = {"file", "model", "language", "response_format", "timestamp_granularities"}
    names = {name.removesuffix("[]") for name in SCHEMAS[PATH]}
    assert names <= honoured | TRANSCRIPTIONS.keys()
    assert not honoured & TRANSCRIPTIONS.keys()
    neutral = [t.neutral for t in TRANSCRIPTIONS.values() if isinstance(t, Refused)]
    assert all(isinstance(value, str | int | float | dict) for of in neutral for value in of)
