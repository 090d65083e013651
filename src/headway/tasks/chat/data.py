"""The conversations of a run: reads, splits and encodes them; and the questions of the held-out
ones."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import UsageError
from headway.bundle import TextBundle
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.dialogues import DIALOGUES, ENDINGS, Dialogue, read_dialogues
from headway.data.formats.split_files import files_of
from headway.data.split import check_sides, evenly_spaced, hold_out
from headway.tasks.chat.config import LONGEST, ChatDataConfig, ChatRunConfig, ChatScoring
from headway.tasks.dialogue_store import (
    EncodedDialogues,
    fitted_length,
    prepare_dialogues,
    template_of_bundle,
    write_dialogues,
)
from headway.tasks.finetuning import check_examples
from headway.tasks.job import Emit
from headway.tasks.sections import RunSettings
from headway.tasks.target_mask import renderer_of

TRAIN, VALID = "train", "valid"


@dataclass(frozen=True)
class PreparedChat:
    """The training conversations, and the held-out ones."""

    train: EncodedDialogues
    held_out: EncodedDialogues


def check_chat(config: ChatRunConfig) -> None:
    """Raise UsageError if conversations or the pre-trained model are missing, or if settings
    conflict."""
    check_examples(config, DIALOGUES, ".jsonl, .json or .parquet", ENDINGS, DIALOGUES)
    if config.training.start is None:
        raise UsageError(
            "a chat model is fine-tuned from a language model, and none is named",
            hint="--from RUN; headway train gpt-tiny TEXT trains a language model",
        )
    if config.lora.rank and (config.training.frozen is not None or config.optimizer.kind == "muon"):
        raise UsageError(
            "lora.rank cannot be combined with training.frozen, because adapters freeze all "
            "blocks, or with optimizer.kind=muon",
            hint="leave out --training.frozen, and use --optimizer.kind adamw",
        )


def split_dialogues(
    data: ChatDataConfig, bad_rows: BadRows, emit: Emit
) -> tuple[list[Dialogue], list[Dialogue]]:
    """Read the training conversations and the validation conversations.

    The latter are data.valid if set, else a held-out fraction of data.train: what precedes the
    first answer decides, so that equal questions are in the same split. Raises DataError if a split
    is empty.
    """
    train_files, valid_files = files_of(data.train, data.valid, ENDINGS, DIALOGUES)
    dialogues = list(read_dialogues(train_files, bad_rows))
    if valid_files:
        train, valid = dialogues, list(read_dialogues(valid_files, bad_rows))
    else:
        train, valid = hold_out(
            dialogues, lambda dialogue: dialogue.question, data.held_out, emit=emit, unit=DIALOGUES
        )
    content = None if valid_files else lambda dialogue: dialogue.question
    sources = ", ".join(map(str, valid_files or data.train))
    check_sides(train, valid, f"{len(dialogues):,} {DIALOGUES}", sources, content=content)
    return train, valid


def prepare_chat(
    config: ChatRunConfig, start: TextBundle, length: int, folder: Path, emit: Emit
) -> PreparedChat:
    """Encode the conversations into the run folder, or reuse them."""
    bad_rows = BadRows.of(config.data.bad_rows)
    sides: dict[str, list[Dialogue]] = {}
    paths = {name: folder / "data" / name for name in (TRAIN, VALID)}
    if not all(path.exists() for path in paths.values()):
        train, valid = split_dialogues(config.data, bad_rows, emit)
        sides = {TRAIN: train, VALID: valid}
    with renderer_of(start.tokenizer, template_of_bundle(start)) as renderer:
        encoded = {
            name: prepare_dialogues(
                lambda name=name: sides[name],  # type: ignore[misc]
                renderer,
                start.tokenizer.size,
                length,
                path,
                bad_rows,
                emit,
            )
            for name, path in paths.items()
        }
    bad_rows.announce(emit)
    return PreparedChat(encoded[TRAIN], encoded[VALID])


def held_out_chat(
    bundle: TextBundle, run: Path, config: object, options: ChatScoring
) -> EncodedDialogues:
    """Open the held-out conversations of a run. Raises UsageError if they are missing."""
    folder = run / "data" / VALID
    if not folder.is_dir():
        raise UsageError(
            "the held-out conversations of the run are missing",
            str(folder),
            f"name a file: headway eval {run} FILE",
        )
    with renderer_of(bundle.tokenizer, template_of_bundle(bundle)) as renderer:
        return EncodedDialogues.open(folder, renderer, bundle.tokenizer.size)


def read_chat(
    bundle: TextBundle, paths: Sequence[Path], config: RunSettings | None, options: ChatScoring
) -> EncodedDialogues:
    """Read and encode the conversations of files."""
    length = config.training.length if isinstance(config, ChatRunConfig) else None
    length = fitted_length(length, 4 * LONGEST, bundle.model.max_length)
    with (
        tempfile.TemporaryDirectory() as folder,  # the files stay mapped after they are removed
        renderer_of(bundle.tokenizer, template_of_bundle(bundle)) as renderer,
    ):
        return write_dialogues(
            read_dialogues(paths),
            renderer,
            bundle.tokenizer.size,
            length,
            Path(folder) / "dialogues",
            NONE_LEFT_OUT,
        )


@dataclass(frozen=True)
class Question:
    """The tokens up to the last answer of a conversation, and those of this answer."""

    prompt: list[int]
    answer: list[int]


def questions_of(
    dialogues: EncodedDialogues, ends: Sequence[int], most: int | None
) -> list[Question]:
    """Return the last questions of at most `most` conversations, evenly spaced; None: all.

    ends: the tokens that end an answer; a truncated answer has none, and is left out.
    """
    questions = []
    for index in range(len(dialogues)):
        tokens, is_target = dialogues.dialogue(index)
        last = int(is_target.nonzero()[0][-1]) + 1
        start = last - 1
        while start > 1 and is_target[start - 1]:
            start -= 1
        if tokens[last - 1] in ends:
            questions.append(Question(tokens[:start].tolist(), tokens[start:last].tolist()))
    return [questions[i] for i in evenly_spaced(len(questions), most)]
