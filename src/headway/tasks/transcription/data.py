"""Recordings with transcripts: reads tables of them, splits them, and makes batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from headway.base.errors import DataError, UsageError
from headway.base.shapes import Float, Int, Tensor
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.images import image_file
from headway.data.rows import ENDINGS, ROWS, Row, read_rows
from headway.data.speech import HOP, RATE, read_recording, recording_spectrogram, window_at
from headway.data.stream import Batch, Indices
from headway.tasks.finetuning import ExampleFiles, Sides, check_unchanged
from headway.tasks.job import Emit
from headway.tasks.transcription.config import SpeechDataConfig, SpeechRunConfig
from headway.tasks.transcription.model import TranscriberBundle

FILE = "recordings.json"
RECORDINGS = ExampleFiles(
    examples="recordings",
    kinds="a table of WAV files and transcripts",
    endings=ENDINGS,
    content=ROWS,
    trains="a transcriber",
    start="a pre-trained one",
    get="--from MODEL, a Whisper folder",
)


@dataclass(frozen=True)
class SpokenText:
    """A recording with its transcript. language: the code of its language; None for a model of one.
    where: file and line, for errors."""

    file: Path
    text: str
    language: str | None
    where: str


@dataclass(frozen=True)
class SpeechBatch(Batch):
    """Spectrograms of windows, with transcripts for next-token prediction.

    read: the tokens that the decoder reads, padded on the right. targets: the next token of each,
    -1 at padding. count: the number of targets.
    """

    examples = "recordings"
    frames: Float[Tensor, "B Y X"]
    read: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    indices: tuple[int, ...]
    count: int


def read_spoken(
    paths: Sequence[Path], data: SpeechDataConfig, bad_rows: BadRows = NONE_LEFT_OUT
) -> Iterator[SpokenText]:
    """Yield the recordings that tables name, with their transcripts. Raises DataError for a row
    without a file or a transcript."""
    columns = {data.sound: "--data.sound", data.text: "--data.text"}

    def parsed(row: Row) -> SpokenText:
        file = image_file(
            row.path.parent,
            row.values.get(data.sound),
            repr(data.sound),
            row.where,
            "enter a path, or name the column of the paths with --data.sound",
        )
        return SpokenText(file, " ".join(row.text(data.text).split()), data.language, row.where)

    for path in paths:
        yield from bad_rows.parsed(read_rows(path, columns, bad_rows), parsed)


def spoken_sides(
    data: SpeechDataConfig, emit: Emit = lambda event: None
) -> Sides[list[SpokenText]]:
    """Read the training and the held-out recordings. Those of one transcript are on one side."""
    bad_rows = BadRows.of(data.bad_rows)
    spoken, valid = RECORDINGS.read(data, lambda paths: read_spoken(paths, data, bad_rows))
    bad_rows.announce(emit)
    return Sides(*RECORDINGS.split(data, spoken, valid, lambda one: one.text, emit=emit))


def prepare_spoken(
    bundle: TranscriberBundle, config: SpeechRunConfig, folder: Path, emit: Emit
) -> Sides[list[SpokenText]]:
    """Read the recordings of a run, and check that a resumed run has the same ones.

    Raises UsageError if a model of several languages is given none.
    """
    check_language(bundle, config.data.language)
    sides = spoken_sides(config.data, emit)
    for name, side in zip(("train", "valid"), sides, strict=True):
        emit({"kind": "prepared", "what": name, "count": len(side), "unit": "recordings"})
    contents = [[[one.file.name, one.text, one.language] for one in side] for side in sides]
    check_unchanged(folder / FILE, bundle.reader.fingerprint, contents)
    return sides


def check_language(bundle: TranscriberBundle, language: str | None) -> None:
    """Raise UsageError for a language that the model does not have, and if it needs one."""
    if bundle.languages and language is None:
        raise UsageError(
            "the language of the recordings is missing: the model has several",
            hint="--data.language en",
        )
    bundle.check_language(language)


def speech_batch(
    spoken: Sequence[SpokenText], indices: Indices, bundle: TranscriberBundle
) -> SpeechBatch:
    """Return recordings with their transcripts as one batch.

    The targets are the tokens after the start: language, task, no times, transcript, end. Raises
    DataError for a recording that is longer than a window, or a transcript that is too long.
    """
    chosen = [spoken[int(index)] for index in indices]
    rows = [_tokens(one, bundle) for one in chosen]
    longest = max(map(len, rows)) - 1
    read = torch.full((len(rows), longest), bundle.reader.tokenizer.eos)
    targets = torch.full((len(rows), longest), -1)
    for number, row in enumerate(rows):
        read[number, : len(row) - 1] = torch.tensor(row[:-1])
        targets[number, : len(row) - 1] = torch.tensor(row[1:])
    frames = torch.cat([_window(one, bundle) for one in chosen])
    count = sum(len(row) - 1 for row in rows)
    return SpeechBatch(frames, read, targets, tuple(map(int, indices)), count)


def _tokens(one: SpokenText, bundle: TranscriberBundle) -> list[int]:
    reader, limit = bundle.reader, bundle.model.max_length
    prompt = reader.tokens.prompt(one.language, translate=False, timestamps=False)
    tokens = [*prompt, *reader.encode(one.text), reader.tokenizer.eos]
    if len(tokens) > limit + 1:
        raise DataError(
            f"the transcript has {len(tokens)} tokens, but the model has {limit} positions",
            one.where,
            "cut the recording into shorter ones, or delete the row",
        )
    return tokens


def _window(one: SpokenText, bundle: TranscriberBundle) -> Float[Tensor, "1 Y X"]:
    samples, frames = read_recording(one.file), bundle.window
    if len(samples) > frames * HOP:
        raise DataError(
            f"the recording lasts {len(samples) / RATE:.1f} seconds, but the model reads "
            f"{frames * HOP / RATE:.0f} at once",
            str(one.file),
            "cut it into shorter ones with their transcripts, or delete the row",
        )
    return window_at(recording_spectrogram(samples, bundle.model.config.mels, frames)[0], 0, frames)
