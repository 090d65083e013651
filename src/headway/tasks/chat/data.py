"""The conversations of a run: reads, splits and encodes them."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from headway.bundle import TextBundle
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.dialogues import DIALOGUES, ENDINGS, Dialogue, read_dialogues
from headway.tasks.chat.config import LONGEST, ChatDataConfig, ChatRunConfig, ChatScoring
from headway.tasks.dialogue_store import (
    TRAIN,
    VALID,
    EncodedDialogues,
    fitted_length,
    held_out_folder,
    prepare_sides,
    template_of_bundle,
    write_dialogues,
)
from headway.tasks.finetuning import ExampleFiles, Sides
from headway.tasks.job import Emit
from headway.tasks.sections import RunSettings
from headway.tasks.target_mask import renderer_of

CONVERSATIONS = ExampleFiles(
    examples=DIALOGUES,
    kinds=".jsonl, .json or .parquet",
    endings=ENDINGS,
    content=DIALOGUES,
    trains="a chat model",
    start="a language model",
    get="--from RUN; headway train gpt-tiny TEXT trains a language model",
)


def split_dialogues(
    data: ChatDataConfig, bad_rows: BadRows, emit: Emit
) -> tuple[list[Dialogue], list[Dialogue]]:
    """Read the training conversations and the validation conversations.

    What precedes the first answer decides whether a conversation is held out, so that equal
    questions are in the same split. Raises DataError if a split is empty.
    """
    dialogues, valid = CONVERSATIONS.read(data, lambda files: read_dialogues(files, bad_rows))
    return CONVERSATIONS.split(data, dialogues, valid, lambda one: one.question, emit=emit)


def prepare_chat(
    config: ChatRunConfig, start: TextBundle, length: int, folder: Path, emit: Emit
) -> Sides[EncodedDialogues]:
    """Encode the conversations into the run folder, or reuse them."""
    size = start.tokenizer.size
    with renderer_of(start.tokenizer, template_of_bundle(start)) as renderer:
        sides = prepare_sides(
            folder,
            config.data,
            lambda bad_rows: split_dialogues(config.data, bad_rows, emit),
            lambda path: EncodedDialogues.open(path, renderer, size),
            lambda dialogues, path, bad_rows, progress: write_dialogues(
                dialogues, renderer, size, length, path, bad_rows, progress
            ),
            lambda encoded: dict(encoded.skipped),
            DIALOGUES,
            emit,
        )
    for name, encoded in zip((TRAIN, VALID), sides, strict=True):
        if encoded.truncated:
            text = f"{encoded.truncated:,} conversations of {name} have more than {length} tokens "
            emit({"kind": "note", "text": f"{text}and are truncated (training.length)"})
    return sides


def held_out_chat(
    bundle: TextBundle, run: Path, config: object, options: ChatScoring
) -> EncodedDialogues:
    """Open the held-out conversations of a run. Raises UsageError if they are missing."""
    folder = held_out_folder(run, DIALOGUES)
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
