"""What one look inside a model found: plain values, which the page, a file or a program may read.

A document has frames, one for each model, checkpoint or input that was watched; a frame has sides
(what stands along the edges of its maps: a sentence, a picture), maps (weights of attention, or
what was computed from them) and answers (what the model said).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.data.images import Pixels
from headway.shapes import Float, Tensor


@dataclass(frozen=True, kw_only=True)
class Side:
    """What attends, or is attended to: a row of tokens.

    words: the places of each word's pieces, in order; empty: pieces are not joined.
    picture, grid, reach: of image tokens, what the model saw, its rows and columns of patches, and
    how many rows and columns of its pixels they cover; tokens[beside:] are the patches, row by row.
    """

    tokens: Sequence[str]
    words: Sequence[Sequence[int]] = ()
    picture: Pixels | None = None
    grid: tuple[int, int] | None = None
    reach: tuple[int, int] | None = None
    beside: int = 0


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """What one head compares: q[h, t] . k[h, s] * scale + bias is a score, v what is summed.

    q, k as the kernel saw them (after rotary positions). v[h, s] has the length of
    |v[h, s] W_O^h| in norms[h, s].
    """

    q: Float[Tensor, "H T K"]
    k: Float[Tensor, "H S K"]
    norms: Float[Tensor, "H S"]
    scale: float | None


@dataclass(frozen=True, kw_only=True)
class Maps:
    """weights[layer][h, t, s]: how much token t of side `queries` takes from token s of `keys`.

    name: encoder, decoder, cross, ...; measure: what the numbers are: "attention" (shares), or what
    was computed from it: "value-weighted", "rollout". layers: names of the modules, in order.
    causal: whether t sees only s <= t. normalised: whether rows are shares that sum to 1.
    kinds[layer][head]: score of each pattern, 0 to 1. vectors[layer]: what made the weights.
    """

    name: str
    queries: str
    keys: str
    layers: Sequence[str]
    weights: Sequence[Float[Tensor, "H T S"]]
    measure: str = "attention"
    causal: bool = False
    normalised: bool = True
    kinds: Sequence[Sequence[Mapping[str, float]]] = ()
    vectors: Sequence[Vectors] = ()


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What a model thought could stand at one place: tokens and their probabilities, best first."""

    place: int
    tokens: Sequence[str]
    probabilities: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Lens:
    """Logit lens: guesses[layer][place], what each layer's vectors would say at the output.

    nostalgebraist 2020. layers: "embedding", "1", ..., the last is the model's own output.
    """

    side: str
    layers: Sequence[str]
    guesses: Sequence[Sequence[Guess]]


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """scores[s]: how much token s of a side did for the answer. measure: "gradient x input", ...;
    of: what was asked, in words: the answer whose logit was followed; place: where that answer
    stands, a place of the frame's `guesses_side`."""

    measure: str
    side: str
    of: str
    scores: Sequence[float]
    place: int | None = None


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A node of a beam search's tree. parent: its place in the list, None for the first;
    log_probability: of all from the first one to here; kept: whether it went on or ended, and was
    not dropped; chosen: whether it is part of the answer."""

    parent: int | None
    token: str
    log_probability: float
    kept: bool
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One model, watched while it read one input.

    model: facts to be shown ("kind", "layers", "parameters", "folder", ...). answer: what it said.
    importance["encoder"][layer][head]: fall of the metric named `metric` when that head is off.
    """

    label: str
    model: Mapping[str, Any]
    sides: Mapping[str, Side]
    maps: Sequence[Maps]
    answer: str = ""
    guesses: Sequence[Guess] = ()
    guesses_side: str = ""
    lens: Lens | None = None
    attributions: Sequence[Attribution] = ()
    beam: Sequence[Leaf] = ()
    metric: str = ""
    importance: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """A matrix of the explainer, whole or its first rows and columns, with names beside it."""

    name: str
    values: Float[Tensor, "r c"]
    shape: Sequence[int]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a guided walk. equation: in plain Unicode; source: path and line of the code that
    does it, under src/headway; arrays: what went in and came out."""

    title: str
    text: str
    equation: str
    source: str
    arrays: Sequence[Numbers]


@dataclass(frozen=True, kw_only=True)
class Document:
    """Everything that one page shows. notes: what the reader must know (what was left out)."""

    title: str
    frames: Sequence[Frame]
    walk: Sequence[Step] = ()
    notes: Sequence[str] = ()
