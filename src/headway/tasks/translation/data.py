"""The data of translation: tokenizers and shards in the run folder, made or reused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path

from headway.base.errors import DataError
from headway.data.bad_rows import STOP, BadRows
from headway.data.prepared import Progress, numbered, prepared
from headway.data.split import is_held_out, repeats
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationDataConfig
from headway.tasks.translation.directions import (
    DirectedSplits,
    corpora_of,
    languages_of,
    tagged,
)
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.pairs.reading import read_pairs
from headway.tasks.translation.parallel_corpus import Corpus, prepare
from headway.tasks.translation.span_corruption import SENTINELS
from headway.tasks.translation.target_languages import tag_of
from headway.tasks.translation.word_alignment import with_links
from headway.text import (
    BACK_TRANSLATED,
    SentenceSubwords,
    Tokenizer,
    TokenizerPair,
    UnigramTokenizer,
)
from headway.training import Event

HELD_OUT = 0.03
"""Fraction of the training pairs that is held out if there is no validation file."""

HELD_OUT_MOST = 1000
"""Maximum number of pairs that are held out."""

VALIDATED = 10_000
"""Maximum number of validation pairs that are kept as text, to be translated."""

VALID = "valid"
"""Name of the shards of the validation pairs."""

_KINDS: dict[str, type[SentenceSubwords]] = {"bpe": Tokenizer, "unigram": UnigramTokenizer}


@dataclass(frozen=True)
class Prepared:
    """The prepared data of a translator.

    valid_pairs: the plain validation sentences, for BLEU. directions: that of each corpus, if there
    are several or the settings name it.
    """

    tokenizers: TokenizerPair
    train: Corpus
    valid: Corpus
    valid_pairs: list[Pair]
    directions: tuple[str, ...] = ()


def prepare_data(
    config: TranslationDataConfig,
    folder: Path,
    emit: Callable[[Event], None],
    start: TranslatorBundle | None = None,
) -> Prepared:
    """Prepare tokenizers and shards in the run folder, or reuse them.

    emit: receives progress. start: the model that is fine-tuned, whose tokenizers are used.
    """
    corpora = corpora_of(config)
    for note in (files.note for corpus in corpora for _, files in corpus.files.items()):
        if note is not None:
            emit({"kind": "note", "text": note})
    _announce_bad_rows(config, corpora, emit)
    fraction = _held_out_fraction(corpora)
    tokenizers = _tokenizers(config, corpora, fraction, folder, emit, start)

    def corpus(name: str, pairs: Reader) -> Corpus:
        def make(path: Path, progress: Progress) -> Corpus:
            aligned = bool(config.alignments) and name != VALID
            longest = config.max_length
            return prepare(pairs(), tokenizers, path, longest, progress, aligned=aligned)

        return prepared(
            folder / "data" / name,
            lambda path: Corpus.open(path, tokenizers),
            make,
            lambda corpus: {"count": len(corpus), "unit": "pairs", "skipped": corpus.skipped},
            emit,
            "pairs",
        )

    train_pairs, valid_pairs = _readers(corpora, fraction, languages_of(corpora))
    names = numbered("train", len(corpora))
    train = [corpus(name, pairs) for name, pairs in zip(names, train_pairs, strict=True)]
    valid = corpus(VALID, valid_pairs)
    directions = tuple(c.direction.name for c in corpora if c.direction is not None)
    joined = Corpus.joined(train)
    return Prepared(tokenizers, joined, valid, _with_both_sides(valid_pairs()), directions)


def _announce_bad_rows(
    config: TranslationDataConfig, corpora: Sequence[DirectedSplits], emit: Callable[[Event], None]
) -> None:
    """Emit the rows that are left out of the training and validation files, if any may be."""
    if config.bad_rows == STOP:
        return
    bad_rows = BadRows.of(config.bad_rows)
    for corpus in corpora:
        for _, files in corpus.files.items():
            for _ in read_pairs(files, bad_rows):
                pass
    bad_rows.announce(emit)


def validation_pairs(config: TranslationDataConfig) -> list[Pair]:
    """Read the validation pairs of a run to be translated, as in `Prepared.valid_pairs`.

    They are those of the validation file, or held-out training pairs.
    """
    return _with_both_sides(held_out_pairs(config))


def held_out_pairs(config: TranslationDataConfig) -> Iterator[Pair]:
    """Read all validation pairs of a run: those of the validation file, or held-out training
    pairs."""
    corpora = corpora_of(config)
    fraction = _held_out_fraction(corpora)
    _, valid_pairs = _readers(corpora, fraction, languages_of(corpora))
    return valid_pairs()


def _with_both_sides(pairs: Iterator[Pair]) -> list[Pair]:
    return [pair for pair in islice(pairs, VALIDATED) if pair.source and pair.target]


def _tokenizers(
    config: TranslationDataConfig,
    corpora: Sequence[DirectedSplits],
    fraction: float,
    folder: Path,
    emit: Callable[[Event], None],
    start: TranslatorBundle | None,
) -> TokenizerPair:
    reused = any(folder.glob("tokenizer*.json"))
    if reused:
        tokenizers, how = TokenizerPair.load(folder), "reused"
    elif start is not None:
        tokenizers, how = start.tokenizer, "of the pre-trained model"
    else:
        emit({"kind": "preparing", "what": "tokenizer", "done": 0})
        tokenizers = _trained(config, corpora, fraction)
        kind = _KINDS[config.tokenizer].subwords.name
        how = f"{kind}, {'joint' if tokenizers.joint else 'one per language'}"
    if not reused:
        tokenizers.save(folder)
    emit({"kind": "tokenizer", "vocabulary_size": tokenizers.target.size, "how": how})
    return tokenizers


def _trained(
    config: TranslationDataConfig, corpora: Sequence[DirectedSplits], fraction: float
) -> TokenizerPair:
    """Train tokenizers on the training pairs, with the tags that the configuration needs."""
    train_pairs, _ = _readers(corpora, fraction, None)
    tags = [tag_of(language) for language in languages_of(corpora)]
    if any(corpus.back_translated for corpus in corpora):
        tags.append(BACK_TRANSLATED)
    if config.corruption:
        tags += [f"<extra_id_{number}>" for number in range(SENTINELS)]
    return TokenizerPair.train(
        lambda: ((p.source, p.target) for pairs in train_pairs for p in pairs()),
        config.vocabulary,
        config.joint,
        tags,
        _KINDS[config.tokenizer],
    )


Reader = Callable[[], Iterator[Pair]]
"""Reads pairs anew each time it is called."""


def _readers(
    corpora: Sequence[DirectedSplits], fraction: float, languages: Sequence[str] | None
) -> tuple[list[Reader], Reader]:
    """Return functions that read the training pairs of each corpus, and the validation pairs of all
    corpora by turns.

    fraction: that of the pairs which is held out of a corpus without a validation file; none is
    held out of a back-translated one. languages: the target languages, whose tags the sources get,
    as those of back-translated corpora get <BT>; None for texts without any tag. With several
    corpora no sentence that is held out, as a source or as a target, occurs in training.
    """
    several = len(corpora) > 1

    def train_of(corpus: DirectedSplits) -> Iterator[Pair]:
        is_file = corpus.files.valid is not None
        pairs = read_pairs(corpus.files.train)
        if corpus.alignments is not None:
            pairs = with_links(pairs, corpus.alignments)
        for pair in pairs:
            if is_file or not (
                is_held_out(pair.source, fraction)
                or (several and is_held_out(pair.target, fraction))
            ):
                yield tagged(
                    pair,
                    corpus.direction,
                    languages or (),
                    back_translated=corpus.back_translated and languages is not None,
                )

    def valid_of(corpus: DirectedSplits) -> Iterator[Pair]:
        is_file = corpus.files.valid is not None
        if not is_file and not corpus.holds_out:
            return
        for pair in read_pairs(corpus.files.valid or corpus.files.train):
            if is_file or is_held_out(pair.source, fraction):
                yield tagged(pair, corpus.direction, languages or ())

    def valid() -> Iterator[Pair]:
        for group in zip_longest(*map(valid_of, corpora)):
            yield from (pair for pair in group if pair is not None)

    return [partial(train_of, corpus) for corpus in corpora], valid


def _held_out_fraction(corpora: Sequence[DirectedSplits]) -> float:
    """Return the fraction of the pairs that is held out of the corpora without a validation file.

    It is 0 if there is no such corpus. Raises DataError if one of them would have no pair that is
    held out.
    """
    without = [corpus.files.train for corpus in corpora if corpus.holds_out]
    if not without:
        return 0.0
    total = sum(1 for files in without for _ in read_pairs(files))
    fraction = min(HELD_OUT, HELD_OUT_MOST / max(total, 1))
    for files in without:
        if not any(is_held_out(pair.source, fraction) for pair in read_pairs(files)):
            hint = "give a validation file: --data.valid FILE"
            if len(corpora) > 1:
                hint = "put it into a folder with a validation file: train.tsv and valid.tsv"
            sources = [pair.source for pair in read_pairs(files)]
            raise DataError(
                f"there are too few training pairs ({len(sources)}) to hold out some for "
                f"validation{repeats(sources)}",
                " + ".join(map(str, files.paths)),
                hint,
            )
    return fraction
