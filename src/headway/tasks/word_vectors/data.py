"""From a person's text files to vocabulary and encoded text in the run folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats import read_texts
from headway.data.word_corpus import WordCorpus, prepare_words
from headway.errors import UsageError
from headway.tasks.job import Emit
from headway.tasks.splits import is_held_out
from headway.tasks.word_vectors.config import TextConfig
from headway.text import Vocabulary

FEW_LINES = 100  # with fewer, nothing is held out


@dataclass(frozen=True)
class PreparedText:
    """What word vectors are learned from. valid is train where the text is too short to part."""

    vocabulary: Vocabulary
    train: WordCorpus
    valid: WordCorpus


def check_text(config: TextConfig) -> None:
    """UsageError unless there are text files, all of which exist."""
    if not config.train:
        raise UsageError(
            "there is no text to learn from",
            hint="headway train words FILE, where FILE is .txt or .tsv, plain or .gz",
        )
    check_files([Path(name) for name in config.train])


def check_files(paths: Sequence[Path]) -> None:
    """UsageError unless all of them are files."""
    for path in paths:
        if not path.is_file():
            what = "a folder, not a file" if path.is_dir() else "no such file"
            raise UsageError(what, str(path), "name text files: .txt or .tsv, plain or .gz")


def _lines(config: TextConfig, emit: Emit, what: str) -> Iterator[str]:
    paths = [Path(name) for name in config.train]
    for number, line in enumerate(read_texts(paths, config.column), start=1):
        if number % 20_000 == 0:
            emit({"kind": "preparing", "what": what, "done": number, "unit": "lines"})
        yield line


def prepare_text(config: TextConfig, folder: Path, emit: Emit) -> PreparedText:
    """Vocabulary and ids in `folder`, made once."""
    lines = sum(1 for _ in _lines(config, emit, "lines"))
    share = config.held_out if lines >= FEW_LINES else 0.0

    def part(held_out: bool, what: str) -> Iterator[str]:
        return (x for x in _lines(config, emit, what) if is_held_out(x, share) == held_out)

    if (folder / "vocabulary.json").exists():
        vocabulary, reused = Vocabulary.load(folder), True
    else:
        most, least = config.vocabulary, config.min_count
        vocabulary, reused = Vocabulary.count(part(False, "words"), most, least), False
        vocabulary.save(folder)
    facts = {"words": vocabulary.size - 1, "min_count": config.min_count, "reused": reused}
    emit({"kind": "vocabulary", **facts})

    def encoded(name: str, held_out: bool) -> WordCorpus:
        path = folder / "data" / name
        reused = path.exists()
        if reused:
            corpus = WordCorpus.open(path, vocabulary)
        else:
            corpus = prepare_words(part(held_out, name), vocabulary, path)
        skipped = {"unknown": corpus.unknown}
        facts = {"what": name, "count": corpus.words, "unit": "words", "reused": reused}
        emit({"kind": "prepared", **facts, "skipped": skipped})
        return corpus

    train = encoded("train", False)
    valid = encoded("valid", True) if share else train
    return PreparedText(vocabulary, train, valid if valid.has_neighbours else train)
