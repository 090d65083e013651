"""Which files a person means by DATA: one table, a common start, or a folder with splits.

Nothing is guessed that could be guessed otherwise: where two readings fit, both are listed.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats.tsv import PairFiles, pair_files
from headway.errors import DataError, UsageError

_SPLIT_NAMES = (
    ("train", re.compile(r"train")),
    ("valid", re.compile(r"valid|val|validation|dev")),
    ("test", re.compile(r"test([-_0-9].*)?")),
)


@dataclass(frozen=True)
class Splits:
    """The corpora of one task: train on `train`, choose on `valid`, report on `test`."""

    train: PairFiles
    valid: PairFiles | None = None
    test: PairFiles | None = None


@dataclass(frozen=True)
class _Candidate:
    """A table or a pair of files in the folder. `corpus` is what its name says before the split."""

    split: str
    corpus: str
    files: PairFiles


def locate(data: Path, source: str | None, target: str | None) -> Splits:
    """Find the corpora that `data` names.

    1. A file: a table of pairs, used for training.
    2. A common start: `data`.`source` and `data`.`target` exist; used for training.
    3. A folder, or `folder/start`: files in it whose names, cut at dots, have a part train; valid,
       val, validation or dev; test (also test_2016 and the like). Tables that lack the named columns
       are passed over, as they cannot be meant.

    Raises UsageError when nothing or more than one thing fits, with the candidates.
    """
    if data.is_file():
        return Splits(train=pair_files(data, source, target))
    if data.is_dir():
        return _from_folder(data, "", source, target)
    if not data.parent.is_dir():
        raise UsageError("no such file or folder", where=str(data), hint="check the path")
    if source is not None and target is not None and _has_sides(data, source, target):
        return Splits(train=pair_files(data, source, target))
    return _from_folder(data.parent, f"{data.name}.", source, target)


def _has_sides(data: Path, source: str, target: str) -> bool:
    return all(
        any(data.with_name(f"{data.name}.{name}{end}").is_file() for end in ("", ".gz"))
        for name in (source, target)
    )


def _from_folder(folder: Path, start: str, source: str | None, target: str | None) -> Splits:
    names = sorted(
        path.name
        for path in folder.iterdir()
        if path.name.startswith(start) and not path.name.startswith(".") and path.is_file()
    )
    if not names:
        what = f"no file begins with {start!r}" if start else "the folder holds no files"
        raise UsageError(what, where=str(folder), hint="check the path")
    candidates, passed_over = _candidates(folder, names, source, target)
    corpora = sorted({candidate.corpus for candidate in candidates})
    if len(corpora) > 1:
        shown = ", ".join(corpus or "(files without a name before the split)" for corpus in corpora)
        named = [corpus for corpus in corpora if corpus]
        raise UsageError(
            f"several corpora stand here: {shown}",
            where=str(folder),
            hint=f"give one of them as DATA: {folder / named[0]}",
        )
    found: dict[str, PairFiles] = {}
    for candidate in candidates:
        if candidate.split in found:
            raise _two_fit(folder, candidate.split, candidates)
        found[candidate.split] = candidate.files
    if "train" not in found:
        raise _nothing_to_train(folder, names, passed_over)
    return Splits(train=found["train"], valid=found.get("valid"), test=found.get("test"))


def _two_fit(folder: Path, split: str, candidates: list[_Candidate]) -> UsageError:
    shown = ", ".join(c.files.describe() for c in candidates if c.split == split)
    return UsageError(
        f"more than one {split} corpus fits: {shown}",
        where=str(folder),
        hint="give the training file itself as DATA, and --valid FILE and --test FILE beside it",
    )


def _nothing_to_train(folder: Path, names: list[str], passed_over: list[str]) -> UsageError:
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    reasons = "".join(f"; {reason}" for reason in passed_over[:4])
    return UsageError(
        f"no training pairs found among {shown}{reasons}",
        where=str(folder),
        hint="name them train.tsv, or train.en and train.de with --source en --target de, "
        "or give the file itself as DATA",
    )


def _candidates(
    folder: Path, names: list[str], source: str | None, target: str | None
) -> tuple[list[_Candidate], list[str]]:
    """All corpora with a split in their names, and the reasons why others were passed over."""
    found: list[_Candidate] = []
    passed_over: list[str] = []
    seen: set[str] = set()
    for name in names:
        stem, _, ending = name.removesuffix(".gz").rpartition(".")
        split, corpus = _split_of(stem)
        if split is None:
            continue
        if ending in ("tsv", "tab"):
            prefix = name
        elif ending in (source, target) and stem not in seen:
            seen.add(stem)
            prefix = stem
        else:
            if ending not in (source, target):
                passed_over.append(f"{name} ends in neither .tsv nor one of the named sides")
            continue
        try:
            files = pair_files(folder / prefix, source, target)
        except (UsageError, DataError) as error:
            passed_over.append(str(error))
            continue
        found.append(_Candidate(split, corpus, files))
    return found, passed_over


def _split_of(stem: str) -> tuple[str | None, str]:
    """The split that a name speaks of, and what stands before it: `a.train.en-de` -> train, a."""
    parts = stem.split(".")
    for number, part in enumerate(parts):
        for split, pattern in _SPLIT_NAMES:
            if pattern.fullmatch(part.lower()):
                return split, ".".join(parts[:number])
    return None, ""
