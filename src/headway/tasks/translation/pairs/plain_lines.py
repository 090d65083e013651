"""Text files whose texts are the sources and the targets of an encoder-decoder's pre-training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.base.errors import UsageError
from headway.base.files import not_a_file
from headway.data.formats.lines import read_lines
from headway.tasks.translation.pair_files import Pair, PairFiles
from headway.text import split_sentences

PASSAGE = 400
"""Maximum number of characters of a text, unless a sentence is longer."""


def plain_files(paths: Sequence[Path]) -> PairFiles:
    """Return the corpus of text files, plain or .gz. Raises UsageError if one does not exist."""
    for path in paths:
        if not path.is_file():
            hint = "name text files, such as text.txt or text.txt.gz"
            raise UsageError(not_a_file(path), str(path), hint)
    return PairFiles(paths=tuple(paths), source="text", target="text", format="plain")


def read_plain(corpus: PairFiles) -> Iterator[Pair]:
    """Stream the lines of the files, each as a pair with itself; empty lines are left out.

    A line of more than `PASSAGE` characters is divided into passages of whole sentences. Raises
    what `read_lines` raises.
    """
    for path in corpus.paths:
        for number, line in enumerate(read_lines(path), start=1):
            for passage in _passages(line.strip()):
                yield Pair(passage, passage, number)


def _passages(line: str) -> Iterator[str]:
    if len(line) <= PASSAGE:
        if line:
            yield line
        return
    passage = ""
    for sentence in split_sentences(line):
        if passage and len(passage) + 1 + len(sentence) > PASSAGE:
            yield passage
            passage = ""
        passage = f"{passage} {sentence}".strip()
    yield passage
