"""Pairs of similar texts: reads, checks, splits and encodes them, and makes batches of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from headway.base.errors import DataError, UsageError
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.padding import EncoderBatch, collate_encoder_batch
from headway.data.rows import ENDINGS, ROWS
from headway.data.split import hold_out, repeats
from headway.data.stream import Batch, Indices
from headway.tasks.finetuning import ExampleFiles, Sides, check_unchanged
from headway.tasks.job import Emit, TextPairs
from headway.tasks.sentence_embedding.config import EmbedDataConfig, EmbedRunConfig
from headway.tasks.sentence_embedding.similar_files import SimilarTexts, read_similar
from headway.text import EncoderTokenizer, PretrainedTokenizer

FILE = "pairs.json"
PAIRS = ExampleFiles(
    examples="pairs",
    kinds=".tsv, .csv or .jsonl with the columns first and second",
    endings=ENDINGS,
    content=ROWS,
    trains="a sentence encoder",
)
SHOWN = 8  # pairs of the film of a run
Ids = Sequence[int]


@dataclass(frozen=True)
class SimilarBatch(Batch):
    """Pairs of texts: row i of `first` and row i of `second` are a pair.

    shared: True where two different pairs have a text in common. scores: similarity of each pair,
    from 0 to 1; None if all pairs are similar. indices: indices of the pairs in the data.
    """

    examples = "text pairs"
    first: EncoderBatch
    second: EncoderBatch
    shared: Bool[Tensor, "B B"]
    scores: Float[Tensor, " B"] | None
    indices: tuple[int, ...]


@dataclass(frozen=True)
class SimilarPairs:
    """Encoded pairs. first, second: the framed ids of the texts. scores: one per pair, or None."""

    first: Sequence[Ids]
    second: Sequence[Ids]
    scores: Sequence[float] | None = None

    def __len__(self) -> int:
        return len(self.first)

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of both texts of each pair."""
        return [len(a) + len(b) for a, b in zip(self.first, self.second, strict=True)]

    def batch(self, indices: Indices, pad: int) -> SimilarBatch:
        """Return the pairs with these indices as a batch."""
        chosen = [int(i) for i in indices]
        first, second = ([side[i] for i in chosen] for side in (self.first, self.second))
        return SimilarBatch(
            collate_encoder_batch(first, None, pad),
            collate_encoder_batch(second, None, pad),
            share_texts(first, second),
            None if self.scores is None else torch.tensor([self.scores[i] for i in chosen]),
            tuple(chosen),
        )


def share_texts(first: Sequence[Ids], second: Sequence[Ids]) -> Bool[Tensor, "B B"]:
    """Return a mask that is True where pairs i and j, i not j, have a text in common on any
    side."""
    numbers: dict[tuple[int, ...], int] = {}
    a, b = (_numbered(side, numbers) for side in (first, second))
    shared = a[:, None] == a
    for left_numbers, right_numbers in ((b, b), (a, b), (b, a)):
        shared = shared | (left_numbers[:, None] == right_numbers)
    return shared.fill_diagonal_(False)


def _numbered(side: Sequence[Ids], numbers: dict[tuple[int, ...], int]) -> Int[Tensor, " B"]:
    """Return a number for each text, equal for equal texts."""
    return torch.tensor(
        [numbers.setdefault(tuple(row), len(numbers)) for row in side], dtype=torch.long
    )


@dataclass(frozen=True)
class PreparedPairs(Sides[SimilarPairs]):
    """The encoded training and held-out pairs of a sentence encoder.

    Scores of `train` are scaled to 0 .. 1; those of `held_out` are the scores in the files. shown:
    some of the held-out pairs.
    """

    shown: TextPairs


def similar_texts(
    data: EmbedDataConfig, emit: Emit = lambda event: None
) -> tuple[list[SimilarTexts], list[SimilarTexts]]:
    """Read the training pairs and the validation pairs.

    The validation pairs are data.valid if set, else a held-out fraction of data.train. The first
    text decides, so that all its pairs are in the same split. Raises DataError if a split has fewer
    than two pairs, if only some pairs of a file have scores, or if all scores are equal.
    """
    bad_rows = BadRows.of(data.bad_rows)
    pairs, validation = PAIRS.read(data, lambda files: read_texts(files, data, bad_rows))
    bad_rows.announce(emit)
    train, valid, sources = pairs, validation, ", ".join(data.valid or data.train)
    if valid is None:
        train, valid = hold_out(pairs, lambda pair: pair.first, data.held_out)
    for side, name in ((train, "training"), (valid, "validation")):
        if len(side) < 2:
            raise DataError(
                f"the {name} split has {len(side)} of {len(pairs):,} pairs, but at least two are "
                f"needed{repeats(pair.first for pair in pairs) if validation is None else ''}",
                sources,
                "--data.valid FILE, or another --data.held-out",
            )
        scores = {pair.score for pair in side}
        if len(scores) == 1 and None not in scores:
            raise DataError(f"all {name} pairs have the score {scores.pop():g}", sources)
    column_is_set = data.score != EmbedDataConfig().score
    if column_is_set and not any(pair.score is not None for pair in (*train, *valid)):
        raise UsageError(
            f"no pair has a score in the column {data.score!r}", sources, "--data.score NAME"
        )
    return train, valid


def read_texts(
    paths: Sequence[Path], data: EmbedDataConfig, bad_rows: BadRows = NONE_LEFT_OUT
) -> list[SimilarTexts]:
    """Read the pairs of files. Raises DataError if only some of them have scores."""
    pairs = list(read_similar(paths, data.first, data.second, data.score, bad_rows))
    scored = [pair.score is not None for pair in pairs]
    if any(scored) and not all(scored):
        first = pairs[scored.index(False)]
        raise DataError(
            f"the pair has no {data.score!r}, but other pairs have one",
            first.where,
            "give scores for all pairs, or for none",
        )
    return pairs


def prepare_pairs(
    config: EmbedRunConfig, tokenizer: EncoderTokenizer, room: int, folder: Path, emit: Emit
) -> PreparedPairs:
    """Read and encode the pairs; the scores of the training pairs are scaled to 0 .. 1.

    room: the maximum length of the pre-trained encoder in tokens.
    """
    length = min(config.data.max_length, room)
    train, valid = similar_texts(config.data, emit)
    prepared = PreparedPairs(
        _scaled(encoded(train, tokenizer, length)),
        encoded(valid, tokenizer, length),
        most_similar(valid),
    )
    contents = [[side.first, side.second, side.scores] for side in prepared]
    check_unchanged(folder / FILE, tokenizer.fingerprint, contents)
    for name, side in zip(("train", "valid"), prepared, strict=True):
        emit({"kind": "prepared", "what": name, "count": len(side), "unit": "pairs"})
        full = sum(len(row) == length for texts in (side.first, side.second) for row in texts)
        if full:
            text = f"{full:,} texts of {name} have {length} tokens or are truncated to {length}"
            emit({"kind": "note", "text": text})
    emit({"kind": "note", "text": _describe_loss(train, config)})
    return prepared


def most_similar(pairs: Sequence[SimilarTexts], count: int = SHOWN) -> TextPairs:
    """Return the pairs with the highest scores, or the first ones, without a text twice."""
    chosen: dict[str, str] = {}
    for pair in sorted(pairs, key=lambda pair: -(pair.score or 0.0)):
        texts = {*chosen, *chosen.values()}
        if len(chosen) < count and texts.isdisjoint((pair.first, pair.second)):
            chosen[pair.first] = pair.second
    return TextPairs(list(chosen), list(chosen.values()))


def _describe_loss(train: list[SimilarTexts], config: EmbedRunConfig) -> str:
    scores = [pair.score for pair in train if pair.score is not None]
    if not scores:
        return f"contrastive loss with {config.training.batch_size - 1} in-batch negatives per pair"
    low, high = min(scores), max(scores)
    return f"cosines are fitted to {config.data.score!r}: {low:g} becomes 0, {high:g} becomes 1"


def encoded(
    pairs: list[SimilarTexts], tokenizer: EncoderTokenizer | PretrainedTokenizer, length: int
) -> SimilarPairs:
    """Encode pairs with special tokens, and truncate texts to `length` tokens."""
    before, after = tokenizer.frame
    room = max(0, length - len(before) - len(after))

    def side(texts: list[str]) -> list[list[int]]:
        return [[*before, *ids[:room], *after] for ids in tokenizer.encode_batch(texts)]

    scores = [pair.score for pair in pairs if pair.score is not None]
    first, second = side([pair.first for pair in pairs]), side([pair.second for pair in pairs])
    return SimilarPairs(first, second, scores or None)


def _scaled(pairs: SimilarPairs) -> SimilarPairs:
    """Scale the scores to 0 .. 1, the range of cosines of unrelated and similar texts."""
    if pairs.scores is None:
        return pairs
    low, high = min(pairs.scores), max(pairs.scores)
    scores = [(score - low) / (high - low) for score in pairs.scores]
    return SimilarPairs(pairs.first, pairs.second, scores)
