"""The head and the token that the page shows first, with an informative attention map."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.base.shapes import Bool, Float, Tensor
from headway.inspection.document import Frame, Maps
from headway.inspection.entropy import relative_entropy
from headway.inspection.head_patterns import is_delimiter

MEAN = -1  # in place of the index of a head: the mean over all heads of the layer


@dataclass(frozen=True)
class Opening:
    """The map, layer and head to show first.

    map: name of the map. layer, head: counted from 0; head is MEAN for the mean over heads.
    """

    map: str
    layer: int
    head: int


def opening(frame: Frame) -> Opening | None:
    """Return what the page shows of a frame at first; None without maps.

    For attention to an image: the last layer, mean over heads. For cross-attention (translation):
    the head with the largest `telling` score of all cross-attention layers. Otherwise: the head
    with the largest score of all. If no weights sum to 1, so that there is no score: the last
    layer, mean over heads.
    """
    maps = _candidates(frame)
    if not maps:
        return None
    of_images = [m for m in maps if frame.sides[m.keys].image is not None]
    if of_images:
        return Opening(of_images[-1].name, len(of_images[-1].layers) - 1, MEAN)
    crossing = [m for m in maps if m.queries != m.keys]
    scored = [
        (score, Opening(m.name, layer, head))
        for m in crossing or maps
        if m.normalised
        for layer, weights in enumerate(m.weights)
        for head, score in enumerate(telling(weights, *_tokens(frame, m), m.causal).tolist())
    ]
    if not scored:
        return Opening(maps[-1].name, len(maps[-1].layers) - 1, MEAN)
    return max(scored, key=lambda pair: pair[0])[1]


def _candidates(frame: Frame) -> Sequence[Maps]:
    """Return the maps of attention; those of other measures in a frame without attention."""
    return [m for m in frame.maps if m.measure == "attention"] or frame.maps


def telling(
    weights: Float[Tensor, "H T S"],
    queries: Sequence[str] | None,
    keys: Sequence[str],
    causal: bool = False,
) -> Float[Tensor, " H"]:
    """Return for each head how informative it is, from 0 to 1: the mean over queries of
    (1 - relative entropy) * (weight on keys that are not expected).

    The first factor is large if the weights concentrate on few keys. The second is small for
    patterns that most models have and that depend on positions alone: special tokens and
    punctuation as keys and, in self-attention (queries is None), the first token, the query itself
    and its neighbours. Queries that are special tokens or punctuation do not count, unless all are.
    """
    query_tokens = keys if queries is None else queries
    counted = torch.tensor([not is_delimiter(token) for token in query_tokens])
    if not bool(counted.any()):
        counted = torch.ones_like(counted)
    rows = _telling_rows(weights, queries, keys, causal)
    return rows[:, counted].nanmean(1).nan_to_num(0.0)


def _telling_rows(
    weights: Float[Tensor, "H T S"],
    queries: Sequence[str] | None,
    keys: Sequence[str],
    causal: bool,
) -> Float[Tensor, "H T"]:
    a = weights.double()
    sharp = (1 - relative_entropy(a, causal)).clamp(0, 1)
    return sharp * (a * ~_expected(a.shape[1], keys, queries is None)).sum(-1)


def opening_query(frame: Frame, first: Opening) -> int:
    """Return the position of the query to show first in the head `first`.

    For an image: the first token. For a model that predicts at a few positions, such as [MASK]: the
    first of them. Otherwise the word whose attention is the most informative (as in `telling`); of
    a text with a continuation, a word that the model generated, if there is one.
    """
    maps = next(m for m in _candidates(frame) if m.name == first.map)
    side = frame.sides[maps.queries]
    if side.grid is not None:
        return 0
    predicted = [p.position for p in frame.predictions if frame.predictions_side == maps.queries]
    if not maps.causal and side.generated is None and 0 < 2 * len(predicted) < len(side.tokens):
        return predicted[0]
    words = [i for i, token in enumerate(side.tokens) if _is_word(token)]
    generated = [i for i in words if side.generated is not None and i >= side.generated]
    candidates = generated or words or [len(side.tokens) - 1]
    if not maps.normalised:
        return candidates[0]
    head = slice(None) if first.head == MEAN else slice(first.head, first.head + 1)
    weights = maps.weights[first.layer][head]
    rows = _telling_rows(weights, *_tokens(frame, maps), maps.causal).mean(0).nan_to_num(0.0)
    return candidates[int(rows[candidates].argmax())]


def _is_word(token: str) -> bool:
    return not is_delimiter(token) and any(letter.isalnum() for letter in token)


def _expected(num_queries: int, keys: Sequence[str], is_self: bool) -> Bool[Tensor, "T S"]:
    """Return the cells (query, key) with an expected pattern, which says little about a text."""
    delimiters = torch.tensor([is_delimiter(token) for token in keys]).expand(num_queries, -1)
    if not is_self:
        return delimiters
    position = torch.arange(len(keys))
    near = (position[:, None] - position[None, :]).abs() <= 1
    return delimiters | near | (position == 0)[None, :]


def _tokens(frame: Frame, maps: Maps) -> tuple[Sequence[str] | None, Sequence[str]]:
    """Return the tokens of the queries (None if they are the keys) and of the keys."""
    keys = frame.sides[maps.keys].tokens
    return None if maps.queries == maps.keys else frame.sides[maps.queries].tokens, keys
