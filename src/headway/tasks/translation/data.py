"""The data of translation: checks of the settings, and tokenizers and shards in the run folder,
made or reused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, UsageError
from headway.data.bad_rows import BadRows
from headway.data.overlap import Sides
from headway.data.prepared import Progress, numbered, prepared, progress_of
from headway.data.read_once import ReadOnce
from headway.data.split import is_held_out, repeats
from headway.tasks.text_data import tokenizer_of_run
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationDataConfig, TranslationRunConfig
from headway.tasks.translation.directions import DirectedSplits, corpora_of, languages_of, tagged
from headway.tasks.translation.pair_files import Pair, PairFiles
from headway.tasks.translation.pairs.reading import read_pairs
from headway.tasks.translation.parallel_corpus import Corpus, prepare
from headway.tasks.translation.random_splits import check_random_splits
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

    start: the model that is fine-tuned, whose tokenizers are used.
    """
    corpora = corpora_of(config)
    for files in (files for corpus in corpora for _, files in corpus.files.items()):
        for note in files.notes:
            emit({"kind": "note", "text": note})
    pairs = PairsOnce(config, corpora, folder, progress_of(emit, "pairs", "pairs"))
    tokenizers = tokenizer_of_run(
        folder, TokenizerPair.load, lambda: _tokenizers(config, pairs, emit, start), emit
    )

    def corpus(name: str, read: Callable[[], Iterator[Pair]]) -> Corpus:
        def make(path: Path, progress: Progress) -> Corpus:
            aligned = bool(config.alignments) and name != VALID
            longest = config.max_length
            return prepare(read(), tokenizers, path, longest, progress, aligned=aligned)

        return prepared(
            folder / "data" / name,
            lambda path: Corpus.open(path, tokenizers),
            make,
            lambda corpus: {"count": len(corpus), "unit": "pairs", "skipped": corpus.skipped},
            emit,
            "pairs",
        )

    names = numbered("train", len(corpora))
    train = [corpus(name, partial(pairs.train, number)) for number, name in enumerate(names)]
    valid = corpus(VALID, pairs.valid)
    directions = tuple(c.direction.name for c in corpora if c.direction is not None)
    joined = Corpus.joined(train)
    valid_pairs = _with_both_sides(pairs.valid())
    pairs.announce_bad_rows(emit)
    return Prepared(tokenizers, joined, valid, valid_pairs, directions)


def validation_pairs(config: TranslationDataConfig) -> list[Pair]:
    """Read the validation pairs of a run to be translated, as in `Prepared.valid_pairs`.

    They are those of the validation file, or held-out training pairs.
    """
    return _with_both_sides(held_out_pairs(config))


def held_out_pairs(config: TranslationDataConfig) -> Iterator[Pair]:
    """Read all validation pairs of a run: those of the validation file, or held-out training
    pairs."""
    corpora = [replace(corpus, alignments=None) for corpus in corpora_of(config)]
    return PairsOnce(config, corpora).valid()


def sides(data: TranslationDataConfig) -> Sides:
    """Read the sources of all pairs of a run."""
    corpora = [replace(corpus, alignments=None) for corpus in corpora_of(data)]
    pairs = PairsOnce(data, corpora)
    return Sides(
        train=(pair.source for number in range(len(corpora)) for pair in pairs.train(number)),
        held_out=(pair.source for pair in pairs.valid()),
    )


def _with_both_sides(pairs: Iterator[Pair]) -> list[Pair]:
    return [pair for pair in islice(pairs, VALIDATED) if pair.source and pair.target]


def _tokenizers(
    config: TranslationDataConfig,
    pairs: PairsOnce,
    emit: Callable[[Event], None],
    start: TranslatorBundle | None,
) -> tuple[TokenizerPair, str]:
    """Return the tokenizers of the pre-trained model, or new ones, and their origin in words."""
    if start is not None:
        return start.tokenizer, "of the pre-trained model"
    emit({"kind": "preparing", "what": "tokenizer", "done": 0})
    tokenizers = _trained(config, pairs)
    kind = _KINDS[config.tokenizer].subwords.name
    return tokenizers, f"{kind}, {'joint' if tokenizers.joint else 'one per language'}"


def _trained(config: TranslationDataConfig, pairs: PairsOnce) -> TokenizerPair:
    """Train tokenizers on the training pairs, with the tags that the configuration needs."""
    tags = [tag_of(language) for language in pairs.languages]
    if any(corpus.back_translated for corpus in pairs.corpora):
        tags.append(BACK_TRANSLATED)
    if config.corruption:
        tags += [f"<extra_id_{number}>" for number in range(SENTINELS)]
    return TokenizerPair.train(
        lambda: (
            (pair.source, pair.target)
            for number in range(len(pairs.corpora))
            for pair in pairs.train(number, are_tagged=False)
        ),
        config.vocabulary,
        config.joint,
        tags,
        _KINDS[config.tokenizer],
    )


class PairsOnce:
    """The pairs of all corpora of a run; each of their files is read once.

    A fraction of the pairs is held out of a corpus without a validation file, but none of a
    back-translated one. With several corpora no sentence that is held out, as a source or as a
    target, occurs in training.
    """

    def __init__(
        self,
        config: TranslationDataConfig,
        corpora: Sequence[DirectedSplits],
        folder: Path | None = None,
        progress: Progress = lambda count: None,
    ) -> None:
        """folder, progress: as those of `ReadOnce`."""
        self.corpora, self.languages = corpora, languages_of(corpora)
        self._bad_rows = BadRows.of(config.bad_rows)

        def once(files: PairFiles, alignments: Path | None = None) -> ReadOnce[Pair]:
            def read() -> Iterator[Pair]:
                pairs = read_pairs(files, self._bad_rows)
                return pairs if alignments is None else with_links(pairs, alignments)

            return ReadOnce(read, _packed, _unpacked, folder, progress)

        def valid(number: int, corpus: DirectedSplits) -> ReadOnce[Pair] | None:
            if corpus.files.valid is not None:
                return once(corpus.files.valid)
            read = partial(self._held_out, number)
            return ReadOnce(read, _packed, _unpacked, folder) if corpus.holds_out else None

        self._train = [once(corpus.files.train, corpus.alignments) for corpus in corpora]
        self._valid = [valid(number, corpus) for number, corpus in enumerate(corpora)]

    def train(self, number: int, *, are_tagged: bool = True) -> Iterator[Pair]:
        """Yield the training pairs of a corpus.

        are_tagged: whether the sources get the tags of their target language, and those of
        back-translated corpora <BT>.
        """
        corpus = self.corpora[number]
        is_file = corpus.files.valid is not None
        several, fraction = len(self.corpora) > 1, self._fraction
        for pair in self._train[number]:
            if is_file or not (
                is_held_out(pair.source, fraction)
                or (several and is_held_out(pair.target, fraction))
            ):
                yield tagged(
                    pair,
                    corpus.direction,
                    self.languages if are_tagged else (),
                    back_translated=corpus.back_translated and are_tagged,
                )

    def valid(self) -> Iterator[Pair]:
        """Yield the validation pairs of all corpora by turns."""
        for group in zip_longest(*map(self._valid_of, range(len(self.corpora)))):
            yield from (pair for pair in group if pair is not None)

    def _valid_of(self, number: int) -> Iterator[Pair]:
        direction = self.corpora[number].direction
        for pair in self._valid[number] or ():
            yield tagged(pair, direction, self.languages)

    def _held_out(self, number: int) -> Iterator[Pair]:
        fraction = self._fraction
        return (pair for pair in self._train[number] if is_held_out(pair.source, fraction))

    @cached_property
    def _fraction(self) -> float:
        """The fraction of the pairs that is held out of the corpora without a validation file.

        It is 0 if there is no such corpus. Raises DataError if one of them would have no pair that
        is held out.
        """
        without = [
            (corpus, pairs)
            for corpus, pairs in zip(self.corpora, self._train, strict=True)
            if corpus.holds_out
        ]
        if not without:
            return 0.0
        total = sum(len(pairs) for _, pairs in without)
        fraction = min(HELD_OUT, HELD_OUT_MOST / max(total, 1))
        for corpus, pairs in without:
            if not any(is_held_out(pair.source, fraction) for pair in pairs):
                hint = "give a validation file: --data.valid FILE"
                if len(self.corpora) > 1:
                    hint = "put it into a folder with a validation file: train.tsv and valid.tsv"
                sources = [pair.source for pair in pairs]
                raise DataError(
                    f"there are too few training pairs ({len(sources)}) to hold out some for "
                    f"validation{repeats(sources)}",
                    " + ".join(map(str, corpus.files.train.all_paths)),
                    hint,
                )
        return fraction

    def announce_bad_rows(self, emit: Callable[[Event], None]) -> None:
        """Emit the rows that were left out, unless a resumed run did not read all files."""
        every = (*self._train, *self._valid)
        if all(pairs is None or pairs.is_read for pairs in every):
            self._bad_rows.announce(emit)


def _packed(pair: Pair) -> list[object]:
    return [pair.source, pair.target, pair.line, pair.links]


def _unpacked(values: list[Any]) -> Pair:
    source, target, line, links = values
    return Pair(source, target, line, "", tuple(map(tuple, links)) if links else ())


def check_settings(config: TranslationRunConfig) -> None:
    """Raise UsageError for settings that cannot work together."""
    _check_guided_alignment(config)
    if config.data.corruption:
        _check_corruption(config)
    is_pretrained = config.training.start is not None
    check_random_splits(config.data, pretrained=is_pretrained)
    model, longest = config.model, config.data.max_length
    if not is_pretrained and model.positions == "learned" and model.max_length <= longest:
        raise UsageError(
            f"model.max_length={model.max_length} is too small: sentences have up to "
            f"data.max_length={longest} tokens and </s>",
            hint=f"--model.max-length {longest + 1} or --data.max-length {model.max_length - 1}",
        )


def _check_guided_alignment(config: TranslationRunConfig) -> None:
    """Raise UsageError for settings of guided alignment that cannot work."""
    data, training, model = config.data, config.training, config.model
    if not training.guided_alignment:
        if data.alignments:
            raise UsageError(
                "data.alignments is set, but training.guided_alignment is 0",
                hint="--training.guided-alignment 0.05, or leave out --data.alignments",
            )
        return
    if len(data.alignments) != len(data.train):
        raise UsageError(
            f"training.guided_alignment needs a file of word alignments for each corpus, but there "
            f"are {len(data.alignments)} files for {len(data.train)} corpora",
            hint="--data.alignments FILE, in the order of the corpora",
        )
    if not model.cross_attention_layers or model.attention == "linear":
        raise UsageError(
            f"training.guided_alignment needs attention weights that sum to 1, but the model has "
            f"model.attention={model.attention}",
            hint="a score with softmax, such as --model.attention scaled-dot",
        )
    for name, value in (("drop", data.noise_drop), ("shuffle", data.noise_shuffle)):
        if value:
            raise UsageError(
                f"data.noise_{name}={value} removes or moves the words that data.alignments counts",
                hint=f"--data.noise-{name} 0 with --training.guided-alignment; noise_mask moves "
                "no word",
            )
    for key, is_set in (
        ("training.recompute", training.recompute),
        ("machine.compile", config.machine.compile),
    ):
        if is_set:
            raise UsageError(
                f"{key}=true does not keep the attention weights that training.guided_alignment "
                "needs",
                hint=f"--{key} false",
            )


def _check_corruption(config: TranslationRunConfig) -> None:
    """Raise UsageError for settings that are not for span corruption."""
    data = config.data
    names = "source target directions weights test bpe_dropout unigram_alpha"
    names += " noise_drop noise_mask noise_shuffle"
    conflicts = [f"data.{name}" for name in (*names.split(), "alignments") if getattr(data, name)]
    conflicts += [] if data.joint else ["data.joint=false"]
    if conflicts:
        raise UsageError(
            f"{conflicts[0]}: span corruption trains one vocabulary on plain text, without pairs, "
            "noise or random segmentations",
            hint="leave it out",
        )
    if config.evaluation.metric != "nats":
        raise UsageError(
            f"evaluation.metric={config.evaluation.metric}: span corruption is evaluated by nats",
            hint="--evaluation.metric nats",
        )
    least = 256 + 3 + SENTINELS
    if config.training.start is None and data.vocabulary < least:
        raise UsageError(
            f"data.vocabulary={data.vocabulary}: span corruption needs at least {least} (256 "
            f"bytes, {SENTINELS} sentinels and 3 other special tokens)",
            hint=f"--data.vocabulary {least} or more",
        )
