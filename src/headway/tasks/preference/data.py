"""The pairs of answers of a run: reads, splits and encodes them, with the log-probabilities of the
reference, which are computed once."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np
import torch

from headway.base.chunks import chunks
from headway.base.errors import DataError, UsageError
from headway.base.shapes import Float, Int, Tensor
from headway.bundle import TextBundle
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.dialogues import ENDINGS, PREFERENCES, Preference, read_preferences
from headway.data.padding import IGNORED
from headway.data.prepared import Progress
from headway.data.store import Array, Store, new_store
from headway.data.stream import Batch, Indices
from headway.tasks.dialogue_store import (
    TargetSequences,
    append,
    fitted_length,
    held_out_folder,
    prepare_sides,
    template_of_bundle,
)
from headway.tasks.finetuning import ExampleFiles, Sides
from headway.tasks.job import Emit
from headway.tasks.opening import load_as
from headway.tasks.preference.config import (
    LONGEST,
    PreferenceDataConfig,
    PreferenceRunConfig,
    PreferenceScoring,
)
from headway.tasks.sampled_answers import log_probabilities, padded_answers
from headway.tasks.sections import RunSettings
from headway.tasks.target_mask import RenderedDialogue, Renderer, renderer_of

PAIRS = ExampleFiles(
    examples=PREFERENCES,
    kinds=".jsonl, .json or .parquet",
    endings=ENDINGS,
    content=PREFERENCES,
    trains="a model that learns preferences",
    start="a chat model",
    get="--from RUN; headway train chat CONVERSATIONS --from MODEL trains a chat model",
)
SIDES = ("chosen", "rejected")
TOO_LONG = "longer than the length"
CHUNK = 32


@dataclass(frozen=True)
class PreferenceBatch(Batch):
    """Pairs of answers: B better answers after their prompts, then B worse ones.

    As `training.objectives.preference.Answers`. indices: those of the pairs.
    """

    examples = "pairs"
    tokens: Int[Tensor, "N T"]
    targets: Int[Tensor, "N T"]
    count: int
    reference: Float[Tensor, " N"]
    indices: tuple[int, ...]


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs of answers as tokens.

    sides: the prompts with the better answers, and with the worse ones. reference: the
    log-probabilities of both under the reference. skipped: the number of pairs that were left out.
    """

    sides: tuple[TargetSequences, TargetSequences]
    reference: Array
    skipped: int

    @classmethod
    def open(cls, folder: Path, fingerprint: str, vocabulary: int) -> EncodedPairs:
        """Open what `write_pairs` wrote. Raises DataError if another renderer or another reference
        encoded it."""
        store = Store.open(folder, fingerprint, "chat template, tokenizer and reference model")
        chosen, rejected = (TargetSequences.stored(store, side, vocabulary) for side in SIDES)
        reference = store.array("reference", "float32", (2,))
        return cls((chosen, rejected), reference, store.number(TOO_LONG))

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.reference)

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of the longer answer of each pair, with its prompt."""
        first, second = (side.lengths for side in self.sides)
        longer: list[int] = (np.maximum(first, second) + 1).tolist()
        return longer

    def prompt(self, index: int) -> list[int]:
        """Return the tokens of a prompt, after which the model answers."""
        tokens, is_target = self.sides[0].sequence(index)
        prompt: list[int] = tokens[: int(is_target.argmax())].tolist()
        return prompt

    def answer(self, index: int) -> list[int]:
        """Return the tokens of the better answer to a prompt."""
        tokens, is_target = self.sides[0].sequence(index)
        answer: list[int] = tokens[is_target].tolist()
        return answer

    def batch(self, indices: Indices) -> PreferenceBatch:
        """Return the pairs with these indices as a batch."""
        chosen = [int(i) for i in indices]
        answers = [side.sequence(i) for side in self.sides for i in chosen]
        tokens, targets = padded_answers(answers)
        reference = torch.from_numpy(self.reference[chosen].T.flatten().copy())
        count = int((targets != IGNORED).sum())
        return PreferenceBatch(tokens, targets, count, reference, tuple(chosen[:8]))


def check_preferences(config: PreferenceRunConfig) -> None:
    """Raise UsageError if pairs or the chat model are missing, or if settings conflict."""
    PAIRS.check(config)
    if config.objective.smoothing and config.objective.kind != "dpo":
        raise UsageError(
            f"objective.smoothing is defined for dpo, not for {config.objective.kind}",
            hint="leave out --objective.smoothing",
        )


def prompt_of(pair: Preference) -> str:
    """Return the prompt as a text, by which equal prompts are found."""
    return "\n".join(turn.content for turn in pair.prompt)


def split_pairs(
    data: PreferenceDataConfig, bad_rows: BadRows, emit: Emit
) -> tuple[list[Preference], list[Preference]]:
    """Read the training pairs and the validation pairs.

    The prompt decides whether a pair is held out; if all prompts are equal, the better answer does.
    Raises DataError if a split is empty.
    """
    pairs, valid = PAIRS.read(data, lambda files: read_preferences(files, bad_rows))
    content: Callable[[Preference], str] = prompt_of
    if len(set(map(prompt_of, pairs))) < 2:
        content = attrgetter("chosen.content")
    return PAIRS.split(data, pairs, valid, content, emit=emit)


def fingerprint_of(renderer: Renderer, reference: TextBundle) -> str:
    """Return the sha256 of the renderer and of the weights of the reference."""
    digest = hashlib.sha256(renderer.fingerprint.encode())
    for name, tensor in sorted(reference.model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def write_pairs(
    pairs: Iterable[Preference],
    renderer: Renderer,
    reference: TextBundle,
    length: int,
    folder: Path,
    bad_rows: BadRows,
    progress: Progress = lambda done: None,
) -> EncodedPairs:
    """Encode pairs into the new folder `folder` with the log-probabilities of the reference, and
    open it.

    length: the maximum number of positions; a pair with a longer answer is left out, because its
    log-probability would be that of a part. bad_rows: the policy for pairs that cannot be rendered.
    """
    vocabulary = reference.tokenizer.size
    counts: Counter[str] = Counter()
    done = 0
    fingerprint = fingerprint_of(renderer, reference)

    def rendered(pair: Preference) -> list[RenderedDialogue]:
        return [renderer.render(dialogue) for dialogue in pair.dialogues]

    with new_store(folder, fingerprint) as store:
        for chunk in chunks(pairs, CHUNK):
            kept = []
            for answers in bad_rows.parsed(chunk, rendered):
                if max(len(answer.tokens) for answer in answers) > length + 1:
                    counts[TOO_LONG] += 1
                else:
                    kept.append(answers)
            done += len(chunk)
            if kept:
                for name, side in zip(SIDES, zip(*kept, strict=True), strict=True):
                    append(store, name, side, vocabulary)
                store.append("reference", _reference(reference, kept), "float32")
            progress(done)
        if not store.size("reference"):
            raise DataError(
                f"no pair of answers is left: {counts[TOO_LONG]:,} have more than {length} tokens",
                hint="a larger --training.length",
            )
        store.metadata[TOO_LONG] = counts[TOO_LONG]
    return EncodedPairs.open(folder, fingerprint, vocabulary)


def _reference(
    reference: TextBundle, pairs: Sequence[Sequence[RenderedDialogue]]
) -> Float[Tensor, "B 2"]:
    """Return the log-probabilities of the better and the worse answers under the reference."""
    answers = [
        (np.array(pair[side].tokens), np.array(pair[side].is_target))
        for side in (0, 1)
        for pair in pairs
    ]
    log_p = log_probabilities(reference.model, answers, reference.device)
    return torch.tensor(log_p).view(2, -1).T


@dataclass(frozen=True)
class HeldOutPairs:
    """Held-out pairs, and the reference, if it is at hand."""

    pairs: EncodedPairs
    reference: TextBundle | None

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.pairs)


def prepare_pairs(
    config: PreferenceRunConfig, start: TextBundle, length: int, folder: Path, emit: Emit
) -> Sides[EncodedPairs]:
    """Encode the pairs into the run folder with the log-probabilities of the reference, or reuse
    them."""
    with renderer_of(start.tokenizer, template_of_bundle(start)) as renderer:
        fingerprint = fingerprint_of(renderer, start)
        return prepare_sides(
            folder,
            config.data,
            lambda bad_rows: split_pairs(config.data, bad_rows, emit),
            lambda path: EncodedPairs.open(path, fingerprint, start.tokenizer.size),
            lambda pairs, path, bad_rows, progress: write_pairs(
                pairs, renderer, start, length, path, bad_rows, progress
            ),
            lambda encoded: {TOO_LONG: encoded.skipped},
            "pairs",
            emit,
        )


def reference_of(config: object) -> TextBundle:
    """Load the reference of a run. Raises UsageError if the run names none."""
    start = config.training.start if isinstance(config, PreferenceRunConfig) else None
    if start is None:
        raise UsageError(
            "margins are differences from the model before training, which is unknown",
            hint="evaluate the run of headway train prefer, not a copy of its model",
        )
    return load_as(TextBundle, start)


def held_out_pairs(
    bundle: TextBundle, run: Path, config: object, options: PreferenceScoring
) -> HeldOutPairs:
    """Open the held-out pairs of a run. Raises UsageError if they are missing."""
    folder = held_out_folder(run, "pairs")
    reference = reference_of(config)
    with renderer_of(bundle.tokenizer, template_of_bundle(bundle)) as renderer:
        fingerprint = fingerprint_of(renderer, reference)
    return HeldOutPairs(EncodedPairs.open(folder, fingerprint, bundle.tokenizer.size), reference)


def read_pairs(
    bundle: TextBundle,
    paths: Sequence[Path],
    config: RunSettings | None,
    options: PreferenceScoring,
) -> HeldOutPairs:
    """Read and encode the pairs of files, with the log-probabilities of the run's reference."""
    reference = reference_of(config)
    length = fitted_length(None, 4 * LONGEST, bundle.model.max_length)
    with (
        tempfile.TemporaryDirectory() as folder,  # the files stay mapped after they are removed
        renderer_of(bundle.tokenizer, template_of_bundle(bundle)) as renderer,
    ):
        pairs = write_pairs(
            read_preferences(paths),
            renderer,
            reference,
            length,
            Path(folder) / "pairs",
            NONE_LEFT_OUT,
        )
    return HeldOutPairs(pairs, reference)
