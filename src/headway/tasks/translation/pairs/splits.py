"""Finds the files of a parallel corpus: one table, a common path prefix, or a folder with splits.

An ambiguous request is an error that lists the candidates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from headway.base.errors import HeadwayError, UsageError
from headway.data.formats.split_files import check_whole, data_folder, grouped
from headway.tasks.translation.pair_files import InlineTags, PairFiles
from headway.tasks.translation.pairs.reading import SUFFIXES, pair_files

_SHARD = r"(?:-\d+-of-\d+(?:-.*)?)?"  # in names of files of Hugging Face data sets
_SPLIT_NAMES = (
    ("train", re.compile(rf"train{_SHARD}")),
    ("valid", re.compile(rf"(?:valid|val|validation|dev){_SHARD}")),
    ("test", re.compile(r"test([-_0-9].*)?")),
)


@dataclass(frozen=True)
class Splits:
    """The corpora of a task: `train` for training, `valid` for model selection, `test` for the
    report."""

    train: PairFiles
    valid: PairFiles | None = None
    test: PairFiles | None = None

    def with_policy(self, bad_rows: str) -> Splits:
        """Return these corpora, with a policy for rows that are no pair (`BadRows.of`)."""
        return Splits(**{name: replace(files, bad_rows=bad_rows) for name, files in self.items()})

    def items(self) -> list[tuple[str, PairFiles]]:
        """Return (split, corpus) for each split that exists."""
        by_name = (("train", self.train), ("valid", self.valid), ("test", self.test))
        return [(name, files) for name, files in by_name if files is not None]


@dataclass(frozen=True)
class _Candidate:
    """A corpus in the folder. corpus: the part of its name before the split."""

    split: str
    corpus: str
    files: PairFiles


@dataclass(frozen=True)
class _Refusal:
    """Files whose name contains a split but that cannot be read, with the error."""

    split: str
    corpus: str
    error: HeadwayError


def locate(
    data: Path, source: str | None, target: str | None, inline_tags: InlineTags = "keep"
) -> Splits:
    """Find the corpora that `data` names.

    1. A file: a table, a catalogue, a translation memory ... (`pair_files`), used for training.
    2. A path prefix: `data`.`source` and `data`.`target` exist; used for training.
    3. A folder, or `folder/prefix`: files whose names, split at dots, contain train; valid, val,
       validation or dev; or test (also test_2016 and similar). A table that lacks the named columns
       is skipped if another table has them. Numbered files of one split, such as
       train-00000-of-00002.parquet, are one corpus.

    Raises UsageError, with the candidates, if no file or more than one fits.
    """
    if data.is_file():
        return Splits(train=pair_files(data, source, target, inline_tags))
    if data.is_dir():
        return _from_folder(data_folder(data), "", source, target, inline_tags)
    if not data.parent.is_dir() or data.suffix in (*SUFFIXES, ".gz", ".txt"):
        raise UsageError("no such file or folder", where=str(data), hint="check the path")
    if source is not None and target is not None and _has_sides(data, source, target):
        return Splits(train=pair_files(data, source, target, inline_tags))
    return _from_folder(data.parent, f"{data.name}.", source, target, inline_tags)


def _has_sides(data: Path, source: str, target: str) -> bool:
    return all(
        any(data.with_name(f"{data.name}.{name}{end}").is_file() for end in ("", ".gz"))
        for name in (source, target)
    )


def _from_folder(
    folder: Path,
    prefix: str,
    source: str | None,
    target: str | None,
    inline_tags: InlineTags,
) -> Splits:
    names = sorted(
        path.name
        for path in folder.iterdir()
        if path.name.startswith(prefix) and not path.name.startswith(".") and path.is_file()
    )
    if not names:
        if prefix:
            fault = f"no such file or folder, and no file name starts with {prefix!r}"
            raise UsageError(fault, str(folder / prefix.removesuffix(".")), "check the path")
        raise UsageError("the folder has no files", str(folder), "check the path")
    candidates, refused = _candidates(folder, names, (source, target), inline_tags)
    corpus = _only_corpus(folder, candidates)
    corpora: dict[str, PairFiles] = {}
    for candidate in candidates:
        if candidate.split in corpora:
            raise _two_fit(folder, candidate.split, candidates)
        corpora[candidate.split] = candidate.files
    for refusal in refused:
        # A table of another corpus may lack the columns. If a split of this corpus lacks them, that
        # is an error, so that a validation set is not dropped without notice.
        if refusal.split not in corpora and refusal.corpus == corpus:
            raise refusal.error
    if "train" not in corpora:
        raise _nothing_to_train(folder, names, refused)
    return Splits(train=corpora["train"], valid=corpora.get("valid"), test=corpora.get("test"))


def _only_corpus(folder: Path, candidates: list[_Candidate]) -> str | None:
    corpora = sorted({candidate.corpus for candidate in candidates})
    if len(corpora) > 1:
        shown = ", ".join(corpus or "(no name before the split)" for corpus in corpora)
        raise UsageError(
            f"the folder must have one corpus, but has several: {shown}",
            where=str(folder),
            hint=f"give one of them as DATA, for example {folder / corpora[-1]}",
        )
    return corpora[0] if corpora else None


def _two_fit(folder: Path, split: str, candidates: list[_Candidate]) -> UsageError:
    shown = ", ".join(c.files.describe() for c in candidates if c.split == split)
    return UsageError(
        f"more than one {split} corpus fits: {shown}",
        where=str(folder),
        hint="give the training file as DATA, and the other files with --valid FILE and "
        "--test FILE",
    )


def _nothing_to_train(folder: Path, names: list[str], refused: list[_Refusal]) -> HeadwayError:
    if len(refused) == 1:
        return refused[0].error
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    reasons = "".join(f"; {refusal.error.on_one_line}" for refusal in refused[:3])
    return UsageError(
        f"no training pairs found among {shown}{reasons}",
        where=str(folder),
        hint="rename the files to train.tsv, or to train.en and train.de with --source en "
        "--target de, or give the training file as DATA",
    )


def _candidates(
    folder: Path,
    names: list[str],
    sides: tuple[str | None, str | None],
    inline_tags: InlineTags,
) -> tuple[list[_Candidate], list[_Refusal]]:
    """Return the corpora with a split in their names: those that can be read, and the refused."""
    source, target = sides
    prefixes: dict[str, tuple[str, str]] = {}
    for name in names:
        stem, _, ending = name.removesuffix(".gz").rpartition(".")
        split, corpus = _split_of(stem)
        if split is None:
            continue
        if f".{ending}" in SUFFIXES:
            prefixes[name] = (split, corpus)
        elif ending in (source, target):
            prefixes[stem] = (split, corpus)
    candidates: list[_Candidate] = []
    refused: list[_Refusal] = []
    for paths in grouped([folder / prefix for prefix in prefixes]):
        split, corpus = prefixes[paths[0].name]
        try:
            check_whole(split, paths)
            files = [pair_files(path, source, target, inline_tags) for path in paths]
            candidates.append(_Candidate(split, corpus, PairFiles.joined(files)))
        except HeadwayError as error:
            refused.append(_Refusal(split, corpus, error))
    return candidates, refused


def _split_of(stem: str) -> tuple[str | None, str]:
    """Return the split that a name contains and the part before it: `a.train.en-de` -> train, a."""
    parts = stem.split(".")
    for number, part in enumerate(parts):
        for split, pattern in _SPLIT_NAMES:
            if pattern.fullmatch(part.lower()):
                return split, ".".join(parts[:number])
    return None, ""
