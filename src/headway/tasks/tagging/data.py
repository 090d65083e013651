"""Tagged sentences of a run: checks, splits and encodes them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.base.errors import DataError
from headway.data.bad_rows import BadRows
from headway.data.split import check_known, majority_baseline
from headway.data.word_targets import WordTargets
from headway.tasks.finetuning import ExampleFiles, PreparedExamples, check_unchanged
from headway.tasks.job import Emit
from headway.tasks.tagging.config import TagDataConfig
from headway.tasks.tagging.model import TagReader
from headway.tasks.tagging.tag_files import ENDINGS, TAGGED, TaggedSentence, read_tagged

FILE = "texts.json"
SENTENCES = ExampleFiles(
    examples="sentences",
    kinds=".conll, .conllu, .jsonl or .parquet",
    endings=ENDINGS,
    content=TAGGED,
    trains="a tagger",
)

PreparedTags = PreparedExamples[TagReader, WordTargets, TaggedSentence]


def tagged_sentences(
    data: TagDataConfig, emit: Emit = lambda event: None
) -> tuple[list[TaggedSentence], list[TaggedSentence]]:
    """Read the training sentences and the validation sentences.

    The words of a sentence decide whether it is held out, so that duplicates are in the same split.
    Raises DataError if a split is empty, if there is only one tag, or for a tag of data.valid that
    data.train does not have.
    """
    bad_rows = BadRows.of(data.bad_rows)
    sentences, valid = SENTENCES.read(data, lambda files: read_tagged(files, data.column, bad_rows))
    tags = {tag for sentence in sentences for tag in sentence.tags}
    if len(tags) < 2:
        actual = f"all words have the tag {tags.pop()!r}" if tags else "there are no words"
        what = f"expected at least two different tags, but {actual}"
        raise DataError(what, ", ".join(data.train))
    check_known(tags_of(valid or ()), tags, "tag", "the training sentences")
    bad_rows.announce(emit)
    return SENTENCES.split(
        data,
        sentences,
        valid,
        lambda sentence: " ".join(sentence.words),
        labels=lambda sentence: sentence.tags,
        emit=emit,
    )


def tags_of(sentences: Sequence[TaggedSentence]) -> Iterator[tuple[str, str]]:
    """Return the tags of sentences with their locations (file and line)."""
    return ((tag, sentence.where) for sentence in sentences for tag in sentence.tags)


def prepare_tags(
    splits: tuple[list[TaggedSentence], list[TaggedSentence]],
    reader: TagReader,
    folder: Path,
    emit: Emit,
) -> PreparedTags:
    """Encode the training and the validation sentences, and emit their numbers."""
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
    baseline = majority_baseline(tag for sentence in splits[1] for tag in sentence.tags)
    emit({"kind": "note", "text": f"{len(reader.tags)} tags; {baseline}"})
    return PreparedTags(reader, sides[0], splits[1])
