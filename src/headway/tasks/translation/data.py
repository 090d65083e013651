"""The data of translation: tokenizers and shards in the run folder, made or reused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from headway.data.formats import Pair, PairFiles, Splits, locate, pair_files, read_pairs
from headway.data.parallel_corpus import Corpus, prepare
from headway.errors import DataError, UsageError
from headway.tasks.splits import is_held_out
from headway.tasks.translation.config import TranslationDataConfig
from headway.text import TokenizerPair
from headway.training import Event

HELD_OUT = 0.03
"""Fraction of the training pairs that is held out if there is no validation file."""

HELD_OUT_MOST = 1000
"""Maximum number of pairs that are held out."""

VALIDATED = 10_000
"""Maximum number of validation pairs that are kept as text, to be translated."""

_KINDS = {True: "byte-level BPE, joint", False: "byte-level BPE, one per language"}


@dataclass(frozen=True)
class Prepared:
    """The prepared data of a translator. valid_pairs: the plain validation sentences, for BLEU."""

    tokenizers: TokenizerPair
    train: Corpus
    valid: Corpus
    valid_pairs: list[Pair]


def splits_of(config: TranslationDataConfig) -> Splits:
    """Find the files of the splits of a data configuration."""
    if config.train is None:
        raise UsageError(
            "no training pairs are named",
            hint="headway train translate DATA --source en --target de, where DATA is a table "
            "(.tsv, .csv, .jsonl), a .po, .mo, .tmx or .xliff file, a folder, or the common prefix "
            "of two aligned files",
        )
    files = locate(Path(config.train), config.source, config.target, config.inline_tags)

    def files_of(path: str | None, default: PairFiles | None) -> PairFiles | None:
        if not path:
            return default
        return pair_files(Path(path), config.source, config.target, config.inline_tags)

    return Splits(
        files.train, files_of(config.valid, files.valid), files_of(config.test, files.test)
    )


def prepare_data(
    config: TranslationDataConfig, folder: Path, emit: Callable[[Event], None]
) -> Prepared:
    """Prepare tokenizers and shards in the run folder, or reuse them. emit: receives progress."""
    splits = splits_of(config)
    tokenizers = _tokenizers(config, splits, folder, emit)

    def shards(name: str, pairs: Callable[[], Iterator[Pair]]) -> Corpus:
        path = folder / "data" / name
        if path.exists():
            corpus = Corpus.open(path, tokenizers)
            emit({"kind": "prepared", "what": name, "count": len(corpus), "reused": True})
            return corpus

        def progress(done: int) -> None:
            emit({"kind": "preparing", "what": name, "done": done})

        corpus = prepare(pairs(), tokenizers, path, config.max_length, progress)
        emit({"kind": "prepared", "what": name, "count": len(corpus), "skipped": corpus.skipped})
        return corpus

    train_pairs, valid_pairs = _readers(splits)
    train = shards("train", train_pairs)
    valid = shards("valid", valid_pairs)
    return Prepared(tokenizers, train, valid, _with_both_sides(valid_pairs()))


def validation_pairs(config: TranslationDataConfig) -> list[Pair]:
    """Read the validation pairs of a run to be translated, as in `Prepared.valid_pairs`.

    They are those of the validation file, or held-out training pairs.
    """
    return _with_both_sides(held_out_pairs(config))


def held_out_pairs(config: TranslationDataConfig) -> Iterator[Pair]:
    """Read all validation pairs of a run: those of the validation file, or held-out training
    pairs."""
    _, valid_pairs = _readers(splits_of(config))
    return valid_pairs()


def within_max_length(
    pairs: Sequence[Pair], tokenizers: TokenizerPair, longest: int, where: str
) -> list[Pair]:
    """Select the validation pairs whose source has at most `longest` tokens.

    where: the file of the pairs, for the error. Raises DataError if there is no such pair.
    """
    sources = tokenizers.source.encode_batch([pair.source for pair in pairs])
    short = [p for p, ids in zip(pairs, sources, strict=True) if len(ids) <= longest]
    if not short:
        raise DataError(
            f"all validation sentences have more than {longest:,} tokens",
            where,
            "--data.valid FILE with shorter sentences",
        )
    return short


def _with_both_sides(pairs: Iterator[Pair]) -> list[Pair]:
    return [pair for pair in islice(pairs, VALIDATED) if pair.source and pair.target]


def _tokenizers(
    config: TranslationDataConfig, splits: Splits, folder: Path, emit: Callable[[Event], None]
) -> TokenizerPair:
    if any(folder.glob("tokenizer*.json")):
        tokenizers = TokenizerPair.load(folder)
        emit({"kind": "tokenizer", "vocabulary_size": tokenizers.target.size, "how": "reused"})
        return tokenizers
    emit({"kind": "preparing", "what": "tokenizer", "done": 0})
    train_pairs, _ = _readers(splits)
    tokenizers = TokenizerPair.train(
        lambda: ((p.source, p.target) for p in train_pairs()), config.vocabulary, config.joint
    )
    tokenizers.save(folder)
    emit(
        {
            "kind": "tokenizer",
            "vocabulary_size": tokenizers.target.size,
            "how": _KINDS[tokenizers.joint],
        }
    )
    return tokenizers


def _readers(
    splits: Splits,
) -> tuple[Callable[[], Iterator[Pair]], Callable[[], Iterator[Pair]]]:
    """Return functions that read the training pairs and the validation pairs.

    Raises DataError if there are too few pairs to hold some out.
    """
    if splits.valid is not None:
        valid = splits.valid
        return (lambda: read_pairs(splits.train)), (lambda: read_pairs(valid))
    total = sum(1 for _ in read_pairs(splits.train))
    fraction = min(HELD_OUT, HELD_OUT_MOST / max(total, 1))
    if not any(is_held_out(p.source, fraction) for p in read_pairs(splits.train)):
        raise DataError(
            f"there are too few training pairs ({total}) to hold out some for validation",
            splits.train.describe(),
            "give a validation file: --data.valid FILE",
        )
    return (
        lambda: (p for p in read_pairs(splits.train) if not is_held_out(p.source, fraction)),
        lambda: (p for p in read_pairs(splits.train) if is_held_out(p.source, fraction)),
    )
