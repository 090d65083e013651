"""How well pairs of texts fit, by a model of pairs or an encoder.

POST /v1/rerank, also as /rerank and /v2/rerank, and POST /v1/score.

A model of pairs gives the probability of one of its labels (`label`; with two labels, the second
one), a model of one label the sigmoid of its output, a regression model its number, an encoder the
cosine similarity.
"""

import dataclasses
import uuid
from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headway.bundle import TextEmbedding
from headway.serving.http.embeddings import check_texts, vectors_of
from headway.serving.http.exchange import read_json
from headway.serving.http.known_fields import RERANK, SCORE, KnownFields, RequestBody
from headway.serving.http.predictions import computed, options_of
from headway.serving.http.replies import ApiError, json_reply
from headway.serving.http.served import ServedModel, ServedModels, cannot
from headway.tasks.task import AnyPredicts

Texts = Annotated[list[str], msgspec.Meta(min_length=1, max_length=1024)]


class Document(msgspec.Struct):
    """A document as an object."""

    text: str


class RerankRequest(RequestBody, kw_only=True):
    """A query, and documents to rank by how well they fit.

    label: of a model of pairs. top_n: number of documents in the reply; 0 for all.
    """

    known: ClassVar[KnownFields] = RERANK

    query: str
    documents: Annotated[list[str | Document], msgspec.Meta(min_length=1, max_length=1024)]
    model: str | None = None
    top_n: Annotated[int, msgspec.Meta(ge=0)] | None = None
    return_documents: bool | None = None
    label: str | None = None


class ScoreRequest(RequestBody, kw_only=True):
    """Pairs of texts: one with each of the others, or as many as there are others."""

    known: ClassVar[KnownFields] = SCORE

    text_1: str | Texts
    text_2: str | Texts
    model: str | None = None
    label: str | None = None


async def rerank(request: Request) -> Response:
    """Return the documents, the best first."""
    fields = await read_json(request, RerankRequest)
    texts = [item if isinstance(item, str) else item.text for item in fields.documents]
    pairs = [(fields.query, text) for text in texts]
    check_texts([fields.query], "query")
    check_texts(texts, "documents")
    served, scores = await _scores(request, fields.model, pairs, fields.label)
    order = sorted(range(len(texts)), key=lambda n: -scores[n])[: fields.top_n or None]
    results = [
        {
            "index": n,
            "relevance_score": scores[n],
            **({"document": {"text": texts[n]}} if fields.return_documents is not False else {}),
        }
        for n in order
    ]
    name = f"rerank-{uuid.uuid4().hex}"
    return json_reply({"id": name, "model": served.name, "results": results})


async def score(request: Request) -> Response:
    """Return a number for each pair."""
    fields = await read_json(request, ScoreRequest)
    first, second = (
        [texts] if isinstance(texts, str) else texts for texts in (fields.text_1, fields.text_2)
    )
    first = first * len(second) if len(first) == 1 else first
    if len(first) != len(second):
        message = f"text_1 has {len(first)} texts and text_2 {len(second)}: expected 1, or as many"
        raise ApiError(400, message, param="text_1")
    check_texts(first, "text_1")
    check_texts(second, "text_2")
    pairs = list(zip(first, second, strict=True))
    served, scores = await _scores(request, fields.model, pairs, fields.label)
    data = [{"index": n, "object": "score", "score": value} for n, value in enumerate(scores)]
    return json_reply({"object": "list", "model": served.name, "data": data})


def scores_pairs(model: ServedModel) -> bool:
    """Return whether a model can rank: one of pairs, or an encoder of texts."""
    return _verb_of_pairs(model) is not None or isinstance(model.bundle, TextEmbedding)


def _verb_of_pairs(model: ServedModel) -> str | None:
    """Return the verb by which a model gives labels to pairs of texts; None if it has none."""
    for verb, predicts in model.verbs.items():
        names = {field.name for field in dataclasses.fields(predicts.input)}
        is_piped = predicts.pipeline is not None
        if "second" in names and model.bundle.inputs.second and is_piped:
            return verb
    return None


async def _scores(
    request: Request, name: str | None, pairs: Sequence[tuple[str, str]], label: str | None
) -> tuple[ServedModel, list[float]]:
    models: ServedModels = request.app.state.models
    if name is None:
        able = [model for model in models if scores_pairs(model)]
        name = able[0].name if len(able) == 1 else None
    served = models.named(name)
    verb = _verb_of_pairs(served)
    if verb is not None:
        return served, await _by_labels(request, served, served.verbs[verb], pairs, label)
    if not isinstance(served.bundle, TextEmbedding):
        raise cannot(served, "score pairs of texts")
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    vectors = await vectors_of(request, served, served.bundle, texts, normalise=True)
    row = {text: n for n, text in enumerate(texts)}
    return served, [float(vectors[row[a]] @ vectors[row[b]]) for a, b in pairs]


async def _by_labels(
    request: Request,
    served: ServedModel,
    predicts: AnyPredicts,
    pairs: Sequence[tuple[str, str]],
    label: str | None,
) -> list[float]:
    """Return the probability of a label for each pair, or the number of a regression model."""
    pipeline = predicts.pipeline
    assert pipeline is not None
    options = options_of(predicts, served.bundle, {}, {})
    inputs = [predicts.input(text=first, second=second) for first, second in pairs]
    predictions = await computed(request, served, inputs, options)
    scores: list[float] = []
    for prediction in predictions:
        form = pipeline.form(served.bundle, prediction, options)
        by_label = {item["label"]: float(item["score"]) for item in form}
        if label is None and len(by_label) == 1:
            scores.extend(by_label.values())
            continue
        labels = getattr(served.bundle, "labels", tuple(by_label))
        chosen = labels[1] if label is None and len(labels) == 2 else label
        if chosen not in by_label:
            message = f"label must be one of: {', '.join(labels)}"
            raise ApiError(400, message, param="label")
        scores.append(by_label[chosen])
    return scores
