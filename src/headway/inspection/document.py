"""The data model of the inspection: plain values for the page, for files and for programs.

A document has frames, one for each model, checkpoint or input. A frame has sides (the sequences
along the axes of its maps: a sentence, an image), maps (attention weights, or measures computed
from them) and predictions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headway.base.shapes import Float, Tensor
from headway.data.images import Pixels


@dataclass(frozen=True, kw_only=True)
class Side:
    """The sequence of tokens along one axis of a map: the queries or the keys.

    words: positions of the tokens of each word, in order; if empty, tokens are not joined to words.
    For image tokens, image: the pixels of the input image; grid: rows and columns of patches;
    reach: the number of pixel rows and columns that the patches cover; num_prefix_tokens: the
    number of tokens before the patches (class token, registers, words): the rows * columns tokens
    after them are the patches, row by row. generated: position of the first token that the model
    generated; None if it generated none of them.
    """

    tokens: Sequence[str]
    words: Sequence[Sequence[int]] = ()
    image: Pixels | None = None
    grid: tuple[int, int] | None = None
    reach: tuple[int, int] | None = None
    num_prefix_tokens: int = 0
    generated: int | None = None


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """Queries, keys and value norms of a layer; q[h, t] . k[h, s] * scale + bias is a score.

    q, k: the inputs of the kernel, after rotary positions. norms[h, s]: |v[h, s] W_O^h|, the length
    of the projected value. scale: factor of the dot product, None for other scores.
    """

    q: Float[Tensor, "H T K"]
    k: Float[Tensor, "H S K"]
    norms: Float[Tensor, "H S"]
    scale: float | None


@dataclass(frozen=True, kw_only=True)
class Maps:
    """Attention maps of one part of a model, all its layers.

    weights[layer][h, t, s]: weight with which query t of side `queries` attends to key s of side
    `keys`. name: "encoder", "decoder" or "cross". measure: "attention", or a measure computed from
    it: "value-weighted", "rollout". layers: names of the modules, in order. causal: whether query t
    attends only to keys s <= t. normalised: whether rows sum to 1. patterns[layer][head]: score of
    each pattern, from 0 to 1 (`head_pattern_scores`). vectors[layer]: queries, keys, value norms.
    """

    name: str
    queries: str
    keys: str
    layers: Sequence[str]
    weights: Sequence[Float[Tensor, "H T S"]]
    measure: str = "attention"
    causal: bool = False
    normalised: bool = True
    patterns: Sequence[Sequence[Mapping[str, float]]] = ()
    vectors: Sequence[Vectors] = ()


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The predictions of a model at one position: tokens and their probabilities in descending
    order."""

    position: int
    tokens: Sequence[str]
    probabilities: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Lens:
    """Logit lens: predictions[layer][position], the predictions from the vectors of each layer.

    layers: "embedding", "1", ...; the last one is the output of the model. nostalgebraist 2020.
    """

    side: str
    layers: Sequence[str]
    predictions: Sequence[Sequence[Prediction]]


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """Attribution of a prediction to input tokens.

    scores[s]: contribution of token s of `side`. measure: "gradient x input". of: name of the
    predicted token or class. position: its position in the side `predictions_side` of the frame.
    """

    measure: str
    side: str
    of: str
    scores: Sequence[float]
    position: int | None = None


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A node of the tree of a beam search.

    parent: index of the parent in the list, None for the first node. log_probability: of all tokens
    from the first node to this one. continued: whether the hypothesis was continued or complete,
    not pruned. chosen: whether the node is part of the output.
    """

    parent: int | None
    token: str
    log_probability: float
    continued: bool
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class AblationEffect:
    """The predictions without one attention head or expert, compared with those of the whole model.

    probabilities[i]: without it, the probability of the token that the whole model predicts at the
    position of `Frame.predictions[i]`. changed: i -> the most probable token without it, where it
    is another one.
    """

    probabilities: Sequence[float]
    changed: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class HeldOutReads:
    """What one expert reads in held-out text.

    load: fraction of the choices of the router that are this expert. tokens: what it reads most
    beyond its load, (token, number of times, fraction of its occurrences that the expert reads).
    """

    load: float
    tokens: Sequence[tuple[str, int, float]]


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """A mixture of experts: which expert reads which token of `side`.

    name: of the module. layer: number of its block, from 1. total: number of experts E. chosen[t]:
    the experts that read token t, the most probable first, from 0; weights[t]: their weights.
    falls[e]: fall of the mean log-probability of the predictions without expert e; effects[e]: the
    predictions without it. held_out[e]: what expert e reads in held-out text. The last three are
    empty if they were not computed.
    """

    name: str
    layer: int
    side: str
    total: int
    chosen: Sequence[Sequence[int]]
    weights: Sequence[Sequence[float]]
    falls: Sequence[float] = ()
    effects: Sequence[AblationEffect] = ()
    held_out: Sequence[HeldOutReads] = ()


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One forward pass of one model on one input.

    model: properties of the model that are shown ("kind", "layers", "parameters", "folder", ...).
    answer: output of the model. importance["encoder"][layer][head]: fall of the metric named
    `metric` when that head is ablated. effects["encoder"][layer][head]: the predictions without
    that head. updates["encoder"][layer][sublayer][t], with sublayer "attention", "cross" or
    "feedforward": |y - x| / |x|, by how much the sublayer changes vector x of token t into y.
    mixtures: the mixtures of experts, in order of their layers.
    """

    label: str
    model: Mapping[str, object]
    sides: Mapping[str, Side]
    maps: Sequence[Maps]
    answer: str = ""
    predictions: Sequence[Prediction] = ()
    predictions_side: str = ""
    lens: Lens | None = None
    attributions: Sequence[Attribution] = ()
    beam: Sequence[Leaf] = ()
    metric: str = ""
    importance: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    effects: Mapping[str, Sequence[Sequence[AblationEffect]]] = field(default_factory=dict)
    updates: Mapping[str, Sequence[Mapping[str, Sequence[float]]]] = field(default_factory=dict)
    mixtures: Sequence[Mixture] = ()


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """A matrix of a walkthrough, whole or a part of it, with names of its rows and columns."""

    name: str
    values: Float[Tensor, "r c"]
    shape: Sequence[int]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a walkthrough.

    equation: in plain Unicode. source: path and line of the code that computes the step. arrays:
    inputs and outputs of the step.
    """

    title: str
    text: str
    equation: str
    source: str
    arrays: Sequence[Numbers]


@dataclass(frozen=True, kw_only=True)
class Document:
    """The content of one page.

    notes: remarks for the reader, for example what was left out. examples: inputs that a live page
    offers, for example held-out texts of the training run. modality: "text" or "image", what a live
    page asks for; if empty, both.
    """

    title: str
    frames: Sequence[Frame]
    walk: Sequence[Step] = ()
    notes: Sequence[str] = ()
    examples: Sequence[str] = ()
    modality: str = ""
