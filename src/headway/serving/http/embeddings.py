"""POST /v1/embeddings in OpenAI's form, and POST /embed in that of Hugging Face."""

import base64
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from headway.bundle import TextEmbedding
from headway.serving.engine import at_once
from headway.serving.http.exchange import read_json, result_of
from headway.serving.http.generation_fields import Token
from headway.serving.http.known_fields import EMBED, EMBEDDINGS, KnownFields, RequestBody
from headway.serving.http.replies import ApiError, json_reply
from headway.serving.http.served import ServedModel, ServedModels
from headway.serving.http.text_sizes import beside_others, check_characters

MOST_TEXTS = 1024


class EmbeddingRequest(RequestBody, kw_only=True):
    """A request for vectors of texts, given as texts or tokens.

    dimensions: number of components to keep; the vector is renormalised. prompt_name: the
    model's prompt that precedes each text; if unset, the model's default, if it has one.
    """

    known: ClassVar[KnownFields] = EMBEDDINGS

    input: str | list[str | Token | list[Token]]
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, msgspec.Meta(ge=1, le=2**17)] | None = None
    prompt_name: str | None = None


class Similarity(msgspec.Struct):
    """A sentence, and those that it is compared with."""

    source_sentence: str
    sentences: list[str]


class EmbedRequest(RequestBody, kw_only=True):
    """A request for vectors of texts, or for the cosine similarities of a sentence with others.

    normalize: unless it is False, vectors have length 1. truncate: if it is False, a text that is
    too long is an error; else it is cut. dimensions, prompt_name: as in
    `EmbeddingRequest`.
    """

    known: ClassVar[KnownFields] = EMBED

    inputs: str | list[str] | Similarity
    model: str | None = None
    normalize: bool | None = None
    truncate: bool | None = None
    dimensions: Annotated[int, msgspec.Meta(ge=1, le=2**17)] | None = None
    prompt_name: str | None = None


async def embeddings(request: Request) -> Response:
    """Return one vector for each text."""
    fields = await read_json(request, EmbeddingRequest)
    served, bundle = _able(request, fields.model)
    prompt = _known_prompt(bundle, fields.prompt_name)
    size = len(await request.body())
    texts = await beside_others(size, _texts, fields.input, bundle)
    vectors = await vectors_of(request, served, bundle, texts, normalise=True, prompt=prompt)
    vectors = _shortened(vectors, fields.dimensions, normalise=True)
    lengths = await beside_others(size, bundle.lengths, texts, prompt)
    tokens = sum(min(length, bundle.length) for length in lengths)
    data = [
        {"object": "embedding", "index": n, "embedding": _encoded(row, fields.encoding_format)}
        for n, row in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_reply({"object": "list", "data": data, "model": served.name, "usage": usage})


async def embed(request: Request) -> Response:
    """Return one vector for each text, or the similarities of a sentence with others."""
    fields = await read_json(request, EmbedRequest)
    served, bundle = _able(request, fields.model)
    prompt = _known_prompt(bundle, fields.prompt_name)
    texts = _texts_to_embed(fields.inputs)
    check_texts(texts, "inputs")
    if fields.truncate is False:
        size = len(await request.body())
        _check_lengths(await beside_others(size, bundle.lengths, texts, prompt), bundle.length)
    normalise = fields.normalize is not False or isinstance(fields.inputs, Similarity)
    vectors = await vectors_of(request, served, bundle, texts, normalise=normalise, prompt=prompt)
    vectors = _shortened(vectors, fields.dimensions, normalise=normalise)
    if isinstance(fields.inputs, Similarity):
        return json_reply((vectors[1:] @ vectors[0]).tolist())
    return json_reply(vectors.tolist())


def _texts_to_embed(inputs: str | list[str] | Similarity) -> list[str]:
    if isinstance(inputs, Similarity):
        return [inputs.source_sentence, *inputs.sentences]
    return [inputs] if isinstance(inputs, str) else inputs


def _shortened(
    vectors: NDArray[np.float32], dimensions: int | None, *, normalise: bool
) -> NDArray[np.float32]:
    """Return the first components of vectors. Raises ApiError 400 for more than they have."""
    if dimensions is None or dimensions == vectors.shape[1]:
        return vectors
    if dimensions > vectors.shape[1]:
        message = f"dimensions must be at most {vectors.shape[1]}"
        raise ApiError(400, message, param="dimensions")
    vectors = vectors[:, :dimensions]
    if normalise:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors


def _check_lengths(lengths: Sequence[int], most: int) -> None:
    for number, length in enumerate(lengths):
        if length > most:
            message = f"text {number} has {length:,} tokens; the maximum of this model is {most:,}"
            raise ApiError(400, f"{message}, and truncate is false", param="truncate")


def _known_prompt(bundle: TextEmbedding, name: str | None) -> str | None:
    """Return the name of a prompt. Raises ApiError 400 if the model does not have it."""
    if name is not None and name not in bundle.prompts:
        known = ", ".join(bundle.prompts) or "none"
        message = f"the model has no prompt {name!r:.80}; its prompts are: {known}"
        raise ApiError(400, message, param="prompt_name")
    return name


def _able(request: Request, name: str | None) -> tuple[ServedModel, TextEmbedding]:
    models: ServedModels = request.app.state.models
    return models.able(name, TextEmbedding, "embed texts")


def _texts(given: str | Sequence[object], bundle: Any) -> list[str]:
    """Return the texts of an input in one of its four forms."""
    items: Sequence[object] = [given] if isinstance(given, str) else given
    if items and isinstance(items[0], int):
        items = [items]
    texts = []
    for n, item in enumerate(items):
        if isinstance(item, str):
            texts.append(item)
            continue
        if not isinstance(item, list) or not all(isinstance(token, int) for token in item):
            raise ApiError(400, f"input[{n}]: texts and tokens cannot be mixed", param="input")
        if max(item, default=0) >= bundle.tokenizer.size:
            raise ApiError(400, f"input[{n}] has a token outside the vocabulary", param="input")
        texts.append(bundle.tokenizer.decode(item))
    check_texts(texts)
    return texts


def check_texts(texts: Sequence[str], param: str = "input") -> None:
    """Raise ApiError 400 for texts that are empty, too long, or too many. param: their field."""
    if not 1 <= len(texts) <= MOST_TEXTS:
        raise ApiError(400, f"1 to {MOST_TEXTS} texts are expected", param=param)
    for n, text in enumerate(texts):
        if not text.strip() or "\0" in text:
            message = f"text {n} must not be empty, and must not have NUL"
            raise ApiError(400, message, param=param)
    check_characters(texts, param)


async def vectors_of(
    request: Request,
    served: ServedModel,
    bundle: TextEmbedding,
    texts: Sequence[str],
    *,
    normalise: bool,
    prompt: str | None = None,
) -> NDArray[np.float32]:
    """Return the vectors of the texts after the prompt of that name, as a matrix of float32."""

    def compute(items: list[str]) -> list[NDArray[np.float32]]:
        vectors = bundle.embed(items, normalise=normalise, prompt=prompt)
        return list(vectors.float().cpu().numpy())

    group = ("embed", normalise, prompt)
    cost = sum(1 + len(text) // 3 for text in texts)
    return np.stack(
        await result_of(request, served, texts, at_once(compute), group=group, cost=cost)
    )


def _encoded(vector: NDArray[np.float32], form: str) -> object:
    """Return a vector as numbers, or as little-endian float32 in base64."""
    if form == "float":
        return vector.tolist()
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
