"""Conversations as tokens with target masks: encodes them into the run folder, or reuses them, and
packs them into sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from headway.base.chunks import chunks
from headway.base.errors import DataError, UsageError
from headway.base.shapes import Int, Tensor
from headway.bundle import TextBundle
from headway.data.bad_rows import BadRows
from headway.data.dialogues import Dialogue
from headway.data.padding import IGNORED
from headway.data.prepared import Progress, prepared
from headway.data.store import Array, Offsets, Store, ids_dtype, new_store
from headway.data.stream import SHUFFLE, Batch, Order
from headway.interop import ChatTemplate
from headway.models import GPT
from headway.tasks.job import Emit
from headway.tasks.opening import load_as
from headway.tasks.target_mask import (
    TEMPLATE,
    RenderedDialogue,
    Renderer,
    with_role_tokens,
)

TOKENS, TARGETS = "tokens", "targets"
CHUNK = 256
NO_ANSWER, CUT = "without an answer to learn", "with answers beyond the length only"
TRUNCATED = "truncated"
OPEN_ROWS = 64
"""Maximum number of sequences that are filled at the same time."""


@dataclass(frozen=True)
class EncodedDialogues:
    """Conversations as tokens.

    Conversation i has the tokens tokens[offsets[i] : offsets[i + 1]]; is_target is 1 for those that
    are learned. skipped: the numbers of conversations that were left out, by reason. truncated: the
    number that lost their end.
    """

    tokens: Array
    is_target: Array
    offsets: Offsets
    skipped: Counter[str]
    truncated: int

    @classmethod
    def open(cls, folder: Path, renderer: Renderer, vocabulary: int) -> EncodedDialogues:
        """Open what `write_dialogues` wrote. Raises DataError if another renderer encoded it."""
        store = Store.open(folder, renderer.fingerprint, "tokenizer and chat template")
        tokens, offsets = store.sequences(TOKENS, ids_dtype(vocabulary), below=vocabulary)
        is_target, _ = store.sequences(TARGETS, "uint8", below=2)
        skipped = Counter({name: store.number(name) for name in (NO_ANSWER, CUT)})
        return cls(tokens, is_target, offsets, skipped, store.number(TRUNCATED))

    def __len__(self) -> int:
        """The number of conversations."""
        return len(self.offsets) - 1

    def dialogue(self, index: int) -> tuple[Array, Array]:
        """Return the tokens of a conversation, and which are targets."""
        start, end = self.offsets[index], self.offsets[index + 1]
        return self.tokens[start:end].astype(np.int64), self.is_target[start:end].astype(bool)

    @property
    def lengths(self) -> Array:
        """The number of positions of each conversation: its tokens but the last one."""
        return np.diff(self.offsets) - 1


def truncated(dialogue: RenderedDialogue, length: int) -> RenderedDialogue:
    """Return the first tokens of a conversation, as many as predict `length` tokens."""
    return RenderedDialogue(dialogue.tokens[: length + 1], dialogue.is_target[: length + 1])


def write_dialogues(
    dialogues: Iterable[Dialogue],
    renderer: Renderer,
    vocabulary: int,
    length: int,
    folder: Path,
    bad_rows: BadRows,
    progress: Progress = lambda done: None,
) -> EncodedDialogues:
    """Encode conversations into the new folder `folder`, and open it.

    length: the number of positions of a conversation, after which it is truncated. A conversation
    of which no target is left is left out, and counted. bad_rows: the policy for conversations that
    cannot be rendered. Raises DataError if none is left.
    """
    counts: Counter[str] = Counter()
    dtype, done = ids_dtype(vocabulary), 0
    with new_store(folder, renderer.fingerprint) as store:
        for chunk in chunks(dialogues, CHUNK):
            kept: list[RenderedDialogue] = []
            for rendered in bad_rows.parsed(chunk, renderer.render):
                short = truncated(rendered, length)
                # the first token has none before it that predict it
                if any(short.is_target[1:]):
                    counts[TRUNCATED] += len(rendered.tokens) > len(short.tokens)
                    kept.append(short)
                else:
                    counts[CUT if any(rendered.is_target) else NO_ANSWER] += 1
            if kept:
                store.append_sequences(TOKENS, [short.tokens for short in kept], dtype)
                store.append_sequences(TARGETS, [short.is_target for short in kept], "uint8")
            done += len(chunk)
            progress(done)
        if not store.size(TOKENS):
            left_out = ", ".join(f"{n:,} {reason}" for reason, n in counts.items())
            raise DataError(
                f"no conversation has an answer to learn{left_out and f': {left_out}'}",
                hint="give turns of the assistant, or a larger --training.length",
            )
        store.metadata |= {name: counts[name] for name in (NO_ANSWER, CUT, TRUNCATED)}
    return EncodedDialogues.open(folder, renderer, vocabulary)


@dataclass(frozen=True)
class DialogueBatch(Batch):
    """Packed conversations for next-token prediction, as `training.objectives.Texts`.

    targets: the next token, -1 where it is not learned. lengths: lengths of the conversations in
    each sequence, and of the padding after them. count: the number of targets.
    """

    examples = "conversations"
    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    lengths: tuple[tuple[int, ...], ...]
    indices: tuple[int, ...]
    count: int


Rows = Sequence[Sequence[int]]
"""The indices of the conversations in each sequence of a batch."""


def packed(dialogues: EncodedDialogues, rows: Rows, length: int | None = None) -> DialogueBatch:
    """Return a batch of sequences with these conversations.

    length: the number of positions of a sequence; None: that of the longest.
    """
    sizes = dialogues.lengths
    width = length or max(int(sum(sizes[i] for i in row)) for row in rows)
    tokens = np.zeros((len(rows), width), np.int64)
    targets = np.full((len(rows), width), IGNORED, np.int64)
    lengths = []
    for number, row in enumerate(rows):
        start, within = 0, []
        for index in row:
            ids, is_target = dialogues.dialogue(index)
            end = start + len(ids) - 1
            tokens[number, start:end] = ids[:-1]
            targets[number, start:end] = np.where(is_target[1:], ids[1:], IGNORED)
            within.append(end - start)
            start = end
        lengths.append((*within, width - start) if start < width else tuple(within))
    return DialogueBatch(
        torch.from_numpy(tokens),
        torch.from_numpy(targets),
        tuple(lengths),
        tuple(index for row in rows for index in row)[:8],
        int((targets != IGNORED).sum()),
    )


def rows_of(order: Iterable[int], lengths: Array, room: int) -> list[list[int]]:
    """Assign conversations to sequences of at most `room` positions; none is split.

    Each takes the first of the open sequences in which it fits; the oldest of more than
    `OPEN_ROWS` is closed.
    """
    closed: list[list[int]] = []
    unfilled: list[tuple[list[int], int]] = []
    for index in order:
        size = int(lengths[index])
        for number, (row, left) in enumerate(unfilled):
            if size <= left:
                row.append(index)
                unfilled[number] = (row, left - size)
                break
        else:
            unfilled.append(([index], room - size))
            if len(unfilled) > OPEN_ROWS:
                closed.append(unfilled.pop(0)[0])
    return [*closed, *(row for row, _ in unfilled)]


class PackedDialogues(Order[Rows]):
    """Each epoch has each conversation once, in sequences that are packed anew."""

    def __init__(self, lengths: Array, batch_size: int, room: int, seed: int) -> None:
        self.lengths, self.batch_size, self.room, self.seed = lengths, batch_size, room, seed
        self.examples_per_epoch = len(lengths)
        self._first = len(self(0))

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches of epoch 0."""
        return self._first

    def __call__(self, epoch: int) -> list[Rows]:
        random = np.random.default_rng([self.seed, SHUFFLE, epoch])
        order = random.permutation(self.examples_per_epoch).tolist()
        rows = rows_of(order, self.lengths, self.room)
        return [rows[i : i + self.batch_size] for i in range(0, len(rows), self.batch_size)]


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


def copy_gpt(start: TextBundle, dropout: float) -> GPT:
    """Copy the language model with its weights and another dropout probability."""
    gpt = GPT(replace(start.config, dropout=dropout))
    gpt.load_state_dict(start.model.state_dict())
    return gpt


def template_of_bundle(bundle: TextBundle) -> ChatTemplate:
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


def prepare_dialogues(
    dialogues: Callable[[], Iterable[Dialogue]],
    renderer: Renderer,
    vocabulary: int,
    length: int,
    folder: Path,
    bad_rows: BadRows,
    emit: Emit,
) -> EncodedDialogues:
    """Encode conversations into `folder`, or reuse them if it exists (`write_dialogues`)."""
    encoded = prepared(
        folder,
        lambda path: EncodedDialogues.open(path, renderer, vocabulary),
        lambda path, progress: write_dialogues(
            dialogues(), renderer, vocabulary, length, path, bad_rows, progress
        ),
        lambda data: {"count": len(data), "unit": "conversations", "skipped": dict(data.skipped)},
        emit,
        "conversations",
    )
    if encoded.truncated:
        text = f"{encoded.truncated:,} conversations of {folder.name} have more than {length} "
        emit({"kind": "note", "text": f"{text}tokens and are truncated (training.length)"})
    return encoded
