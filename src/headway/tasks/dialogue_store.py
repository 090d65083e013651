"""Conversations as tokens with target masks: encodes them into the run folder, or reuses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from headway.base.chunks import chunks
from headway.base.errors import DataError, UsageError
from headway.bundle import GeneratingBundle, TextBundle
from headway.data.bad_rows import BadRows
from headway.data.dialogues import Dialogue
from headway.data.prepared import Progress, prepared
from headway.data.store import Array, Offsets, Store, StoreWriter, ids_dtype, new_store
from headway.interop import ChatTemplate
from headway.models import GPT
from headway.tasks.finetuning import Sides, adapt, copy_gpt, without_adapters
from headway.tasks.job import Emit, prepare_blocks
from headway.tasks.opening import load_as
from headway.tasks.sections import ExamplesConfig, LanguageTuningRunConfig
from headway.tasks.target_mask import TEMPLATE, RenderedDialogue, Renderer, with_role_tokens

TRAIN, VALID = "train", "valid"
TOKENS = "tokens"
CHUNK = 256
NO_ANSWER, CUT = "without an answer to learn", "with answers beyond the length only"
TRUNCATED, KINDS = "truncated", "kinds"
Example = TypeVar("Example")
Encoded = TypeVar("Encoded", bound=Sized)


@dataclass(frozen=True)
class TargetSequences:
    """Sequences of tokens, some of which are learned.

    Sequence i has the tokens tokens[offsets[i] : offsets[i + 1]]; is_target is 1 for those that are
    learned.
    """

    tokens: Array
    is_target: Array
    offsets: Offsets

    @classmethod
    def stored(cls, store: Store, name: str, vocabulary: int) -> TargetSequences:
        """Open the sequences that `append` wrote under that name."""
        tokens, offsets = store.sequences(name, ids_dtype(vocabulary), below=vocabulary)
        is_target, _ = store.sequences(f"{name}.targets", "uint8", below=2)
        return cls(tokens, is_target, offsets)

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.offsets) - 1

    def sequence(self, index: int) -> tuple[Array, Array]:
        """Return the tokens of a sequence, and which are targets."""
        start, end = self.offsets[index], self.offsets[index + 1]
        return self.tokens[start:end].astype(np.int64), self.is_target[start:end].astype(bool)

    @property
    def lengths(self) -> Array:
        """The number of positions of each sequence: its tokens but the last one."""
        return np.diff(self.offsets) - 1


def append(
    store: StoreWriter, name: str, sequences: Sequence[RenderedDialogue], vocabulary: int
) -> None:
    """Append sequences to a store, as `TargetSequences` of that name."""
    tokens = [sequence.tokens for sequence in sequences]
    store.append_sequences(name, tokens, ids_dtype(vocabulary))
    masks = [sequence.is_target for sequence in sequences]
    store.append_sequences(f"{name}.targets", masks, "uint8")


@dataclass(frozen=True)
class EncodedDialogues(TargetSequences):
    """Conversations as tokens.

    skipped: the numbers of conversations that were left out, by reason. truncated: the number that
    lost their end. kinds: the kind of each conversation; empty if none has a kind.
    """

    skipped: Counter[str]
    truncated: int
    kinds: Sequence[str]

    @classmethod
    def open(cls, folder: Path, renderer: Renderer, vocabulary: int) -> EncodedDialogues:
        """Open what `write_dialogues` wrote. Raises DataError if another renderer encoded it."""
        return cls.of(opened_store(folder, renderer), vocabulary)

    @staticmethod
    def of(store: Store, vocabulary: int) -> EncodedDialogues:
        """Return the conversations of an open store."""
        stored = TargetSequences.stored(store, TOKENS, vocabulary)
        skipped = Counter({name: store.number(name) for name in (NO_ANSWER, CUT)})
        kinds = store.metadata.get(KINDS, [])
        if not isinstance(kinds, list) or len(kinds) not in (0, len(stored)):
            raise store.error(f"{KINDS} must be a list with the kind of each conversation")
        truncated = store.number(TRUNCATED)
        return EncodedDialogues(
            stored.tokens, stored.is_target, stored.offsets, skipped, truncated, [*map(str, kinds)]
        )


def opened_store(folder: Path, renderer: Renderer) -> Store:
    """Open a store of conversations. Raises DataError if another renderer encoded them."""
    return Store.open(folder, renderer.fingerprint, "tokenizer and chat template")


def truncated(dialogue: RenderedDialogue, length: int) -> RenderedDialogue:
    """Return the first tokens of a conversation, as many as predict `length` tokens."""
    tokens, is_target = dialogue.tokens[: length + 1], dialogue.is_target[: length + 1]
    return replace(dialogue, tokens=tokens, is_target=is_target)


def write_dialogues(
    dialogues: Iterable[Dialogue],
    renderer: Renderer,
    vocabulary: int,
    length: int,
    folder: Path,
    bad_rows: BadRows,
    progress: Progress = lambda done: None,
    append_more: Callable[[StoreWriter, Sequence[RenderedDialogue]], None] = lambda store, kept: (
        None
    ),
) -> EncodedDialogues:
    """Encode conversations into the new folder `folder`, and open it.

    length: the number of positions of a conversation, after which it is truncated. A conversation
    of which no target is left is left out, and counted. bad_rows: the policy for conversations that
    cannot be rendered. append_more: appends further arrays to the store, for the conversations that
    are kept. Raises DataError if none is left.
    """
    counts: Counter[str] = Counter()
    done = 0
    kinds: list[str] = []

    def render(dialogue: Dialogue) -> tuple[str, RenderedDialogue]:
        return dialogue.kind, renderer.render(dialogue)

    with new_store(folder, renderer.fingerprint) as store:
        for chunk in chunks(dialogues, CHUNK):
            kept: list[RenderedDialogue] = []
            for kind, rendered in bad_rows.parsed(chunk, render):
                short = truncated(rendered, length)
                # the first token has none before it that predict it
                if any(short.is_target[1:]):
                    counts[TRUNCATED] += len(rendered.tokens) > len(short.tokens)
                    kept.append(short)
                    kinds.append(kind)
                else:
                    counts[CUT if any(rendered.is_target) else NO_ANSWER] += 1
            if kept:
                append(store, TOKENS, kept, vocabulary)
                append_more(store, kept)
            done += len(chunk)
            progress(done)
        if not store.size(TOKENS):
            left_out = ", ".join(f"{n:,} {reason}" for reason, n in counts.items())
            raise DataError(
                f"no conversation has an answer to learn{left_out and f': {left_out}'}",
                hint="give turns of the assistant, or a larger --training.length",
            )
        store.metadata |= {name: counts[name] for name in (NO_ANSWER, CUT, TRUNCATED)}
        if any(kinds):
            store.metadata[KINDS] = kinds
    return EncodedDialogues.open(folder, renderer, vocabulary)


def load_chat_start(start: str | None) -> TextBundle:
    """Load the language model to fine-tune; one without a chat template gets that of `TEMPLATE`,
    and special tokens for roles, whose embeddings are new."""
    bundle = load_as(TextBundle, str(start))
    if bundle.settings.template is not None and bundle.settings.template.default is not None:
        return bundle
    tokenizer = with_role_tokens(bundle.tokenizer)
    settings = replace(bundle.settings, template=ChatTemplate(by_name={"default": TEMPLATE}))
    model = with_vocabulary(bundle.model, max(tokenizer.size, bundle.config.vocabulary))
    return TextBundle(model, tokenizer, settings)


def with_vocabulary(model: GPT, vocabulary: int) -> GPT:
    """Return a copy of the model with more tokens, whose rows are N(0, 0.02^2) about the mean.

    A row far from all others would have a probability that the model never gave to a token.
    """
    config = model.config
    larger = GPT(replace(config, vocabulary=vocabulary))
    weights = dict(model.state_dict())
    generator = torch.Generator().manual_seed(0)
    for name in ("embedding.tokens.weight", "output.weight"):
        known = weights[name]
        shape = (vocabulary - len(known), known.shape[1])
        noise = 0.02 * torch.randn(shape, generator=generator, dtype=known.dtype)
        weights[name] = torch.cat((known, known.mean(0, keepdim=True) + noise.to(known.device)))
        generator.manual_seed(0)  # the two may be one matrix
    larger.load_state_dict(weights)
    return larger.eval()


def tuned(start: TextBundle, config: LanguageTuningRunConfig) -> Callable[[], GPT]:
    """Return the function that builds the model of a run: a copy of the language model `start`,
    with adapters if the settings have them."""

    def build() -> GPT:
        gpt = copy_gpt(start, config.model.dropout)
        adapt(gpt, config.lora)
        return prepare_blocks(gpt, config.training, config.machine)

    return build


def bundle_of(trained: GPT, start: TextBundle, config: LanguageTuningRunConfig) -> TextBundle:
    """Return the bundle of a model that `tuned` built, with its adapters merged."""
    model = without_adapters(trained, config.lora)
    return TextBundle(model, start.tokenizer, start.settings)


def template_of_bundle(bundle: GeneratingBundle) -> ChatTemplate:
    """Return the chat template of a model. Raises UsageError if it has none."""
    template = bundle.settings.template
    if template is None or template.default is None:
        raise UsageError(
            "the model has no chat template",
            hint="headway train chat CONVERSATIONS --from MODEL teaches it to follow instructions",
        )
    return template


def fitted_length(length: int | None, longest: int, limit: int | None) -> int:
    """Return the number of positions of a sequence: `length`, or `longest` if it is unset.

    limit: the maximum length of the model. Raises UsageError if the model has fewer positions.
    """
    if length is not None and limit is not None and length > limit:
        raise UsageError(
            f"training.length={length} is more than the {limit} positions of the model",
            hint=f"--training.length {limit}",
        )
    return length or (longest if limit is None else min(longest, limit))


def held_out_folder(run: Path, examples: str) -> Path:
    """Return the folder of the held-out examples of a run. Raises UsageError if it is missing."""
    folder = run / "data" / VALID
    if not folder.is_dir():
        raise UsageError(
            f"the held-out {examples} of the run are missing",
            str(folder),
            f"name a file: headway eval {run} FILE",
        )
    return folder


def prepare_sides(
    folder: Path,
    data: ExamplesConfig,
    split: Callable[[BadRows], tuple[list[Example], list[Example]]],
    open_it: Callable[[Path], Encoded],
    write: Callable[[list[Example], Path, BadRows, Progress], Encoded],
    skipped: Callable[[Encoded], dict[str, int]],
    unit: str,
    emit: Emit,
) -> Sides[Encoded]:
    """Encode the training and the held-out examples into the run folder, or reuse them.

    split: reads and splits the examples; it is called once, and only if a side is not encoded yet.
    open_it, write: open the encoded examples in a folder, and write them to a new one. skipped:
    returns the numbers of examples that were left out, by reason. unit: what they are called.
    """
    bad_rows = BadRows.of(data.bad_rows)
    sides = cache(lambda: dict(zip((TRAIN, VALID), split(bad_rows), strict=True)))

    def side(name: str) -> Encoded:
        return prepared(
            folder / "data" / name,
            open_it,
            lambda path, progress: write(sides()[name], path, bad_rows, progress),
            lambda side: {"count": len(side), "unit": unit, "skipped": skipped(side)},
            emit,
            unit,
        )

    encoded = Sides(side(TRAIN), side(VALID))
    bad_rows.announce(emit)
    return encoded
