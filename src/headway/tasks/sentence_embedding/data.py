"""From a person's pairs of texts to examples in memory, and a note in the run folder of which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats import SimilarTexts, check_table, read_similar
from headway.data.similar_pairs import SimilarPairs
from headway.errors import DataError, UsageError
from headway.tasks.finetuning import check_start, check_unchanged
from headway.tasks.job import Emit
from headway.tasks.sentence_embedding.config import EmbedDataConfig, EmbedRunConfig
from headway.tasks.splits import hold_out
from headway.text import MarkedTokenizer

FILE = "pairs.json"


@dataclass(frozen=True)
class PreparedPairs:
    """What a sentence encoder is trained and evaluated on. Scores of `train` lie between 0 and 1;
    those of `held_out` are as they are in the files."""

    train: SimilarPairs
    held_out: SimilarPairs


def check_pairs(config: EmbedRunConfig) -> None:
    """UsageError unless there are pairs, and a model to start from."""
    data = config.data
    if not data.train:
        raise UsageError(
            "there are no pairs to learn from",
            hint="headway train embed FILE --from ENCODER, where FILE is .tsv, .csv or .jsonl with "
            "the columns first and second",
        )
    for name in (*data.train, *data.valid):
        check_table(Path(name))
    check_start(config.training.start, "a sentence encoder")


def similar_texts(data: EmbedDataConfig) -> tuple[list[SimilarTexts], list[SimilarTexts]]:
    """What is trained on, and what is held out: data.valid, or some of data.train.

    Which of them follows from the first text alone, so that one that stands twice is not on both
    sides. DataError where a side is empty, where some pairs of a side have scores and others have
    not, or where all scores are the same.
    """

    given, sources = read_texts(data.train, data), ", ".join(data.train)
    if data.valid:
        train, valid, sources = given, read_texts(data.valid, data), ", ".join(data.valid)
    else:
        train, valid = hold_out(given, lambda pair: pair.first, data.held_out)
    for side, what in ((train, "left to train on"), (valid, "held out")):
        if len(side) < 2:
            raise DataError(
                f"{len(side)} of {len(given):,} pairs {'is' if len(side) == 1 else 'are'} {what}, "
                "and two are needed",
                sources,
                "--data.valid FILE, or another --data.held-out",
            )
        scores = {each.score for each in side}
        if len(scores) == 1 and None not in scores:
            raise DataError(f"all pairs {what} have the score {scores.pop():g}", sources)
    named = data.score != EmbedDataConfig().score
    if named and not any(each.score is not None for side in (train, valid) for each in side):
        raise UsageError(f"no pair has a score {data.score!r}", sources, "--data.score NAME")
    return train, valid


def read_texts(names: Sequence[str], data: EmbedDataConfig) -> list[SimilarTexts]:
    """The pairs of some files. DataError where some have scores and others have not."""
    pairs = list(read_similar([Path(n) for n in names], data.first, data.second, data.score))
    scored = [each.score is not None for each in pairs]
    if any(scored) and not all(scored):
        first = pairs[scored.index(False)]
        what = f"there is no {data.score!r}, and other pairs have one"
        raise DataError(what, first.where, "give all, or none")
    return pairs


def prepare_pairs(
    config: EmbedRunConfig, tokenizer: MarkedTokenizer, room: int, folder: Path, emit: Emit
) -> PreparedPairs:
    """The examples, encoded. DataError if the run began with others.

    room: the most ids of one text that the model to start from reads.
    """
    length = min(config.data.max_length, room)
    train, valid = similar_texts(config.data)
    prepared = PreparedPairs(
        _scaled(encoded(train, tokenizer, length)), encoded(valid, tokenizer, length)
    )
    seen = [[s.first, s.second, s.scores] for s in (prepared.train, prepared.held_out)]
    check_unchanged(folder / FILE, tokenizer.fingerprint, seen)
    for name, side in (("train", prepared.train), ("valid", prepared.held_out)):
        emit({"kind": "prepared", "what": name, "count": len(side), "unit": "pairs"})
        full = sum(len(row) == length for texts in (side.first, side.second) for row in texts)
        if full:
            text = f"{full:,} texts of {name} fill {length} pieces; what is longer was cut"
            emit({"kind": "note", "text": text})
    emit({"kind": "note", "text": _what_is_learned(train, config)})
    return prepared


def _what_is_learned(train: list[SimilarTexts], config: EmbedRunConfig) -> str:
    scores = [each.score for each in train if each.score is not None]
    if not scores:
        return f"each first text is to find its second among the {config.training.rows} of a batch"
    low, high = min(scores), max(scores)
    return f"cosines are fitted to {config.data.score!r}: {low:g} becomes 0, {high:g} becomes 1"


def encoded(pairs: list[SimilarTexts], tokenizer: MarkedTokenizer, length: int) -> SimilarPairs:
    """The pairs as ids between marks, each text of at most `length`."""

    def side(texts: list[str]) -> list[list[int]]:
        rows = tokenizer.encode_batch(texts)
        return [tokenizer.marks.frame(row, room=length)[0] for row in rows]

    scores = [each.score for each in pairs if each.score is not None]
    first, second = side([each.first for each in pairs]), side([each.second for each in pairs])
    return SimilarPairs(first, second, scores or None)


def _scaled(pairs: SimilarPairs) -> SimilarPairs:
    """Scores from 0 to 1, as cosines of similar and unrelated texts are."""
    if pairs.scores is None:
        return pairs
    low, high = min(pairs.scores), max(pairs.scores)
    scores = [(score - low) / (high - low) for score in pairs.scores]
    return SimilarPairs(pairs.first, pairs.second, scores)
