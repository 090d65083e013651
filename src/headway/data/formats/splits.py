"""Which files a person means by DATA: one table, a common start, or a folder with splits.

Nothing is guessed that could be guessed otherwise: where two readings fit, both are listed.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats.tsv import PairFiles, pair_files
from headway.errors import HeadwayError, UsageError

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

    def items(self) -> list[tuple[str, PairFiles]]:
        """(name, corpus) of those that are there."""
        every = (("train", self.train), ("valid", self.valid), ("test", self.test))
        return [(name, files) for name, files in every if files is not None]


@dataclass(frozen=True)
class _Candidate:
    """A table or a pair of files in the folder. `corpus` is what its name says before the split."""

    split: str
    corpus: str
    files: PairFiles


@dataclass(frozen=True)
class _Refusal:
    """Files whose name speaks of a split, and why they cannot be it."""

    split: str
    corpus: str
    error: HeadwayError


def locate(data: Path, source: str | None, target: str | None) -> Splits:
    """Find the corpora that `data` names.

    1. A file: a table of pairs, used for training.
    2. A common start: `data`.`source` and `data`.`target` exist; used for training.
    3. A folder, or `folder/start`: files in it whose names, cut at dots, have a part train; valid,
       val, validation or dev; test (also test_2016 and the like). Tables that lack the named
       columns are passed over where another one has them, as they cannot be meant.

    Raises UsageError when nothing or more than one thing fits, with the candidates.
    """
    if data.is_file():
        return Splits(train=pair_files(data, source, target))
    if data.is_dir():
        return _from_folder(data, "", source, target)
    if not data.parent.is_dir() or data.suffix in (".tsv", ".gz", ".txt"):
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
    candidates, refused = _candidates(folder, names, source, target)
    corpus = _only_corpus(folder, candidates)
    found: dict[str, PairFiles] = {}
    for candidate in candidates:
        if candidate.split in found:
            raise _two_fit(folder, candidate.split, candidates)
        found[candidate.split] = candidate.files
    for refusal in refused:
        # Another corpus may lack the columns; but a valid set that does must not vanish unnoticed.
        if refusal.split not in found and refusal.corpus == corpus:
            raise refusal.error
    if "train" not in found:
        raise _nothing_to_train(folder, names, refused)
    return Splits(train=found["train"], valid=found.get("valid"), test=found.get("test"))


def _only_corpus(folder: Path, candidates: list[_Candidate]) -> str | None:
    corpora = sorted({candidate.corpus for candidate in candidates})
    if len(corpora) > 1:
        shown = ", ".join(corpus or "(no name before the split)" for corpus in corpora)
        raise UsageError(
            f"several corpora stand here: {shown}",
            where=str(folder),
            hint=f"give one of them as DATA: {folder / corpora[-1]}",
        )
    return corpora[0] if corpora else None


def _two_fit(folder: Path, split: str, candidates: list[_Candidate]) -> UsageError:
    shown = ", ".join(c.files.describe() for c in candidates if c.split == split)
    return UsageError(
        f"more than one {split} corpus fits: {shown}",
        where=str(folder),
        hint="give the training file itself as DATA, and --valid FILE and --test FILE beside it",
    )


def _nothing_to_train(folder: Path, names: list[str], refused: list[_Refusal]) -> HeadwayError:
    if len(refused) == 1:
        return refused[0].error
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    reasons = "".join(f"; {refusal.error.where}: {refusal.error.what}" for refusal in refused[:3])
    return UsageError(
        f"no training pairs found among {shown}{reasons}",
        where=str(folder),
        hint="name them train.tsv, or train.en and train.de with --source en --target de, "
        "or give the file itself as DATA",
    )


def _candidates(
    folder: Path, names: list[str], source: str | None, target: str | None
) -> tuple[list[_Candidate], list[_Refusal]]:
    """The corpora with a split in their names: those that can be read, and those that cannot."""
    prefixes: dict[str, tuple[str, str]] = {}
    for name in names:
        stem, _, ending = name.removesuffix(".gz").rpartition(".")
        split, corpus = _split_of(stem)
        if split is None:
            continue
        if ending in ("tsv", "tab"):
            prefixes[name] = (split, corpus)
        elif ending in (source, target):
            prefixes[stem] = (split, corpus)
    found: list[_Candidate] = []
    refused: list[_Refusal] = []
    for prefix, (split, corpus) in prefixes.items():
        try:
            found.append(_Candidate(split, corpus, pair_files(folder / prefix, source, target)))
        except HeadwayError as error:
            refused.append(_Refusal(split, corpus, error))
    return found, refused


def _split_of(stem: str) -> tuple[str | None, str]:
    """The split that a name speaks of, and what stands before it: `a.train.en-de` -> train, a."""
    parts = stem.split(".")
    for number, part in enumerate(parts):
        for split, pattern in _SPLIT_NAMES:
            if pattern.fullmatch(part.lower()):
                return split, ".".join(parts[:number])
    return None, ""
