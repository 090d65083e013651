"""Patterns of attention heads: how far a map is one of the patterns known from the literature."""

import re
import unicodedata
from collections.abc import Sequence

import torch

from headway.base.shapes import Bool, Float, Tensor
from headway.inspection.entropy import relative_entropy

_SPECIAL = re.compile(r"<[^<>\s]+>|\[[A-Z]+\]")  # </s>, <|endoftext|>, [SEP]
Scores = dict[str, float]


def head_pattern_scores(
    weights: Float[Tensor, "H T S"],
    tokens: Sequence[str],
    *,
    own: bool,
    causal: bool = False,
    window: int | None = None,
) -> list[Scores]:
    """Return for each head the score of each pattern, from 0 to 1. Patterns that cannot occur with
    these tokens are left out.

    tokens: the S keys. own: whether queries and keys are the same tokens (self-attention).

    Scores are mean weights over queries. "first": the first token, for later queries (an attention
    sink, Xiao et al. 2024). "delimiter": punctuation and special tokens ([SEP], </s>) after the
    first token. "broad": mean relative entropy. In self-attention also "self", "previous token",
    "next token" (not causal) (Clark et al. 2019, section 3); "duplicate token": the other
    occurrences of the token of the query; "induction": the tokens that followed an earlier
    occurrence of it (Olsson et al. 2022). The last two count only queries for which there is one.
    """
    a = weights.double()
    patterns = {"broad": relative_entropy(a, causal, window).nanmean(1)}
    after = slice(1, None) if own else slice(None)
    if a.shape[1] > 1 or not own:
        patterns["first"] = a[:, after, 0].mean(1)
    ends = torch.tensor([i > 0 and is_delimiter(token) for i, token in enumerate(tokens)])
    positions = torch.arange(len(tokens))
    rows = (positions[None, :] <= positions[:, None])[: a.shape[1]] if causal else None
    open_ = ends.expand(a.shape[1], -1) if rows is None else ends & rows
    _add(patterns, "delimiter", a, open_)
    if own:
        patterns |= _of_self_attention(a, tokens, causal)
    complete = {
        name: values.clamp(0, 1) for name, values in patterns.items() if not values.isnan().any()
    }
    return [
        {name: float(values[head]) for name, values in complete.items()} for head in range(len(a))
    ]


def _of_self_attention(
    a: Float[Tensor, "H T T"], tokens: Sequence[str], causal: bool
) -> dict[str, Float[Tensor, " H"]]:
    position = torch.arange(len(tokens))
    offset = (
        position[None, :] - position[:, None]
    )  # T T: position of the key minus that of the query
    number: dict[str, int] = {}
    ids = torch.tensor([number.setdefault(token, len(number)) for token in tokens])
    equal = ids[None, :] == ids[:, None]
    behind = offset < 0
    patterns: dict[str, Tensor] = {}
    _add(patterns, "self", a, offset == 0)
    _add(patterns, "previous token", a, offset == -1)
    if not causal:
        _add(patterns, "next token", a, offset == 1)
    _add(patterns, "duplicate token", a, equal & (behind if causal else offset != 0))
    followed = torch.zeros_like(equal)
    followed[:, 1:] = (equal & behind)[:, :-1]
    _add(patterns, "induction", a, followed & behind)
    return patterns


def _add(
    patterns: dict[str, Tensor], name: str, a: Float[Tensor, "H T S"], cells: Bool[Tensor, "T S"]
) -> None:
    """Add the mean weight of these cells, over the queries that have one."""
    queries = cells.any(1)
    if bool(queries.any()):
        patterns[name] = (a * cells).sum(-1)[:, queries].mean(1)


def is_delimiter(token: str) -> bool:
    """Return whether a token is a special token or only punctuation."""
    text = token.strip()
    signs = all(unicodedata.category(letter).startswith("P") for letter in text)
    return bool(text) and (signs or bool(_SPECIAL.fullmatch(text)))
