"""The data of word vectors: vocabulary and encoded text in the run folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from headway.base.errors import UsageError
from headway.base.files import not_a_file
from headway.data.prepared import Progress, prepared, progress_of
from headway.data.read_once import ReadOnce
from headway.data.rows import read_texts
from headway.data.split import is_held_out
from headway.tasks.job import Emit
from headway.tasks.word_vectors.config import TextConfig, WordsRunConfig
from headway.tasks.word_vectors.word_corpus import WordCorpus, prepare_words
from headway.text import Vocabulary

FEW_LINES = 100
"""Minimum number of lines of a text of which some are held out."""


@dataclass(frozen=True)
class PreparedText:
    """Vocabulary and encoded text. valid: the same as train if the text is too short to split."""

    vocabulary: Vocabulary
    train: WordCorpus
    valid: WordCorpus


def check(config: WordsRunConfig) -> None:
    """Raise UsageError if no text files are named, or if a file is missing."""
    if not config.data.train:
        raise UsageError(
            "no training text is named",
            hint="headway train words FILE, where FILE is .txt or .tsv, plain or .gz",
        )
    check_files([Path(name) for name in config.data.train])


def check_files(paths: Sequence[Path]) -> None:
    """Raise UsageError unless all paths are files."""
    for path in paths:
        if not path.is_file():
            hint = "name text files: .txt or .tsv, plain or .gz"
            raise UsageError(not_a_file(path), str(path), hint)


def prepare_text(config: TextConfig, folder: Path, emit: Emit) -> PreparedText:
    """Prepare vocabulary and encoded text in the run folder, or reuse them."""
    paths = [Path(path) for path in config.train]
    lines = ReadOnce(
        lambda: read_texts(paths, config.column),
        lambda line: line,
        str,
        folder,
        progress_of(emit, "text", "lines"),
    )

    @cache
    def fraction() -> float:
        return config.held_out if sum(1 for _ in islice(lines, FEW_LINES)) == FEW_LINES else 0.0

    def part(held_out: bool, progress: Progress) -> Iterator[str]:
        for number, line in enumerate(lines, start=1):
            if number % 20_000 == 0:
                progress(number)
            if is_held_out(line, fraction()) == held_out:
                yield line

    reused = (folder / "vocabulary.json").exists()
    if reused:
        vocabulary = Vocabulary.load(folder)
    else:
        words = part(False, progress_of(emit, "words", "lines"))
        vocabulary = Vocabulary.count(words, config.vocabulary, config.min_count)
        vocabulary.save(folder)
    size = {"words": vocabulary.size - 1, "min_count": config.min_count, "reused": reused}
    emit({"kind": "vocabulary", **size})

    def encoded(name: str, held_out: bool) -> WordCorpus:
        return prepared(
            folder / "data" / name,
            lambda path: WordCorpus.open(path, vocabulary),
            lambda path, progress: prepare_words(part(held_out, progress), vocabulary, path),
            lambda corpus: {
                "count": corpus.words,
                "unit": "words",
                "skipped": {"unknown": corpus.unknown},
            },
            emit,
            "lines",
        )

    train = encoded("train", False)
    is_split = (folder / "data" / "valid").exists() or fraction() > 0
    valid = encoded("valid", True) if is_split else train
    return PreparedText(vocabulary, train, valid if valid.has_neighbours else train)
