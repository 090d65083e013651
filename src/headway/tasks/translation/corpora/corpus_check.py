"""Checks a parallel corpus for faults before training.

Faults make `headway data check` fail: unreadable text, files of different length, empty sides, and
held-out sentences that also occur in the training set. Warnings should be inspected. Memory: 24
bytes per sentence (64-bit hashes: with 100 million sentences, less than one false match in a
thousand corpora is expected) and some line numbers.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError, HeadwayError
from headway.data.bad_rows import BadRows
from headway.data.formats.lines import location
from headway.tasks.translation.pair_files import Pair, PairFiles
from headway.tasks.translation.pairs.reading import read_pairs
from headway.tasks.translation.pairs.splits import Splits

RATIO_LIMIT = 9
FIRST_LINES = 5
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd]")
"""Control characters other than tab and newline, byte-order marks, replacement characters."""


@dataclass
class Finding:
    """The number of lines with a finding, the line numbers of the first ones, and the file and line
    of the very first."""

    count: int = 0
    first_lines: tuple[int, ...] = ()
    where: str = ""

    def note(self, line: int, where: str) -> None:
        self.count += 1
        self.where = self.where or where
        if len(self.first_lines) < FIRST_LINES:
            self.first_lines += (line,)

    @property
    def listed(self) -> str:
        """The lines in words: lines 3, 9, …"""
        more = ", …" if self.count > len(self.first_lines) else ""
        return f"lines {', '.join(map(str, self.first_lines))}{more}"


@dataclass(frozen=True)
class Lengths:
    """Mean, 95th percentile and maximum of a length."""

    mean: float
    p95: int
    max: int


@dataclass(kw_only=True)
class SplitReport:
    """Counts for one corpus. The keys of `lengths` are "source words", "target characters" etc.

    `readable` is False if training refuses the files; the counts are of the lines that can be read,
    up to an error that is not of a single row.
    `leaked` counts held-out pairs whose source sentence also occurs in the training set.
    """

    files: tuple[str, ...]
    pairs: int = 0
    readable: bool = True
    empty: Finding = field(default_factory=Finding)
    ratio_outliers: Finding = field(default_factory=Finding)
    control_characters: Finding = field(default_factory=Finding)
    identical: Finding = field(default_factory=Finding)
    duplicates: int = 0
    leaked: Finding = field(default_factory=Finding)
    lengths: dict[str, Lengths] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckReport:
    """The reports by split name, and the faults and warnings as sentences."""

    splits: dict[str, SplitReport]
    faults: list[str]
    warnings: list[str]

    def as_dict(self) -> dict[str, object]:
        """Return the whole report as plain values for JSON."""
        return asdict(self)


@dataclass
class _Incomplete(BadRows):
    """Leaves out and counts every row that is no pair, and keeps the errors of the first ones."""

    count: int = 0

    def leave_out(self, error: DataError) -> None:
        self.count += 1
        if len(self.errors) < FIRST_LINES:
            self.errors.append(error)


@dataclass
class _Tally:
    """What is counted while one corpus is read, with hashes of its sources and of its pairs.

    starts: the number of the first pair of each file, and the file.
    """

    report: SplitReport
    incomplete: _Incomplete = field(default_factory=_Incomplete)
    error: HeadwayError | None = None
    lengths: dict[str, Counter[int]] = field(default_factory=dict)
    sources: "array[int]" = field(default_factory=lambda: array("Q"))
    both: "array[int]" = field(default_factory=lambda: array("Q"))
    lines: "array[int]" = field(default_factory=lambda: array("Q"))
    starts: list[tuple[int, Path]] = field(default_factory=list)

    def where(self, index: int) -> str:
        """Return the file and line of a pair."""
        path = next(path for start, path in reversed(self.starts) if start <= index)
        return location(path, self.lines[index])


def check(splits: Splits) -> CheckReport:
    """Read every corpus of `splits` once and return a report.

    Reading errors become faults of the report; nothing is raised for bad data.
    """
    reports: dict[str, SplitReport] = {}
    faults: list[str] = []
    warnings: list[str] = []
    train_hashes: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
    for name, files in splits.items():
        tally = _tallied(files)
        if name == "train":
            train_hashes = np.unique(_hashes(tally.sources))
        else:
            _note_leaked(tally, train_hashes)
        reports[name] = tally.report
        faults += [f"{name}: {fault}" for fault in _faults(files, tally)]
        warnings += [f"{name}: {warning}" for warning in _warnings(files, tally.report)]
    return CheckReport(reports, faults, warnings)


def _tallied(files: PairFiles) -> _Tally:
    """Count the pairs up to the first error."""
    report = SplitReport(files=tuple(map(str, files.all_paths)))
    tally = _Tally(report)
    try:
        for of_file in files.every:
            tally.starts.append((len(tally.lines), of_file.paths[0]))
            for pair in read_pairs(of_file, tally.incomplete):
                _count(pair, tally)
    except HeadwayError as error:
        tally.error = error
    report.pairs = len(tally.lines)
    report.readable = tally.error is None and not tally.incomplete.count
    report.duplicates = report.pairs - len(np.unique(_hashes(tally.both)))
    report.lengths = {name: _summary(counter) for name, counter in sorted(tally.lengths.items())}
    return tally


def _count(pair: Pair, tally: _Tally) -> None:
    sides = {"source": pair.source, "target": pair.target}
    tally.lines.append(pair.line)
    tally.sources.append(pair_hash(pair.source))
    tally.both.append(pair_hash(pair.source, pair.target))
    for name, side in sides.items():
        for unit, length in (("characters", len(side)), ("words", len(side.split()))):
            tally.lengths.setdefault(f"{name} {unit}", Counter())[length] += 1
    for finding in _findings(pair, tally.report):
        finding.note(pair.line, tally.where(len(tally.lines) - 1))


def _findings(pair: Pair, report: SplitReport) -> Iterator[Finding]:
    """Yield what the pair is an example of."""
    shorter, longer = sorted((len(pair.source), len(pair.target)))
    if not shorter:
        yield report.empty
        return
    if longer > RATIO_LIMIT * shorter:
        yield report.ratio_outliers
    if any(map(CONTROL_CHARACTERS.search, (pair.source, pair.target))):
        yield report.control_characters
    if pair.source == pair.target:
        yield report.identical


def pair_hash(*texts: str) -> int:
    """Return a hash of 64 bits of the texts of a pair."""
    return int.from_bytes(blake2b("\n".join(texts).encode(), digest_size=8).digest(), "little")


def _hashes(values: "array[int]") -> npt.NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


def _note_leaked(tally: _Tally, train_hashes: npt.NDArray[np.uint64]) -> None:
    """Note the pairs whose source hash is in `train_hashes` (sorted, unique)."""
    hashes = _hashes(tally.sources)
    leaks = np.isin(hashes, train_hashes) & (hashes != np.uint64(pair_hash("")))
    for position in np.flatnonzero(leaks):
        tally.report.leaked.note(tally.lines[int(position)], tally.where(int(position)))


def _summary(counter: Counter[int]) -> Lengths:
    """Return mean, 95th percentile (smallest length that at least 95 % of the lines do not exceed)
    and maximum of the lengths in `counter`."""
    values = np.array(sorted(counter), dtype=np.int64)
    counts = np.array([counter[int(value)] for value in values], dtype=np.int64)
    total = int(counts.sum())
    index = int(np.searchsorted(np.cumsum(counts) * 100, 95 * total))
    return Lengths(float(values @ counts) / total, int(values[index]), int(values[-1]))


def _faults(files: PairFiles, tally: _Tally) -> Iterator[str]:
    incomplete = tally.incomplete
    if tally.error is not None:
        yield tally.error.on_one_line
    elif not tally.report.pairs and not incomplete.count:
        yield f"{files.paths[0]}: has no sentence pairs"
    if incomplete.count:
        first, *others = incomplete.errors
        places = ", ".join(str(error.where) for error in others)
        more = ", …" if incomplete.count > FIRST_LINES else ""
        rows = f" ({incomplete.count:,} such rows, the next at {places}{more})" if others else ""
        yield f"{first.on_one_line}{rows}"
    yield from _sentence(tally.report.empty, "an empty side")
    leaked = tally.report.leaked
    yield from _sentence(leaked, "in the training set", one="also occurs", several="also occur")


def _warnings(files: PairFiles, report: SplitReport) -> Iterator[str]:
    yield from files.notes
    if report.duplicates:
        noun = "pair repeats" if report.duplicates == 1 else "pairs repeat"
        yield f"{report.duplicates:,} {noun} an earlier one"
    ratio = f"one side more than {RATIO_LIMIT} times as long as the other"
    yield from _sentence(report.ratio_outliers, ratio)
    yield from _sentence(report.identical, "the same text on both sides")
    yield from _sentence(report.control_characters, "control or replacement characters")


def _sentence(
    finding: Finding, description: str, *, one: str = "has", several: str = "have"
) -> Iterator[str]:
    """Yield a sentence such as `valid.en:3: 2 pairs have an empty side (lines 3, 9)`, if any.

    one, several: the verb for one pair, and for several.
    """
    if finding.count == 1:
        yield f"{finding.where}: 1 pair {one} {description}"
    elif finding.count:
        pairs = f"{finding.count:,} pairs {several} {description}"
        yield f"{finding.where}: {pairs} ({finding.listed})"
