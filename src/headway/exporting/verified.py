"""An exported model against the original: outputs, greedy tokens, ids of texts, score of the task.

The exported model takes part as a model or a bundle of the same class, whose network is a real
runtime (`exporting.onnx.stand_ins`). So one comparison serves every format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from tokenizers import Tokenizer as Engine
from torch import nn

from headway.base.config_files import RUN_FILE
from headway.base.errors import HeadwayError
from headway.base.shapes import Tensor
from headway.bundle import Bundle
from headway.interop.hf_export import TOKENIZER_FILE, check_same_ids, verification_texts
from headway.models import (
    GPT,
    Bert,
    BertClassifier,
    BertQuestionAnswering,
    BertTagger,
    Captioner,
    Translator,
    ViT,
    ViTClassifier,
)
from headway.models.classifier import TextClassifier
from headway.runs.evaluation import evaluate_model
from headway.text import TokenizerPair

TOLERANCE = 1e-5
"""Maximum difference of an output in float32, for outputs of magnitude 1 or less; larger outputs
may differ in proportion."""
SHAPES = ((1, 1), (3, 19), (2, 5))
"""Numbers and lengths of the sequences that are compared; none is traced."""
LONGEST = 200
"""One more sequence has this length, or the greatest that the model can read."""
STEPS = 32
"""Tokens that are written greedily after each prompt."""
SAME_SCORE = 5e-3
"""Maximum difference of a score in float32, for scores of magnitude 1 or less: near-ties may be
decided otherwise."""

Inputs = tuple[Tensor | None, ...]


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
    """The scores of a model on examples. seconds: the time of the evaluation."""

    scores: Mapping[str, float] = field(default_factory=dict)
    examples: int = 0
    seconds: float = 0.0


def compare_models(
    ours: Any, theirs: Any, where: str, tolerance: float | None = TOLERANCE
) -> Comparison:
    """Compare a model with the one that a runtime computes.

    tolerance: None measures only. Raises HeadwayError if outputs differ by more than `tolerance`,
    or if another token is the most probable one.
    """
    kind, generator = type(ours), torch.Generator().manual_seed(0)
    difference, tokens = 0.0, 0
    with torch.inference_mode():
        for shape in (*SHAPES, (1, min(LONGEST, _room(ours)))):
            inputs = INPUTS[kind](ours, *shape, generator)
            mine, yours = (_outputs(model, inputs) for model in (ours, theirs))
            what = f"the outputs for {shape[0]} inputs of length {shape[1]}"
            further = _differing(mine, yours, what, where, tolerance)
            difference = max(difference, further)
        if kind in STARTS:
            tokens, further = _greedy(ours, theirs, generator, where, tolerance)
            difference = max(difference, further)
    return Comparison(difference=difference, tokens=tokens)


def _outputs(model: Any, inputs: Inputs) -> Tensor:
    has_no_head = isinstance(model, Bert) and model.masked_lm_head is None
    output: Tensor = (model.encode if has_no_head else model)(*inputs)
    return output


def _differing(
    ours: Tensor, theirs: Tensor, what: str, where: str, tolerance: float | None
) -> float:
    """Return the maximum absolute difference. Raises HeadwayError if it is too large."""
    if ours.shape != theirs.shape:
        raise HeadwayError(
            f"{what} have the shape {tuple(theirs.shape)} in the runtime, and {tuple(ours.shape)} "
            "in the model; the folder was removed",
            where,
        )
    difference = float((ours - theirs).abs().max())
    allowed = None if tolerance is None else tolerance * max(1.0, float(ours.abs().max()))
    if allowed is not None and not difference <= allowed:  # NaN is no success
        raise HeadwayError(
            f"{what} differ by {difference:.2g} between the model and the runtime, more than "
            f"{allowed:.1g}; the folder was removed",
            where,
        )
    return difference


def _greedy(
    ours: Any, theirs: Any, generator: torch.Generator, where: str, tolerance: float | None
) -> tuple[int, float]:
    """Write the most probable tokens with caches; return their number, and the difference of the
    logits."""
    inputs, tokens = STARTS[type(ours)](ours, generator)
    states, difference, count = [model.start(*inputs) for model in (ours, theirs)], 0.0, 0
    room = _room(ours) - max(states[0].lengths) - 1
    for number in range(min(STEPS, room)):
        (logits, first), (other, second) = (
            model.step(tokens, state) for model, state in zip((ours, theirs), states, strict=True)
        )
        states = [first, second]
        what = f"the logits of greedy token {number + 1}"
        difference = max(difference, _differing(logits, other, what, where, tolerance))
        tokens, there = logits[:, -1:].argmax(-1), other[:, -1:].argmax(-1)
        behind = logits[:, -1].gather(-1, tokens) - logits[:, -1].gather(-1, there)
        if tolerance is not None and float(behind.max()) > 2 * difference:  # no near-tie
            raise HeadwayError(
                f"greedy token {number + 1} is another one in the runtime; the folder was removed",
                where,
            )
        count += len(tokens)
    return count, difference


def _room(model: Any) -> int:
    """Return the greatest length of a sequence, of a model of texts."""
    if isinstance(model, Translator):
        limits = [limit for limit in (model.max_source, model.max_target) if limit]
        return min([LONGEST, *limits])
    return getattr(model, "max_length", None) or _limit(model.config) or LONGEST


def _limit(config: Any) -> int | None:
    """Return the limit that a configuration or that of its encoder names."""
    limit: int | None = getattr(getattr(config, "bert", config), "max_length", None)
    return limit


def _ids(below: int, rows: int, length: int, generator: torch.Generator) -> Tensor:
    return torch.randint(below, (rows, length), generator=generator)


def _padded(rows: int, length: int) -> Tensor:
    """Return masks (B T) of sequences of different lengths, with padding at the right."""
    lengths = [max(1, length - 4 * n) for n in range(rows)]
    return torch.arange(length) < torch.tensor(lengths)[:, None]


def _texts(model: Any, rows: int, length: int, generator: torch.Generator) -> Inputs:
    """Tokens, mask and segments: the second half is a second text."""
    config = model.config
    config = getattr(config, "bert", getattr(config, "gpt", config))
    length = min(length, _room(model))
    tokens = _ids(config.vocabulary, rows, length, generator)
    types = (torch.arange(length) >= length // 2).long().expand(rows, -1)
    has_types = getattr(config, "token_types", 0) > 1
    return tokens, _padded(rows, length), types.contiguous() if has_types else None


def _language(model: GPT, rows: int, length: int, generator: torch.Generator) -> Inputs:
    return (_ids(model.config.vocabulary, rows, min(length, _room(model)), generator),)


def _pairs(model: Translator, rows: int, length: int, generator: torch.Generator) -> Inputs:
    length = min(length, _room(model))
    source = _ids(model.config.source_vocabulary, rows, length, generator)
    target = _ids(model.config.target_vocabulary, rows, max(1, length - 2), generator)
    return source, target, _padded(rows, length)


def _images(model: Any, rows: int, length: int, generator: torch.Generator) -> Inputs:
    vit = getattr(model.config, "vit", model.config)
    return (torch.randn(rows, vit.channels, *vit.image, generator=generator),)


def _captions(model: Captioner, rows: int, length: int, generator: torch.Generator) -> Inputs:
    length, gpt = min(length, _room(model)), model.config.gpt
    images = _images(model, rows, length, generator)
    return (*images, _ids(gpt.vocabulary, rows, length, generator))


INPUTS: dict[type[nn.Module], Callable[[Any, int, int, torch.Generator], Inputs]] = {
    GPT: _language,
    Bert: _texts,
    BertClassifier: _texts,
    BertTagger: _texts,
    BertQuestionAnswering: _texts,
    TextClassifier: _texts,
    ViT: _images,
    ViTClassifier: _images,
    Translator: _pairs,
    Captioner: _captions,
}
"""Class of a model -> the function that makes its inputs, from the model, the number and the length
of the sequences and a generator."""


def _prompts(model: GPT, generator: torch.Generator) -> tuple[Inputs, Tensor]:
    rows, length = 3, min(9, _room(model) - 2)
    return (_ids(model.config.vocabulary, rows, length, generator), _padded(rows, length)), _ids(
        model.config.vocabulary, rows, 1, generator
    )


def _sources(model: Translator, generator: torch.Generator) -> tuple[Inputs, Tensor]:
    source, _, keys = _pairs(model, 3, 9, generator)
    return (source, keys), _ids(model.config.target_vocabulary, 3, 1, generator)


def _pictures(model: Captioner, generator: torch.Generator) -> tuple[Inputs, Tensor]:
    return _images(model, 2, 1, generator), _ids(model.config.gpt.vocabulary, 2, 1, generator)


STARTS: dict[type[nn.Module], Callable[[Any, torch.Generator], tuple[Inputs, Tensor]]] = {
    GPT: _prompts,
    Translator: _sources,
    Captioner: _pictures,
}
"""Class of a model that writes -> the function that makes what it starts from, and first tokens."""


def compare_readers(ours: Bundle, theirs: Bundle, where: str) -> int:
    """Compare what two bundles do with their inputs; return the number of texts with equal ids.

    Raises HeadwayError for a text that has other ids, for another special token, and for other
    names of classes or another preprocessing of images.
    """
    count = 0
    for one, other in zip(_tokenizers(ours), _tokenizers(theirs), strict=True):
        mine, yours = (_special(tokenizer) for tokenizer in (one, other))
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


def _reader(bundle: Any) -> Any:
    return getattr(bundle, "reader", bundle)


def _tokenizers(bundle: Any) -> Sequence[Any]:
    tokenizer = getattr(bundle, "tokenizer", None)
    if tokenizer is None:
        tokenizer = getattr(_reader(bundle), "tokenizer", None)
    if isinstance(tokenizer, TokenizerPair):
        return tokenizer.source, tokenizer.target
    return () if tokenizer is None else (tokenizer,)


def _special(tokenizer: Any) -> dict[str, object]:
    """Return the ids of the special tokens by name."""
    special = getattr(tokenizer, "special_tokens", None)
    if special is not None:
        return dict(vars(special))
    names = ("pad", "bos", "eos", "ends")
    found = {name: getattr(tokenizer, name, None) for name in names}
    return {n: list(v) if n == "ends" and v is not None else v for n, v in found.items()}


def check_special_tokens(bundle: Bundle, folder: Path, where: str) -> None:
    """Raise HeadwayError if a special token is an ordinary one in the tokenizer.json of a folder.

    Another library would print it as text.
    """
    if not (folder / TOKENIZER_FILE).is_file():
        return
    engine = Engine.from_file(str(folder / TOKENIZER_FILE))
    special = {i for i, token in engine.get_added_tokens_decoder().items() if token.special}
    for tokenizer in _tokenizers(bundle):
        for name, token in _special(tokenizer).items():
            if isinstance(token, int) and token not in special:
                raise HeadwayError(
                    f"the token {name}={token} is not special in {TOKENIZER_FILE}; the folder was "
                    "removed",
                    where,
                )


def measure(bundle: Bundle, run: Path | None) -> Measured:
    """Return the scores of a bundle on the held-out data of a run; without a run there are none."""
    if run is None or not (run / RUN_FILE).is_file():
        return Measured()
    begun = perf_counter()
    evaluated = evaluate_model(bundle, run)
    seconds = perf_counter() - begun
    numbers = evaluated.scores.numbers()
    return Measured(scores=numbers, examples=evaluated.examples, seconds=seconds)


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
