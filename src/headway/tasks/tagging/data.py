"""From a person's tagged sentences to examples in memory, and a note in the run folder of which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats.tags import TaggedSentence, check_tagged, read_tagged
from headway.data.word_targets import WordTargets
from headway.errors import DataError, UsageError
from headway.tasks.finetuning import check_start, check_unchanged
from headway.tasks.job import Emit
from headway.tasks.splits import check_known, check_sides, hold_out
from headway.tasks.tagging.bundle import TagReader
from headway.tasks.tagging.config import TagDataConfig, TagRunConfig
from headway.text import MarkedTokenizer

FILE = "texts.json"


@dataclass(frozen=True)
class PreparedTags:
    """What a tagger is trained on, encoded, and the held-out sentences."""

    reader: TagReader
    train: WordTargets
    held_out: list[TaggedSentence]


def check_tags(config: TagRunConfig) -> None:
    """UsageError unless there are sentences, and a model to start from."""
    if not config.data.train:
        raise UsageError(
            "there are no tagged sentences to learn from",
            hint=f"headway train {config.recipe} FILE --from MODEL, where FILE is "
            ".conll, .conllu or .jsonl",
        )
    for name in (*config.data.train, *config.data.valid):
        check_tagged(Path(name))
    check_start(config.training.start, "a tagger")


def tagged_sentences(
    data: TagDataConfig, emit: Emit = lambda event: None
) -> tuple[list[TaggedSentence], list[TaggedSentence]]:
    """The sentences to train on and those that are held out: data.valid, or some of data.train.

    Which of them follows from the words alone (`hold_out`), so that a sentence that occurs twice is
    not on both sides. The first sentence with a tag that no training sentence has is not held out.
    DataError where a side is empty, where there is one tag only, or for a tag in data.valid that
    data.train does not have.
    """
    given = list(read_tagged([Path(name) for name in data.train], data.column))
    sources = ", ".join(data.train)
    tags = {tag for each in given for tag in each.tags}
    if len(tags) < 2:
        found = f"all words have {tags.pop()!r}" if tags else "there are no words"
        raise DataError(f"two different tags are needed: {found}", sources)
    if data.valid:
        valid = list(read_tagged([Path(name) for name in data.valid], data.column))
        check_known(tags_of(valid), tags, "tag", "the training sentences")
        train, sources = given, ", ".join(data.valid)
    else:
        train, valid = hold_out(
            given,
            lambda sentence: " ".join(sentence.words),
            data.held_out,
            labels=lambda sentence: sentence.tags,
            emit=emit,
            unit="sentences",
        )
    check_sides(train, valid, f"{len(given):,} sentences", sources)
    return train, valid


def tags_of(sentences: Sequence[TaggedSentence]) -> Iterator[tuple[str, str]]:
    """Each tag, and where it is."""
    return ((tag, sentence.where) for sentence in sentences for tag in sentence.tags)


def prepare_tags(
    config: TagRunConfig, tokenizer: MarkedTokenizer, room: int | None, folder: Path, emit: Emit
) -> PreparedTags:
    """The examples, encoded. DataError if the run began with others.

    room: the most ids that the model to start from has places for, None for any number.
    """
    data = config.data
    given = tagged_sentences(data, emit)
    tags = tuple(sorted({tag for each in given[0] for tag in each.tags}))
    length = data.max_length if room is None else min(data.max_length, room)
    return _prepared(given, TagReader(tokenizer, tags, length), folder, emit)


def prepare_tags_as(
    data: TagDataConfig, reader: TagReader, folder: Path, emit: Emit
) -> PreparedTags:
    """The same for a model that has its tags already. DataError for a tag that it has not."""
    given = tagged_sentences(data, emit)
    check_known(tags_of([*given[0], *given[1]]), reader.tags, "tag")
    return _prepared(given, reader, folder, emit)


def _prepared(
    given: tuple[list[TaggedSentence], list[TaggedSentence]],
    reader: TagReader,
    folder: Path,
    emit: Emit,
) -> PreparedTags:
    """Encoded, noted in the run folder and told."""
    length = reader.max_length
    numbers = {tag: i for i, tag in enumerate(reader.tags)}
    sides, seen = [], []
    for name, sentences in zip(("train", "valid"), given, strict=True):
        rows_of = reader.encode([sentence.words for sentence in sentences])
        targets = [[numbers[tag] for tag in sentence.tags] for sentence in sentences]
        sides.append(side := WordTargets.of(rows_of, targets))
        seen.append([[list(row.ids) for row in side.rows], side.targets])
        emit({"kind": "prepared", "what": name, "count": len(sentences), "unit": "sentences"})
        if cut := sum(len(rows) > 1 for rows in rows_of):
            text = f"{cut:,} sentences of {name} are longer than {length} pieces: read in parts"
            emit({"kind": "note", "text": text})
    check_unchanged(folder / FILE, reader.fingerprint, seen)
    counts = Counter(tag for each in given[1] for tag in each.tags)
    tag, count = counts.most_common(1)[0]
    text = (
        f"{len(reader.tags)} tags; to say {tag!r} always is right for {count / counts.total():.1%}"
    )
    emit({"kind": "note", "text": text})
    return PreparedTags(reader, sides[0], given[1])
