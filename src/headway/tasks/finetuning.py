"""Helpers of runs that fine-tune a pre-trained model: checks of their settings, initialisation,
adapters, and a check that the data of a resumed run is unchanged."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from torch import nn

from headway.base.devices import Machine
from headway.base.errors import DataError, UsageError
from headway.base.files import json_bytes, read_json, write_file
from headway.bundle import EncoderBundle, TextBundle
from headway.data.formats.split_files import files_of
from headway.data.split import check_sides, hold_out
from headway.data.stream import Array, Batch, Batches, ByLength, Indices
from headway.models import GPT, Bert
from headway.tasks.job import Emit, Network, prepare_blocks
from headway.tasks.opening import load_as
from headway.tasks.sections import (
    AdaptedRunConfig,
    BatchSizeConfig,
    ExamplesConfig,
    FineTuningRunConfig,
    LoRAConfig,
)
from headway.training import View
from headway.training.objectives.contract import FramedTexts
from headway.transforms import fast, is_fast, merge_lora, quantize
from headway.transforms import lora as add_lora

Reader = TypeVar("Reader")
Encoded = TypeVar("Encoded")
Example = TypeVar("Example")
B = TypeVar("B", bound=Batch)
B_co = TypeVar("B_co", bound=Batch, covariant=True)


FROM_ENCODER = (
    "--from RUN or --from MODEL, an encoder of BERT's family; headway train bert-tiny TEXTS makes "
    "a small one, also from the texts of your table (--data.text COLUMN)"
)


@dataclass(frozen=True)
class Sides(Generic[Encoded]):
    """The encoded training and held-out examples of a run."""

    train: Encoded
    held_out: Encoded

    def __iter__(self) -> Iterator[Encoded]:
        """Yield the training examples, then the held-out ones."""
        yield self.train
        yield self.held_out


@dataclass(frozen=True)
class PreparedExamples(Generic[Reader, Encoded, Example]):
    """The encoded training examples of a run, their reader, and the held-out examples."""

    reader: Reader
    train: Encoded
    held_out: list[Example]


@dataclass(frozen=True, kw_only=True)
class ExampleFiles:
    """The files of the examples of a task, how they are split, and what is fine-tuned on them.

    examples: the word for the examples. kinds: the kinds of files that have them, in words.
    endings, content: as those of `files_of`. trains: what is fine-tuned; "": a run needs no
    pre-trained model. start: from what it is fine-tuned. get: how a user names such a model.
    """

    examples: str
    kinds: str
    endings: Sequence[str]
    content: str
    trains: str = ""
    start: str = "a pre-trained encoder"
    get: str = FROM_ENCODER

    def check(self, config: FineTuningRunConfig) -> None:
        """Raise UsageError if no training examples or no pre-trained model are named, if a file is
        missing or of another kind, or for settings that adapters exclude."""
        data = config.data
        if not data.train:
            raise UsageError(
                f"no training {self.examples} are named",
                hint=f"headway train {config.recipe} FILE --from MODEL, where FILE is {self.kinds}",
            )
        files_of(data.train, data.valid, self.endings, self.content)
        if self.trains:
            require_start(config.training.start, self.trains, self.start, self.get)
        if isinstance(config, AdaptedRunConfig):
            check_adapters(config)

    def read(
        self, data: ExamplesConfig, read: Callable[[list[Path]], Iterable[Example]]
    ) -> tuple[list[Example], list[Example] | None]:
        """Read the examples of data.train, and those of data.valid; None if there are no such
        files. read: reads files."""
        train, valid = files_of(data.train, data.valid, self.endings, self.content)
        return list(read(train)), list(read(valid)) if valid else None

    def split(
        self,
        data: ExamplesConfig,
        examples: list[Example],
        valid: list[Example] | None,
        content: Callable[[Example], str],
        labels: Callable[[Example], Iterable[str]] = lambda example: (),
        emit: Emit = lambda event: None,
    ) -> tuple[list[Example], list[Example]]:
        """Return the training examples and the validation examples: `valid`, or else a fraction of
        `examples` that is held out (`hold_out`). Raises DataError if a split is empty."""
        train = examples
        decides: Callable[[Example], str] | None = None
        if valid is None:
            train, valid = hold_out(examples, content, data.held_out, labels, emit, self.examples)
            decides = content
        described, sources = f"{len(examples):,} {self.examples}", data.valid or data.train
        check_sides(train, valid, described, ", ".join(sources), content=decides)
        return train, valid


def require_start(
    start: str | None,
    model: str,
    source: str = "a pre-trained encoder",
    hint: str = FROM_ENCODER,
) -> None:
    """Raise UsageError if no pre-trained model is named. model, source: what is fine-tuned, and
    from what, in words."""
    if start is None:
        raise UsageError(f"{model} is fine-tuned from {source}, and none is named", hint=hint)


def check_adapters(config: AdaptedRunConfig) -> None:
    """Raise UsageError for settings that cannot be combined with adapters."""
    if config.lora.rank and (config.training.frozen is not None or config.optimizer.kind == "muon"):
        raise UsageError(
            "lora.rank cannot be combined with training.frozen, because adapters freeze all "
            "blocks, or with optimizer.kind=muon",
            hint="leave out --training.frozen, and use --optimizer.kind adamw",
        )


def load_encoder(start: str | None) -> EncoderBundle:
    """Load the encoder to fine-tune. Raises UsageError if it is another kind of model."""
    return load_as(EncoderBundle, str(start))


def copy_encoder(start: EncoderBundle, dropout: float) -> Bert:
    """Copy the encoder with its weights and another dropout probability."""
    bert = Bert(replace(start.config, dropout=dropout))
    bert.load_state_dict(start.model.state_dict())
    return bert


def copy_gpt(start: TextBundle, dropout: float) -> GPT:
    """Copy the language model with its weights and another dropout probability."""
    gpt = GPT(replace(start.config, dropout=dropout))
    gpt.load_state_dict(start.model.state_dict())
    return gpt


def with_head(
    start: EncoderBundle, config: FineTuningRunConfig, head: Callable[[Bert], Network]
) -> Callable[[], Network]:
    """Return the function that builds the model of a run: a copy of the encoder with a new head.

    head: makes the model from the copy.
    """

    def build() -> Network:
        model = head(copy_encoder(start, config.model.dropout))
        return prepare_blocks(model, config.training, config.machine)

    return build


def fitting(length: int, model: GPT | Bert) -> int:
    """Return a maximum sequence length, or that of the model if it has fewer learned positions."""
    return length if model.max_length is None else min(length, model.max_length)


class FramedExamples(Protocol[B_co]):
    """Encoded examples, which make batches of sequences of similar length.

    lengths: the number of tokens of each sequence.
    """

    @property
    def lengths(self) -> list[int]: ...

    def batch(self, indices: Indices, pad: int) -> B_co:
        """Return the sequences with these indices as a batch. pad: the id of the padding token."""
        ...


def batches_of(
    examples: FramedExamples[B], training: BatchSizeConfig, pad: int, machine: Machine
) -> Batches[Array, B]:
    """Return the batches of a run, in which the sequences have similar lengths."""
    return Batches(
        ByLength(examples.lengths, training.batch_size, training.seed),
        lambda chosen, epoch: examples.batch(chosen, pad),
        machine.device,
    )


def adapt(model: nn.Module, lora: LoRAConfig) -> None:
    """Add low-rank adapters and freeze all other weights, if `lora.rank` is above 0.

    Raises UsageError if a pattern of `lora.targets` matches no layer.
    """
    if lora.rank:
        try:
            if lora.base != "float32":
                quantize(model, lora.base)
            add_lora(model, lora.rank, lora.alpha, lora.dropout, lora.targets or None)
        except ValueError as error:
            raise UsageError(
                f"lora: {error}", hint="headway config explain lora.targets"
            ) from error


def without_adapters(model: Network, lora: LoRAConfig) -> Network:
    """Copy the model with its adapters merged into the weights; without adapters, return it."""
    if not lora.rank:
        return model
    merged = merge_lora(deepcopy(model))
    return fast(merged) if is_fast(model) else merged


def describe_shape(start: EncoderBundle | TextBundle) -> str:
    """Describe the shape of the model for the terminal."""
    shape = start.config
    return f"{shape.num_layers} layers, d={shape.model_dim}, {shape.num_heads} heads"


def balanced(targets: Iterable[int | float], classes: int) -> tuple[float, ...]:
    """Compute class weights that balance the loss: N / (C n_c) for class c.

    N is the number of examples, C the number of classes that have examples, and n_c the number of
    examples of class c. The mean weight of an example is 1. A class without a training example has
    weight 0. targets: the classes of the examples.
    """
    counts = Counter(targets)
    total = counts.total()
    return tuple(total / (len(counts) * counts[c]) if counts[c] else 0.0 for c in range(classes))


def check_unchanged(path: Path, reader: str, sides: Sequence[object]) -> None:
    """Write the fingerprint of the training data, or compare it with that of an existing run.

    The examples are read again whenever a run is resumed, and must be the same. path: the file of
    the fingerprint in the run folder. reader: the fingerprint of the reader of the examples. sides:
    the training and the held-out examples, as JSON values. Raises DataError if they differ.
    """
    digest = hashlib.sha256(json.dumps(sides).encode()).hexdigest()
    fingerprint = {"format": 1, "reader": reader, "sha256": digest}
    if not path.exists():
        write_file(path, json_bytes(fingerprint))
    elif read_json(path) != fingerprint:
        raise DataError(
            "the texts, their labels or the pre-trained model have changed since the run started",
            str(path),
            "restore them, or start a new run with --run OTHERNAME",
        )


def view_of(texts: FramedTexts) -> View:
    """Return the view that a model with a head on an encoder computes of framed texts."""

    return View(
        logits=lambda model: model(texts.tokens, texts.keys, texts.types),
        keys=texts.keys,
        count=len(texts.keys),
    )
