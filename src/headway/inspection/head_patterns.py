"""What kind of head a head is: how far its map is one of the patterns that heads are known for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import torch

from headway.inspection.entropy import relative_entropy
from headway.shapes import Bool, Float, Tensor

_MARK = re.compile(r"<[^<>\s]+>|\[[A-Z]+\]")  # </s>, <|endoftext|>, [SEP]
Scores = dict[str, float]


def head_kinds(
    weights: Float[Tensor, "H T S"],
    tokens: Sequence[str],
    *,
    own: bool,
    causal: bool = False,
    window: int | None = None,
) -> list[Scores]:
    """Of each head the score of each pattern, from 0 to 1; patterns that these tokens cannot show
    are left out.

    tokens: the S that are attended to. own: queries and keys are the same tokens (self-attention).

    first: mean share of the first token, of the queries after it (a sink: Xiao et al. 2024).
    delimiter: of punctuation and marks ([SEP], </s>) after the first token. broad: mean entropy as
    a share of the greatest one. Of self-attention besides: self, previous token, next token (not
    causal) (Clark et al. 2019, section 3); duplicate token: share of the other tokens that are
    equal, of queries that have one; induction: share of the tokens that followed an earlier equal
    one, of queries that have one (Olsson et al. 2022).
    """
    a = weights.double()
    found = {"broad": relative_entropy(a, causal, window).nanmean(1)}
    after = slice(1, None) if own else slice(None)
    if a.shape[1] > 1 or not own:
        found["first"] = a[:, after, 0].mean(1)
    ends = torch.tensor([i > 0 and is_delimiter(token) for i, token in enumerate(tokens)])
    places = torch.arange(len(tokens))
    rows = (places[None, :] <= places[:, None])[: a.shape[1]] if causal else None
    open_ = ends.expand(a.shape[1], -1) if rows is None else ends & rows
    _add(found, "delimiter", a, open_)
    if own:
        found |= _of_self_attention(a, tokens, causal)
    kept = {name: values.clamp(0, 1) for name, values in found.items() if not values.isnan().any()}
    return [{name: float(values[head]) for name, values in kept.items()} for head in range(len(a))]


def _of_self_attention(
    a: Float[Tensor, "H T T"], tokens: Sequence[str], causal: bool
) -> dict[str, Float[Tensor, " H"]]:
    place = torch.arange(len(tokens))
    apart = place[None, :] - place[:, None]  # T T: how much later the key stands
    number: dict[str, int] = {}
    ids = torch.tensor([number.setdefault(token, len(number)) for token in tokens])
    alike = ids[None, :] == ids[:, None]
    behind = apart < 0
    found: dict[str, Tensor] = {}
    _add(found, "self", a, apart == 0)
    _add(found, "previous token", a, apart == -1)
    if not causal:
        _add(found, "next token", a, apart == 1)
    _add(found, "duplicate token", a, alike & (behind if causal else apart != 0))
    followed = torch.zeros_like(alike)
    followed[:, 1:] = (alike & behind)[:, :-1]
    _add(found, "induction", a, followed & behind)
    return found


def _add(
    found: dict[str, Tensor], name: str, a: Float[Tensor, "H T S"], cells: Bool[Tensor, "T S"]
) -> None:
    """The mean share of these cells, over the queries that have one."""
    queries = cells.any(1)
    if bool(queries.any()):
        found[name] = (a * cells).sum(-1)[:, queries].mean(1)


def is_delimiter(token: str) -> bool:
    """A mark, or nothing but punctuation."""
    text = token.strip()
    signs = all(unicodedata.category(letter).startswith("P") for letter in text)
    return bool(text) and (signs or bool(_MARK.fullmatch(text)))
