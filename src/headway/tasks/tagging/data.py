"""Tagged sentences of a run: checks, splits and encodes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.base.errors import DataError
from headway.data.bad_rows import BadRows
from headway.data.formats.split_files import files_of
from headway.data.split import check_known, check_sides, hold_out
from headway.data.word_targets import WordTargets
from headway.tasks.finetuning import (
    PreparedExamples,
    check_examples,
    check_unchanged,
    require_encoder,
)
from headway.tasks.job import Emit
from headway.tasks.tagging.config import TagDataConfig, TagRunConfig
from headway.tasks.tagging.model import TagReader
from headway.tasks.tagging.tag_files import ENDINGS, TAGGED, TaggedSentence, read_tagged

FILE = "texts.json"


PreparedTags = PreparedExamples[TagReader, WordTargets, TaggedSentence]


def check_tags(config: TagRunConfig) -> None:
    """Raise UsageError if sentences or the pre-trained encoder are missing."""
    files = ".conll, .conllu, .jsonl or .parquet"
    check_examples(config, "sentences", files, ENDINGS, TAGGED)
    require_encoder(config.training.start, "a tagger")


def tagged_sentences(
    data: TagDataConfig, emit: Emit = lambda event: None
) -> tuple[list[TaggedSentence], list[TaggedSentence]]:
    """Read the training sentences and the validation sentences.

    The validation sentences are data.valid if set, else a held-out fraction of data.train. The
    words of a sentence decide (`hold_out`), so that duplicates are in the same split. The first
    sentence with a tag that no training sentence has is not held out. Raises DataError if a split
    is empty, if there is only one tag, or for a tag of data.valid that data.train does not have.
    """
    bad_rows = BadRows.of(data.bad_rows)
    train_files, valid_files = files_of(data.train, data.valid, ENDINGS, TAGGED)
    sentences = list(read_tagged(train_files, data.column, bad_rows))
    sources = ", ".join(data.train)
    tags = {tag for sentence in sentences for tag in sentence.tags}
    if len(tags) < 2:
        actual = f"all words have the tag {tags.pop()!r}" if tags else "there are no words"
        raise DataError(f"expected at least two different tags, but {actual}", sources)
    if valid_files:
        valid = list(read_tagged(valid_files, data.column, bad_rows))
        check_known(tags_of(valid), tags, "tag", "the training sentences")
        train, sources = sentences, ", ".join(map(str, valid_files))
    else:
        train, valid = hold_out(
            sentences,
            _text,
            data.held_out,
            labels=lambda sentence: sentence.tags,
            emit=emit,
            unit="sentences",
        )
    bad_rows.announce(emit)
    content = None if valid_files else _text
    check_sides(train, valid, f"{len(sentences):,} sentences", sources, content=content)
    return train, valid


def _text(sentence: TaggedSentence) -> str:
    return " ".join(sentence.words)


def tags_of(sentences: Sequence[TaggedSentence]) -> Iterator[tuple[str, str]]:
    """Return the tags of sentences with their locations (file and line)."""
    return ((tag, sentence.where) for sentence in sentences for tag in sentence.tags)


def prepare_tags(
    splits: tuple[list[TaggedSentence], list[TaggedSentence]],
    reader: TagReader,
    folder: Path,
    emit: Emit,
) -> PreparedTags:
    """Encode the training and the validation sentences, and emit their numbers.

    Raises DataError if the sentences have changed since the run started.
    """
    length = reader.max_length
    numbers = {tag: i for i, tag in enumerate(reader.tags)}
    sides, contents = [], []
    for name, sentences in zip(("train", "valid"), splits, strict=True):
        rows_of = reader.encode([sentence.words for sentence in sentences])
        targets = [[numbers[tag] for tag in sentence.tags] for sentence in sentences]
        sides.append(side := WordTargets.of(rows_of, targets))
        contents.append([[list(row.ids) for row in side.rows], side.targets])
        emit({"kind": "prepared", "what": name, "count": len(sentences), "unit": "sentences"})
        if split := sum(len(rows) > 1 for rows in rows_of):
            text = f"{split:,} sentences of {name} have more than {length} tokens and are split"
            emit({"kind": "note", "text": text})
    check_unchanged(folder / FILE, reader.fingerprint, contents)
    counts = Counter(tag for sentence in splits[1] for tag in sentence.tags)
    tag, count = counts.most_common(1)[0]
    text = (
        f"{len(reader.tags)} tags; majority baseline ({tag!r}): accuracy "
        f"{count / counts.total():.1%}"
    )
    emit({"kind": "note", "text": text})
    return PreparedTags(reader, sides[0], splits[1])
