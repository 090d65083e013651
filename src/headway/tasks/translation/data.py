"""From the user's files to token shards in the run folder; what exists is reused."""

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

HELD_OUT = 0.03  # of the pairs, where there is no validation file ...
HELD_OUT_MOST = 1000  # ... but no more than so many
VALIDATED = 10_000  # validation pairs of which some are translated
_KINDS = {True: "byte-level BPE, joint", False: "byte-level BPE, one a language"}


@dataclass(frozen=True)
class Prepared:
    """Everything a translator learns from. valid_pairs: the raw sentences, for BLEU."""

    tokenizers: TokenizerPair
    train: Corpus
    valid: Corpus
    valid_pairs: list[Pair]


def splits_of(config: TranslationDataConfig) -> Splits:
    """The files behind a data configuration."""
    if config.train is None:
        raise UsageError(
            "there is no data to train on",
            hint="headway train translate DATA --source en --target de, where DATA is a .tsv file, "
            "a folder, or the beginning of two aligned files",
        )
    found = locate(Path(config.train), config.source, config.target)

    def named(path: str | None, otherwise: PairFiles | None) -> PairFiles | None:
        return pair_files(Path(path), config.source, config.target) if path else otherwise

    return Splits(found.train, named(config.valid, found.valid), named(config.test, found.test))


def prepare_data(
    config: TranslationDataConfig, folder: Path, emit: Callable[[Event], None]
) -> Prepared:
    """Tokenizer and shards in `folder`, made once. `emit` hears what happens and how far it is."""
    splits = splits_of(config)
    tokenizers = _tokenizers(config, splits, folder, emit)

    def shards(name: str, pairs: Callable[[], Iterator[Pair]]) -> Corpus:
        place = folder / "data" / name
        if place.exists():
            corpus = Corpus.open(place, tokenizers)
            emit({"kind": "prepared", "what": name, "count": len(corpus), "reused": True})
            return corpus

        def progress(done: int) -> None:
            emit({"kind": "preparing", "what": name, "done": done})

        corpus = prepare(pairs(), tokenizers, place, config.max_length, progress)
        emit({"kind": "prepared", "what": name, "count": len(corpus), "skipped": corpus.skipped})
        return corpus

    train_pairs, valid_pairs = _readers(splits)
    train = shards("train", train_pairs)
    valid = shards("valid", valid_pairs)
    return Prepared(tokenizers, train, valid, _with_both_sides(valid_pairs()))


def validation_pairs(config: TranslationDataConfig) -> list[Pair]:
    """The pairs that a run with this configuration validates on, as in `Prepared.valid_pairs`:
    those of the validation file, or those that it holds out of its training pairs."""
    return _with_both_sides(held_out_pairs(config))


def held_out_pairs(config: TranslationDataConfig) -> Iterator[Pair]:
    """All pairs that a run with this configuration is not trained on: those of the validation file,
    or those that it holds out of its training pairs."""
    _, valid_pairs = _readers(splits_of(config))
    return valid_pairs()


def translatable(
    pairs: Sequence[Pair], tokenizers: TokenizerPair, longest: int, where: str
) -> list[Pair]:
    """The validation pairs whose source has at most `longest` tokens. where: the file that they are
    of. DataError if there is none."""
    sources = tokenizers.source.encode_batch([pair.source for pair in pairs])
    short = [p for p, ids in zip(pairs, sources, strict=True) if len(ids) <= longest]
    if not short:
        raise DataError(
            f"no validation sentence has at most {longest:,} tokens",
            where,
            "--data.valid FILE with shorter ones",
        )
    return short


def _with_both_sides(pairs: Iterator[Pair]) -> list[Pair]:
    return [pair for pair in islice(pairs, VALIDATED) if pair.source and pair.target]


def _tokenizers(
    config: TranslationDataConfig, splits: Splits, folder: Path, emit: Callable[[Event], None]
) -> TokenizerPair:
    if any(folder.glob("tokenizer*.json")):
        tokenizers = TokenizerPair.load(folder)
        emit({"kind": "tokenizer", "pieces": tokenizers.target.size, "how": "reused"})
        return tokenizers
    emit({"kind": "preparing", "what": "tokenizer", "done": 0})
    train_pairs, _ = _readers(splits)
    tokenizers = TokenizerPair.train(
        lambda: ((p.source, p.target) for p in train_pairs()), config.vocabulary, config.joint
    )
    tokenizers.save(folder)
    emit({"kind": "tokenizer", "pieces": tokenizers.target.size, "how": _KINDS[tokenizers.joint]})
    return tokenizers


def _readers(
    splits: Splits,
) -> tuple[Callable[[], Iterator[Pair]], Callable[[], Iterator[Pair]]]:
    """How to read the training and the validation pairs, each from the start."""
    if splits.valid is not None:
        valid = splits.valid
        return (lambda: read_pairs(splits.train)), (lambda: read_pairs(valid))
    total = sum(1 for _ in read_pairs(splits.train))
    share = min(HELD_OUT, HELD_OUT_MOST / max(total, 1))
    if not any(is_held_out(p.source, share) for p in read_pairs(splits.train)):
        raise DataError(
            f"{total} pairs are too few to hold some out for validation",
            splits.train.describe(),
            "give a validation file: --data.valid FILE",
        )
    return (
        lambda: (p for p in read_pairs(splits.train) if not is_held_out(p.source, share)),
        lambda: (p for p in read_pairs(splits.train) if is_held_out(p.source, share)),
    )
