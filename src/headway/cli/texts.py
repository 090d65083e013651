"""Texts from the command line, from files, or from standard input; and images: files and
folders."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.cli.inputs import is_file, standard_input
from headway.data.formats.images import image_files
from headway.data.formats.lines import ending, read_lines
from headway.data.images import is_image
from headway.data.rows import ENDINGS as TABLES
from headway.data.rows import read_rows
from headway.terminal.console import say

PLAIN = (".txt", ".md")
ARRAYS = ".npz"
BY_FILE = "file"  # the value of --label that labels a text by the name of its plain text file


@dataclass(frozen=True)
class Texts:
    """Texts, and their labels if they were requested."""

    texts: list[str]
    labels: list[str] | None


def gather(arguments: Sequence[str], column: str = "text", label: str | None = None) -> Texts:
    """The texts that the arguments name, with their labels if `label` is set.

    An argument is the path of a file if that exists, else a text. A plain file has one text per
    line, and the label "file" is its name. Tables and .jsonl have texts in `column` and labels in
    `label`. Blank lines are skipped. Without arguments, standard input is read. UsageError for the
    name of a file that does not exist, DataError if there is no text.
    """
    labelled: list[tuple[str, str | None]] = []
    for argument in arguments:
        path = Path(argument)
        if is_file(argument) and ending(path) == ARRAYS:
            raise UsageError(
                "an .npz file has vectors, not texts",
                argument,
                "headway similar RUN QUERY searches vectors",
            )
        if is_file(argument):
            rows = _rows(path, column, label)
            say(f"read      {path}: {len(rows):,} texts")
            labelled += rows
        elif ending(path) in (*TABLES, *PLAIN) and not any(c.isspace() for c in argument):
            raise UsageError("no such file", argument, "check the path")
        else:
            labelled.append((argument, None))
    if not arguments:
        labelled = [(line.strip(), None) for line in standard_input("text") if line.strip()]
    if not labelled:
        raise DataError("no text found", ", ".join(arguments) or "standard input")
    if label is not None and any(text_label is None for _, text_label in labelled):
        raise UsageError(
            f"--label {label}: some texts have no label",
            hint="labels are read from tables and .jsonl; --label file uses file names",
        )
    labels = None if label is None else [str(text_label) for _, text_label in labelled]
    return Texts([text for text, _ in labelled], labels)


def _rows(path: Path, column: str, label: str | None) -> list[tuple[str, str | None]]:
    """The texts of one file, with their labels or None."""
    if ending(path) not in TABLES:
        kind = path.name if label == BY_FILE else None
        return [(line.strip(), kind) for line in read_lines(path) if line.strip()]
    columns = {column: "--column", **({} if label is None else {label: "--label"})}
    return [
        (row.text(column), None if label is None else row.label(label))
        for row in read_rows(path, columns)
    ]


def image_paths(arguments: Sequence[str], unit: str = "image") -> list[Path]:
    """The paths of image or WAV files, and of all in folders. unit: the word for one of them, for
    the UsageError without arguments."""
    if not arguments:
        hint = f"name {unit} files, or folders of {unit}s"
        raise UsageError(f"the {unit}s are missing", hint=hint)
    return [path for argument in arguments for path in image_files(Path(argument))]


def names_images(argument: str) -> bool:
    """Whether an argument is the path of an image file or of a folder."""
    return os.path.isdir(argument) or (is_image(argument) and os.path.isfile(argument))


def gather_images(arguments: Sequence[str], label: str | None) -> Texts:
    """The paths of images, labelled by the names of their folders if `label` is "folder"."""
    if label not in (None, "folder"):
        raise UsageError(
            f"--label {label}: images can only be labelled by folder", hint="--label folder"
        )
    paths = image_paths(arguments)
    return Texts(
        [str(path) for path in paths], None if label is None else [p.parent.name for p in paths]
    )
