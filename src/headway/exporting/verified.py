"""An exported model against the original: outputs, greedy tokens, ids of texts, score of the task.

The exported model takes part as a model or a bundle of the same class, whose network is a real
runtime (`exporting.families`). So one comparison serves every format.
"""

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from tokenizers import Tokenizer as Engine

from headway.base.config_files import RUN_FILE
from headway.base.errors import HeadwayError, HeadwayWarning, UsageError
from headway.base.shapes import Tensor
from headway.bundle import Bundle
from headway.evaluation import Sums, paired_bootstrap
from headway.exporting.families import FAMILIES
from headway.exporting.inputs import LONGEST, Inputs, RealTexts, room
from headway.exporting.methods_by_graphs import FROM_CLASS_TOKEN
from headway.interop.hf_export import TOKENIZER_FILE, check_same_ids, verification_texts
from headway.models import Bert, Translator
from headway.runs.evaluation import ModelScores, evaluate_model
from headway.text import EncoderTokenizer, TokenizerPair

TOLERANCE = 1e-5
"""Maximum difference of an output in float32, for outputs of magnitude 1 or less; larger outputs
may differ in proportion."""
SHAPES = ((1, 1), (3, 19), (2, 5))
"""Numbers and lengths of the sequences that are compared; none is traced."""
STEPS = 32
"""Tokens that are written greedily after each prompt."""
SAME_SCORE = 5e-3
"""Maximum difference of a score in float32, for scores of magnitude 1 or less: near-ties may be
decided otherwise."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """An exported model against the original.

    difference: maximum absolute difference of outputs. tokens: number of greedy tokens that were
    compared.
    """

    difference: float
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The scores of a model on examples. per_second: how many were evaluated per second, in the
    named unit. intervals: name of a score -> between which numbers 95 % of the scores of resampled
    examples lie."""

    scores: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    per_second: float = 0.0
    unit: str = ModelScores.unit


def compare_models(
    ours: Any,
    theirs: Any,
    where: str,
    tolerance: float | None = TOLERANCE,
    texts: RealTexts | None = None,
) -> Comparison:
    """Compare a model with the one that a runtime computes.

    tolerance: None measures only. texts: what a translator reads; None: random tokens. Raises
    HeadwayError if outputs differ by more than `tolerance`, or if another token is the most
    probable one.
    """
    family, generator = FAMILIES[type(ours)], torch.Generator().manual_seed(0)
    difference, tokens = 0.0, 0
    has_ends = texts is not None and isinstance(ours, Translator)
    longest = min(LONGEST, room(ours), room(theirs))  # that of llama.cpp's server is shorter
    shapes = SHAPES[1:] if has_ends else SHAPES  # a text and its end are two tokens
    with torch.inference_mode():
        for rows, length in (*shapes, (1, longest)):
            inputs: Any = family.inputs(ours, rows, length, generator)
            if texts is not None:
                inputs = texts.pairs(*inputs) if has_ends else texts.texts(*inputs)
            mine, yours = (_outputs(model, inputs, texts) for model in (ours, theirs))
            what = f"the outputs for {rows} inputs of length {length}"
            further = differing(mine, yours, what, where, tolerance)
            difference = max(difference, further, _heads(ours, theirs, inputs, where, tolerance))
        if family.start is not None:
            inputs, first = family.start(ours, generator)
            if texts is not None:
                source, _, keys = texts.pairs(inputs[0], first, inputs[1])
                inputs, first = (source, keys), texts.targets_of(first)
            steps = _Steps(ours, theirs, where, tolerance, texts)
            tokens, further = steps.compare(inputs, first)
            difference = max(difference, further)
    return Comparison(difference=difference, tokens=tokens)


def _outputs(model: Any, inputs: Inputs, texts: RealTexts | None) -> Tensor:
    has_no_head = isinstance(model, Bert) and model.masked_lm_head is None
    output: Tensor = (model.encode if has_no_head else model)(*inputs)
    return output if texts is None else texts.predicted(output)


def _heads(ours: Any, theirs: Any, inputs: Inputs, where: str, tolerance: float | None) -> float:
    """Return the difference of what an encoder computes from [CLS], if the runtime has it."""
    if not isinstance(ours, Bert):
        return 0.0
    mine, yours = (_from_class_token(model, inputs) for model in (ours, theirs))
    pairs = [(name, mine[name], yours[name]) for name in mine if name in yours]
    return max([0.0, *(differing(a, b, name, where, tolerance) for name, a, b in pairs)])


def _from_class_token(model: Any, inputs: Inputs) -> dict[str, Tensor]:
    if hasattr(model, FROM_CLASS_TOKEN):  # of a runtime
        outputs: dict[str, Tensor] = getattr(model, FROM_CLASS_TOKEN)(*inputs)
        return outputs
    hidden, known = model.encode(*inputs), {}
    if model.pooler is not None:
        known["pooler_output"] = model.pool(hidden)
    if model.next_sentence is not None:
        known["seq_relationship_logits"] = model.follows(hidden)
    return known


def differing(
    ours: Tensor,
    theirs: Tensor,
    what: str,
    where: str,
    tolerance: float | None,
    runtime: str = "runtime",
) -> float:
    """Return the maximum absolute difference. Raises HeadwayError if it is too large.

    runtime: what computed `theirs`, for the error.
    """
    if ours.shape != theirs.shape:
        raise HeadwayError(
            f"{what} have the shape {tuple(theirs.shape)} in the {runtime}, and "
            f"{tuple(ours.shape)} in the model; the folder was removed",
            where,
        )
    difference = float((ours - theirs).abs().max())
    allowed = None if tolerance is None else tolerance * max(1.0, float(ours.abs().max()))
    if allowed is not None and not difference <= allowed:  # NaN is no success
        raise HeadwayError(
            f"{what} differ by {difference:.2g} between the model and the {runtime}, more than "
            f"{allowed:.1g}; the folder was removed",
            where,
        )
    return difference


@dataclass(frozen=True)
class _Steps:
    """Tokens that two models write, each with its cache: the most probable ones of the first."""

    ours: Any
    theirs: Any
    where: str
    tolerance: float | None
    texts: RealTexts | None

    def compare(self, inputs: Inputs, tokens: Tensor) -> tuple[int, float]:
        """Return the number of tokens, and the difference of the logits."""
        models = (self.ours, self.theirs)
        states, difference, count = [model.start(*inputs) for model in models], 0.0, 0
        for number in range(min(STEPS, room(self.theirs) - max(states[0].lengths) - 1)):
            steps = [model.step(tokens, s) for model, s in zip(models, states, strict=True)]
            states = [state for _, state in steps]
            logits, other = (
                step if self.texts is None else self.texts.predicted(step) for step, _ in steps
            )
            what = f"the logits of greedy token {number + 1}"
            further = differing(logits, other, what, self.where, self.tolerance)
            difference = max(difference, further)
            tokens, there = logits[:, -1:].argmax(-1), other[:, -1:].argmax(-1)
            behind = logits[:, -1].gather(-1, tokens) - logits[:, -1].gather(-1, there)
            if self.tolerance is not None and float(behind.max()) > 2 * difference:  # no near-tie
                raise HeadwayError(
                    f"greedy token {number + 1} is another one in the runtime; the folder was "
                    "removed",
                    self.where,
                )
            count += len(tokens)
        return count, difference


def compare_readers(ours: Bundle, theirs: Bundle, where: str) -> int:
    """Compare what two bundles do with their inputs; return the number of texts with equal ids.

    Raises HeadwayError for a text that has other ids, for another special token, and for other
    names of classes or another preprocessing of images.
    """
    count = 0
    for one, other in zip(tokenizers_of(ours), tokenizers_of(theirs), strict=True):
        mine, yours = _special(one, ours), _special(other, theirs)
        if isinstance(getattr(ours, "tokenizer", None), TokenizerPair) and one is not _last(ours):
            del mine["bos"], yours["bos"]  # nothing begins with that of a source
        if mine != yours:
            name = next(name for name in mine if mine[name] != yours.get(name))
            raise HeadwayError(
                f"the written tokenizer has {name}={yours.get(name)}, not {mine[name]}; the folder "
                "was removed",
                where,
            )
        for text in verification_texts(one):
            check_same_ids(text, one.encode(text), other.encode(text), where)
            count += 1
    for name in ("labels", "tags", "images"):
        known, written = (getattr(_reader(bundle), name, None) for bundle in (ours, theirs))
        if known != written and None not in (known, written):
            raise HeadwayError(
                f"{name} in the folder are {str(written)[:100]}, not {str(known)[:100]}; the "
                "folder was removed",
                where,
            )
    return count


def _last(bundle: Bundle) -> Any:
    """Return the tokenizer of what is written."""
    return tokenizers_of(bundle)[-1]


def real_texts(bundle: Bundle, never: Collection[int] = ()) -> RealTexts | None:
    """Return the tokens of the texts of a translator or an encoder; of other bundles any may occur.

    never: tokens that the runtime does not predict.
    """
    tokenizers = tokenizers_of(bundle)
    if len(tokenizers) == 2:
        first, last = tokenizers
        special = [{*side.special_ids.values()} for side in tokenizers]
        ends = (first.eos, last.bos)
    elif tokenizers and isinstance(tokenizers[0], EncoderTokenizer):
        first = last = tokenizers[0]
        special, ends = [{*first.special_ids}] * 2, (0, 0)
    else:
        return None
    sources, targets = (
        torch.tensor(sorted({*range(side.size)} - ids))
        for side, ids in zip((first, last), special, strict=True)
    )
    return RealTexts(
        sources=sources,
        targets=targets,
        source_end=ends[0],
        target_start=ends[1],
        never=torch.tensor(sorted(never), dtype=torch.long),
    )


def _reader(bundle: Any) -> Any:
    return getattr(bundle, "reader", bundle)


def with_network(bundle: Bundle, network: Any) -> Bundle:
    """Return a copy of a bundle with another network."""
    other: Any = copy(bundle)
    other.model = network
    result: Bundle = other
    return result


def tokenizers_of(bundle: Any) -> Sequence[Any]:
    """Return the tokenizers of a bundle: none, one, or those of source and target."""
    tokenizer = getattr(bundle, "tokenizer", None)
    if tokenizer is None:
        tokenizer = getattr(_reader(bundle), "tokenizer", None)
    if isinstance(tokenizer, TokenizerPair):
        return tokenizer.source, tokenizer.target
    return () if tokenizer is None else (tokenizer,)


def _special(tokenizer: Any, bundle: Any) -> dict[str, object]:
    """Return the ids of the special tokens by name."""
    special = getattr(tokenizer, "special_tokens", None)
    if special is not None:
        return dict(vars(special))
    names = ("pad", "bos", "eos", "ends")
    found = {name: getattr(tokenizer, name, None) for name in names}
    if hasattr(_reader(bundle), "first"):  # the token of a language may begin a caption
        found["bos"] = _reader(bundle).first(None)
    return {n: list(v) if n == "ends" and v is not None else v for n, v in found.items()}


def check_special_tokens(bundle: Bundle, folder: Path, where: str) -> None:
    """Raise HeadwayError if a special token is an ordinary one in the tokenizer.json of a folder.

    Another library would print it as text.
    """
    if not (folder / TOKENIZER_FILE).is_file():
        return
    engine = Engine.from_file(str(folder / TOKENIZER_FILE))
    special = {i for i, token in engine.get_added_tokens_decoder().items() if token.special}
    for tokenizer in tokenizers_of(bundle):
        for name, token in _special(tokenizer, bundle).items():
            if isinstance(token, int) and token not in special:
                raise HeadwayError(
                    f"the token {name}={token} is not special in {TOKENIZER_FILE}; the folder was "
                    "removed",
                    where,
                )


def measure(bundle: Bundle, run: Path | None) -> Measured:
    """Return the scores of a bundle on the held-out data of a run.

    There are none without a run, nor if its data are not where they were: a warning says so.
    """
    if run is None or not (run / RUN_FILE).is_file():
        return Measured()
    begun = perf_counter()
    try:
        evaluated = evaluate_model(bundle, run)
    except UsageError as error:
        text = f"the score is not compared: {error.what}: {error.where}"
        warnings.warn(text, HeadwayWarning, stacklevel=2)
        return Measured()
    per_second = evaluated.examples / (perf_counter() - begun)
    return Measured(
        scores=evaluated.scores.numbers(),
        intervals={name: _interval(sums) for name, sums in evaluated.scores.sums.items()},
        per_second=per_second,
        unit=evaluated.unit,
    )


def _interval(sums: Sums) -> tuple[float, float]:
    """Return the interval of a score, by the bootstrap of its difference from 0."""
    drawn = paired_bootstrap(sums, Sums(sums.terms, lambda total: 0.0))
    return drawn.low, drawn.high


def check_scores(here: Mapping[str, float], there: Mapping[str, float], where: str) -> None:
    """Raise HeadwayError if the runtime has other scores than the model."""
    for name, value, other in _named(here, there):
        if not abs(value - other) <= SAME_SCORE * max(1.0, abs(value)):
            raise HeadwayError(
                f"{name} is {other:.4g} in the runtime and {value:.4g} here; the folder was "
                "removed",
                where,
            )


def _named(
    here: Mapping[str, float], there: Mapping[str, float]
) -> Iterator[tuple[str, float, float]]:
    return ((name, value, there[name]) for name, value in here.items())
