"""POST /VERB: the predictions of a task, in the form of Hugging Face's inference API.

{"inputs": ..., "parameters": {...}}: inputs are a text, an object with the fields of an input, an
image in base64, or a list of them; an image may also be the body itself. Parameters are the options
of the task. With "form": "full" the reply has all fields of the predictions.
"""

import base64
import binascii
import dataclasses
import tempfile
import typing
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from headway.base.errors import UsageError
from headway.base.settings import fields_of, override
from headway.data.images import FORMAT_NAMES
from headway.data.media_kinds import recognised, suffix_of
from headway.decoding import BeamSettings
from headway.serving.engine import at_once
from headway.serving.http.exchange import (
    note_ignored,
    parse_form,
    read_json,
    read_object,
    result_of,
)
from headway.serving.http.known_fields import (
    LIBRETRANSLATE,
    PARAMETERS,
    PREDICTIONS,
    KnownFields,
    RequestBody,
    refuse,
)
from headway.serving.http.replies import ApiError, json_reply
from headway.serving.http.served import ServedModel, ServedModels, cannot
from headway.serving.http.text_sizes import TEXT_BODY, check_characters
from headway.tasks.task import AnyPredicts

MOST_INPUTS = 256
PICTURE = 256  # what an image counts, in tokens
FORM = "application/x-www-form-urlencoded"
RAW = "application/octet-stream"


class PredictionRequest(msgspec.Struct):
    """A request for predictions."""

    inputs: Any
    parameters: dict[str, Any] | None = None
    model: str | None = None
    form: Literal["pipeline", "full"] = "pipeline"


async def predict(request: Request) -> Response:
    """Predict for the inputs of a request."""
    verb = request.url.path.strip("/")
    models: ServedModels = request.app.state.models
    media = await _media_type(request)
    if media == RAW or media.startswith(("image/", "audio/")):
        served = _model(models, verb, request.query_params.get("model"))
        if not takes_files(served.verbs[verb]):
            raise ApiError(415, f"{verb} takes application/json, not a file, with this model")
        body = base64.b64encode(await request.body()).decode()
        return await _answer(request, served, verb, PredictionRequest(inputs=body))
    fields: dict[str, object] = {}
    if media == FORM:
        fields |= await parse_form(request)
    else:
        files = any(takes_files(m.verbs[verb]) for m in models if verb in m.verbs)
        fields |= await read_object(request, None if files else TEXT_BODY)
    if fields.get("model") is None:  # a client of one address names the model there
        fields["model"] = request.query_params.get("model")
    served = _model(models, verb, fields["model"])
    task = served.verbs[verb]
    is_foreign = task.foreign is not None and task.foreign.is_request(fields)
    _check_fields(request, task, fields, is_foreign=is_foreign)
    if is_foreign:
        return await _answer_foreign(request, served, task, fields)
    try:
        asked = msgspec.convert(fields, PredictionRequest)
    except msgspec.ValidationError as error:
        raise ApiError(400, str(error), param="inputs") from None
    return await _answer(request, served, verb, asked)


def _check_fields(
    request: Request, task: AnyPredicts, fields: Mapping[str, object], *, is_foreign: bool
) -> None:
    """Raise ApiError 400 for a field that the form of a request does not have, but a client or the
    options of the task do; note the other ones, which are ignored."""
    names: Sequence[str] = [field.encode_name for field in structs.fields(PredictionRequest)]
    known = PREDICTIONS
    if task.foreign is not None and is_foreign:
        names, known = (*task.foreign.fields, "model"), LIBRETRANSLATE
    others = set(fields) - set(names)
    options = {*fields_of(task.options()), *(task.pipeline.option_names if task.pipeline else ())}
    for name in sorted(others & options):
        raise ApiError(400, f"{name} is a field of parameters, beside inputs", param=name)
    for name in others & known.keys():
        refuse(known, name, fields[name])
    note_ignored(request, others - known.keys())


async def languages(request: Request) -> Response:
    """The languages of the translators, in LibreTranslate's form."""
    known = _directions(request, request.query_params.get("model"))
    return json_reply(
        [{"code": code, "name": code, "targets": list(known[code])} for code in known]
    )


class DetectRequest(RequestBody, kw_only=True):
    """A request for the language of a text, in LibreTranslate's form."""

    known: ClassVar[KnownFields] = LIBRETRANSLATE

    q: str
    model: str | None = None


async def detect(request: Request) -> Response:
    """The source language of the translators, in LibreTranslate's form.

    The text is not read: a server whose translators have one source language names it, with the
    confidence 0 that LibreTranslate gives to its default. ApiError 404 for another server.
    """
    if await _media_type(request) == FORM:
        fields = await parse_form(request)
        note_ignored(request, fields.keys() - {"q", "model", *LIBRETRANSLATE})
        q, name = fields.get("q"), fields.get("model")
    else:
        asked = await read_json(request, DetectRequest)
        q, name = asked.q, asked.model
    if not q:
        raise ApiError(400, "q must be a text that is not empty", param="q")
    sources = list(_directions(request, name or request.query_params.get("model")))
    if len(sources) != 1:
        those = f"its source languages are {', '.join(sources)}" if sources else "no file names any"
        raise ApiError(404, f"this server does not detect languages: name the source; {those}")
    return json_reply([{"language": sources[0], "confidence": 0}])


def _directions(request: Request, name: str | None) -> dict[str, dict[str, None]]:
    """Return source language -> target languages of the translators, or of the one of a name."""
    models: ServedModels = request.app.state.models
    chosen = list(models) if name is None else [models.named(name)]
    known: dict[str, dict[str, None]] = {}
    for model in chosen:
        for task in model.verbs.values():
            if (foreign := task.foreign) is not None:
                for source, targets in foreign.targets(model.bundle).items():
                    known.setdefault(source, {}).update(dict.fromkeys(targets))
    return known


async def _media_type(request: Request) -> str:
    """Return the type of the body: as declared, or else JSON if it looks like it, or a file.

    Hugging Face's client declares no type for the bytes of a file.
    """
    declared = request.headers.get("content-type")
    if declared is not None:
        return declared.partition(";")[0].strip().lower()
    is_json = (await request.body()).lstrip()[:1] in (b"", b"{")
    return "application/json" if is_json else RAW


def takes_files(task: AnyPredicts) -> bool:
    """Whether the first field of the task's input is a file."""
    return next(iter(typing.get_type_hints(task.input).values())) is Path


def _model(models: ServedModels, verb: str, name: object) -> ServedModel:
    """Return the model that predicts by that verb. Raises ApiError 400 or 404."""
    if name is not None and not isinstance(name, str):
        raise ApiError(400, "model must be a text", param="model")
    if name is None:
        able = [model for model in models if verb in model.verbs]
        name = able[0].name if len(able) == 1 else None
    model = models.named(name)
    if verb not in model.verbs:
        raise cannot(model, verb)
    return model


async def _answer(
    request: Request, served: ServedModel, verb: str, asked: PredictionRequest
) -> Response:
    task = served.verbs[verb]
    known = PARAMETERS.get(verb, {})
    options = options_of(task, served.bundle, asked.parameters or {}, known)
    is_list = isinstance(asked.inputs, list)
    given = asked.inputs if is_list else [asked.inputs]
    with ExitStack() as stack:
        inputs = read_inputs(task, given, stack)
        predictions = await computed(request, served, inputs, options)
    pipeline = None if asked.form == "full" else task.pipeline
    if pipeline is None:
        forms = [_full(p, item) for p, item in zip(predictions, inputs, strict=True)]
    else:
        forms = [pipeline.form(served.bundle, p, options) for p in predictions]
    if is_list or (pipeline is not None and pipeline.lists_one):
        return json_reply(forms)
    return json_reply(forms[0])


async def _answer_foreign(
    request: Request, served: ServedModel, task: AnyPredicts, fields: Mapping[str, object]
) -> Response:
    """Answer a request in the form of another server."""
    foreign = task.foreign
    assert foreign is not None
    try:
        inputs, options = foreign.read(served.bundle, fields)
    except UsageError as error:
        name = error.what.partition(" ")[0]
        param = name if name in foreign.fields else None
        raise ApiError(400, error.what, param=param) from error
    if not 1 <= len(inputs) <= MOST_INPUTS:
        raise ApiError(400, f"a request must have 1 to {MOST_INPUTS} inputs")
    if not foreign.targets(served.bundle):  # nothing to compare the languages with
        note_ignored(request, {"source", "target"} & fields.keys())
    predictions = await computed(request, served, inputs, options)
    return json_reply(foreign.reply(fields, predictions))


async def computed(
    request: Request, served: ServedModel, inputs: Sequence[object], options: object
) -> list[object]:
    """Return the predictions for the inputs. Raises ApiError 400 for texts that are too long."""
    check_characters([text for item in inputs for text in _texts(item)], "inputs")
    bundle: Any = served.bundle
    decodes = isinstance(options, BeamSettings)  # token by token
    compute = bundle.predicting if decodes else at_once(bundle.predict)
    predictions: list[object] = await result_of(
        request,
        served,
        inputs,
        partial(compute, options=options),
        group=repr(options),
        cost=sum(map(_cost, inputs)),
    )
    return predictions


def _texts(item: Any) -> list[str]:
    """Return the texts of an input."""
    values = (getattr(item, field.name) for field in dataclasses.fields(item))
    return [value for value in values if isinstance(value, str)]


def _cost(item: Any) -> int:
    values = [getattr(item, field.name) for field in dataclasses.fields(item)]
    return sum(1 + len(value) // 3 if isinstance(value, str) else PICTURE for value in values)


def options_of(
    task: AnyPredicts, bundle: Any, parameters: Mapping[str, object], known: KnownFields
) -> Any:
    """Return the options of a task, completed by those of the model. Raises ApiError 400 for one
    that it does not have, and for names of files: a client may not read the files of the server.

    known: parameters of clients that are no options of the task.
    """
    names: Mapping[str, str] = task.pipeline.option_names if task.pipeline else {}
    kinds = typing.get_type_hints(task.options)
    options = task.defaults(bundle)
    for key, value in parameters.items():
        name = names.get(key, key)
        if name not in kinds:
            refuse(known, key, value)
        if value is None or (name not in kinds and key in known):
            continue
        if name in kinds and "Path" in str(kinds[name]):
            raise ApiError(400, f"{name} names a file, so it is not available here", param=name)
        try:
            options = override(options, {name: value}, "parameters")
        except UsageError as error:
            hint = "" if error.hint is None else f" ({error.hint})"
            raise ApiError(400, error.what + hint, param=key) from error
    return options


def read_inputs(task: AnyPredicts, given: Sequence[object], stack: ExitStack) -> list[object]:
    """Return the inputs of a task. stack: removes the files that were written for images.

    Raises ApiError 400 for one that is not valid.
    """
    if not 1 <= len(given) <= MOST_INPUTS:
        raise ApiError(400, f"inputs must have 1 to {MOST_INPUTS} entries", param="inputs")
    kinds = typing.get_type_hints(task.input)
    first = next(iter(kinds))
    folder: Path | None = None
    if takes_files(task):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headway-")))
    inputs = []
    for n, item in enumerate(given):
        where = f"inputs[{n}]"
        fields = item if isinstance(item, dict) else {first: item}
        if unknown := set(fields) - set(kinds):
            expected = ", ".join(kinds)
            message = f"{where} has the unknown field {min(unknown)!r}; fields: {expected}"
            raise ApiError(400, message, param="inputs")
        if folder is not None and first in fields:
            fields = {**fields, first: _written(fields[first], where, folder / str(n))}
        try:
            inputs.append(msgspec.convert(fields, task.input, strict=True))
        except msgspec.ValidationError as error:
            raise ApiError(400, f"{where}: {error}", param="inputs") from None
        _check_text(inputs[-1], where)
    return inputs


def _check_text(item: Any, where: str) -> None:
    """Raise ApiError 400 for an empty text, and one with characters that no text has."""
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        if isinstance(value, str) and ("\0" in value or not value.strip()):
            message = f"{where}.{field.name} must be a text that is not empty, without NUL"
            raise ApiError(400, message, param="inputs")


def _written(value: object, where: str, path: Path) -> Path:
    """Write an image or a sound in base64 to a new file, and return its path."""
    if not isinstance(value, str):
        raise ApiError(400, f"{where} must be a file in base64", param="inputs")
    coded = value.partition(";base64,")[2] if value.startswith("data:") else value
    try:
        content = base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"{where} is not valid base64", param="inputs") from None
    suffix = suffix_of(content)
    if suffix is None:
        kind = recognised(content)
        found = "" if kind is None else f", but {kind.name}; {kind.remedy(where)}"
        message = f"{where} must be an image ({FORMAT_NAMES}) or a sound (WAV){found}"
        raise ApiError(400, message, param="inputs")
    path = path.with_suffix(suffix)
    path.write_bytes(content)
    return path


def _full(prediction: Any, item: Any) -> dict[str, object]:
    """Return all fields of a prediction, without names of files of this server."""
    own = {str(getattr(item, field.name)) for field in dataclasses.fields(item)}
    fields: dict[str, object] = msgspec.to_builtins(prediction)
    return {
        name: value
        for name, value in fields.items()
        if not (name == "file" and value in own) and value is not None
    }
