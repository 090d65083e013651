"""Directions of translation: which languages each corpus has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.base.errors import UsageError
from headway.data.bad_rows import BadRows
from headway.data.formats.lines import ending
from headway.data.formats.split_files import grouped
from headway.data.mixing import check_weights
from headway.tasks.translation.config import TranslationDataConfig
from headway.tasks.translation.pair_files import Pair, PairFiles, is_language
from headway.tasks.translation.pairs.reading import OPENERS, pair_files, plain_files
from headway.tasks.translation.pairs.splits import Splits, locate
from headway.tasks.translation.target_languages import tag_of
from headway.text import BACK_TRANSLATED

_LANGUAGE = re.compile(r"[A-Za-z0-9_@.-]+")
_IN_NAME = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")


@dataclass(frozen=True)
class Direction:
    """The source and the target language of a corpus."""

    source: str
    target: str

    @property
    def name(self) -> str:
        """The direction as `data.directions` has it: en-de, or en:pt-BR."""
        separator = ":" if "-" in self.source + self.target else "-"
        return f"{self.source}{separator}{self.target}"

    @classmethod
    def parse(cls, text: str) -> Direction:
        """Return the direction that a text such as en-de or en:pt-BR names.

        Raises UsageError for another text.
        """
        parts = text.split(":" if ":" in text else "-")
        if len(parts) != 2 or parts[0] == parts[1] or not all(map(_LANGUAGE.fullmatch, parts)):
            raise UsageError(
                f"--data.directions {text}: a direction is two different languages, the source "
                "first",
                hint="en-de; with a hyphen in a language, en:pt-BR",
            )
        return cls(parts[0], parts[1])


@dataclass(frozen=True)
class DirectedSplits:
    """The files of a corpus.

    direction: its languages; None for the only corpus of a run. alignments: the word alignments of
    its training pairs, if any. back_translated: whether its training sources are machine
    translations of their targets.
    """

    files: Splits
    direction: Direction | None
    alignments: Path | None = None
    back_translated: bool = False

    @property
    def holds_out(self) -> bool:
        """Whether some of its training pairs are held out for validation."""
        return self.files.valid is None and not self.back_translated


def languages_of(corpora: Sequence[DirectedSplits]) -> tuple[str, ...]:
    """Return the target languages that need a tag, sorted; none if there is only one."""
    targets = {corpus.direction.target for corpus in corpora if corpus.direction is not None}
    return tuple(sorted(targets)) if len(targets) > 1 else ()


def tagged(
    pair: Pair,
    direction: Direction | None,
    languages: Sequence[str],
    *,
    back_translated: bool = False,
) -> Pair:
    """Return a pair with its direction, and with the tag of its target language if the model has
    tags. back_translated: its source has the tag of machine-translated sources, too."""
    if direction is None:
        return pair
    tags = [tag_of(direction.target)] if languages else []
    tags += [BACK_TRANSLATED] if back_translated else []
    source = " ".join([*tags, pair.source]) if pair.source else ""
    return replace(pair, source=source, direction=direction.name)


def corpora_of(config: TranslationDataConfig) -> list[DirectedSplits]:
    """Find the files of every corpus of a data configuration, and their directions.

    For span corruption, all texts are one corpus. Raises UsageError if no corpus is named, if the
    direction of one of several is unknown, or if settings conflict.
    """
    BadRows.of(config.bad_rows)  # raises UsageError for another policy
    return [
        replace(corpus, files=corpus.files.with_policy(config.bad_rows))
        for corpus in _corpora(config)
    ]


def _corpora(config: TranslationDataConfig) -> list[DirectedSplits]:
    if config.corruption:
        return [DirectedSplits(_texts(config), None)]
    if not config.train:
        raise UsageError(
            "no training pairs are named",
            hint="headway train translate DATA --source en --target de, where DATA is a table "
            "(.tsv, .csv, .jsonl), a .po, .mo, .tmx or .xliff file, a folder, or the common prefix "
            "of two aligned files; translate-multi30k and the plans of headway compare need none "
            "where HEADWAY_DATA names a folder with mt/multi30k",
        )
    named = grouped([Path(path) for path in config.train])
    check_weights(config.weights, len(named))
    _check_back_translated(config, len(named))
    alignments: list[Path | None] = [Path(path) for path in config.alignments]
    alignments = alignments or [None] * len(named)
    if len(named) == 1 and not config.directions:
        return [DirectedSplits(_splits(config, named[0]), None, alignments[0])]
    _check_several(config, len(named))
    if config.directions:
        directions = [Direction.parse(text) for text in config.directions]
    else:
        directions = [direction_of(paths[0], config) for paths in named]
    return [
        DirectedSplits(
            _joined([located(path, direction, config) for path in paths]),
            direction,
            of_corpus,
            back_translated=number in config.back_translated,
        )
        for number, (paths, direction, of_corpus) in enumerate(
            zip(named, directions, alignments, strict=True), start=1
        )
    ]


def _joined(parts: Sequence[Splits]) -> Splits:
    """Return the splits of a corpus from those of the files that were named for it."""
    return replace(parts[0], train=PairFiles.joined([part.train for part in parts]))


def _texts(config: TranslationDataConfig) -> Splits:
    """Return the text files of a run of span corruption. Raises UsageError if none is named."""
    if not config.train:
        raise UsageError("no text files are named", hint="headway train span-corruption text.txt")
    train = plain_files([Path(path) for path in config.train])
    return Splits(train, plain_files([Path(config.valid)]) if config.valid else None)


def _splits(config: TranslationDataConfig, paths: Sequence[Path]) -> Splits:
    """Return the files of the only corpus of a run."""
    source, target, tags = config.source, config.target, config.inline_tags
    files = _joined([locate(path, source, target, tags) for path in paths])

    def files_of(path: str | None, default: PairFiles | None) -> PairFiles | None:
        return pair_files(Path(path), source, target, tags) if path else default

    return Splits(
        files.train, files_of(config.valid, files.valid), files_of(config.test, files.test)
    )


def _check_back_translated(config: TranslationDataConfig, count: int) -> None:
    """Raise UsageError for a corpus that does not exist, and if no corpus has real sources.

    count: the number of corpora.
    """
    for number in config.back_translated:
        if not 1 <= number <= count:
            raise UsageError(
                f"data.back_translated={number}: there are {count} corpora, counted from 1",
                hint=f"a number from 1 to {count}",
            )
    if config.back_translated and len(set(config.back_translated)) == count:
        raise UsageError(
            "data.back_translated names all corpora, but translated texts have no tag <BT>: one "
            "corpus must have real sources",
            hint="headway train translate REAL SYNTHETIC --data.back-translated 2",
        )


def _check_several(config: TranslationDataConfig, count: int) -> None:
    if config.directions and len(config.directions) != count:
        raise UsageError(
            f"--data.directions has {len(config.directions)} directions for {count} corpora",
            hint="give one for each corpus, in their order: en-de,en-fr",
        )
    named = [name for name in ("valid", "test") if getattr(config, name)]
    if named:
        raise UsageError(
            f"data.{named[0]} is one file, but there are several corpora or directions",
            hint="put train, valid and test of each corpus into a folder, and name the folders; "
            "without a validation file some training pairs are held out",
        )


def direction_of(path: Path, config: TranslationDataConfig) -> Direction:
    """Return the direction of a corpus: of the settings, of its name, or of the file.

    Raises UsageError if it is unknown.
    """
    if is_language(config.source) and is_language(config.target):
        return Direction(config.source, config.target)
    if (named := direction_in_name(path)) is not None:
        return named
    if path.is_file():
        files = pair_files(path, None, None, config.inline_tags)
        if is_language(files.source) and is_language(files.target):
            return Direction(files.source, files.target)
    raise UsageError(
        "the languages of this corpus are unknown; with several corpora they must be known",
        str(path),
        "--data.directions en-de,en-fr, one for each corpus; or a name such as ted.en-de.tsv",
    )


def direction_in_name(path: Path) -> Direction | None:
    """Return the direction in the name of a corpus, such as ted.en-de.tsv; None without one."""
    for part in path.name.split("."):
        if match := _IN_NAME.fullmatch(part):
            return Direction(match[1], match[2])
    return None


def located(path: Path, direction: Direction, config: TranslationDataConfig) -> Splits:
    """Return the files of a corpus. A table of two columns needs no header with the languages."""
    source, target, tags = direction.source, direction.target, config.inline_tags
    if path.is_file() and ending(path) not in OPENERS:
        try:
            return Splits(train=pair_files(path, source, target, tags))
        except UsageError:
            files = pair_files(path, None, None, tags)
            if is_language(files.source) and is_language(files.target):
                raise  # a header with other languages
            return Splits(train=files)
    return locate(path, source, target, tags)
