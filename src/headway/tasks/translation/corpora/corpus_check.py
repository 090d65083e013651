"""Checks a parallel corpus for faults before training.

Faults make `headway data check` fail: unreadable text, files of different length, empty sides, and
held-out sentences that also occur in the training set. Warnings should be inspected. Memory: 24
bytes per sentence (64-bit hashes: with 100 million sentences, less than one false match in a
thousand corpora is expected) and some line numbers.
"""

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.base.chunks import chunks
from headway.base.errors import DataError, HeadwayError
from headway.data.bad_rows import BadRows
from headway.data.formats.lines import location
from headway.tasks.translation.pair_files import Pair, PairFiles
from headway.tasks.translation.pairs.reading import read_pairs
from headway.tasks.translation.pairs.splits import Splits
from headway.text import TokenizerPair

RATIO_LIMIT = 9
FIRST_LINES = 5
CHUNK = 4096
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd]")
"""Control characters other than tab and newline, byte-order marks, replacement characters."""

_EMPTY, _RATIO, _CONTROLS, _SAME, _SHORT = "empty", "ratio", "control", "same", "short"


@dataclass(frozen=True)
class Lengths:
    """Mean, 95th percentile and maximum of a length."""

    mean: float
    p95: int
    max: int


@dataclass(frozen=True)
class Finding:
    """The number of lines with a finding, the line numbers of the first ones, and the file and line
    of the very first."""

    count: int
    first_lines: tuple[int, ...]
    where: str = ""


@dataclass(frozen=True)
class SplitReport:
    """Counts for one corpus. The keys of `lengths` are "source words", "target characters" etc.

    `readable` is False if training refuses the files; the counts are of the lines that can be read,
    up to an error that is not of a single row.
    `leaked` counts held-out pairs whose source sentence also occurs in the training set.
    """

    files: tuple[str, ...]
    pairs: int
    readable: bool
    empty: Finding
    ratio_outliers: Finding
    control_characters: Finding
    identical: Finding
    duplicates: int
    leaked: Finding
    lengths: dict[str, Lengths]


@dataclass(frozen=True)
class CheckReport:
    """The reports by split name, and the faults and warnings as sentences."""

    splits: dict[str, SplitReport]
    faults: list[str]
    warnings: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the whole report as plain values for JSON."""
        return asdict(self)


@dataclass
class _Tally:
    """Counts collected while one corpus is read. path: the file that is being read."""

    path: Path
    pairs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    lines: dict[str, list[int]] = field(default_factory=dict)
    firsts: dict[str, str] = field(default_factory=dict)
    lengths: dict[str, Counter[int]] = field(default_factory=dict)
    sources: "array[int]" = field(default_factory=lambda: array("Q"))
    both: "array[int]" = field(default_factory=lambda: array("Q"))
    pair_lines: "array[int]" = field(default_factory=lambda: array("Q"))
    starts: list[tuple[int, Path]] = field(default_factory=list)
    leaked: Finding = Finding(0, ())
    error: HeadwayError | None = None
    short: HeadwayError | None = None

    def leave_out(self, error: DataError) -> None:
        """Count a row that is no pair; the error of the first one is kept."""
        self.short = self.short or error
        self.note(_SHORT, int(str(error.where).split()[-1].rpartition(":")[2]))

    def begin(self, path: Path) -> None:
        """Begin a file of the corpus."""
        self.path = path
        self.starts.append((self.pairs, path))

    def where(self, index: int) -> str:
        """Return the file and line of a pair."""
        path = next(path for start, path in reversed(self.starts) if start <= index)
        return location(path, self.pair_lines[index])

    def note(self, kind: str, line: int) -> None:
        self.counts[kind] += 1
        self.firsts.setdefault(kind, location(self.path, line))
        lines = self.lines.setdefault(kind, [])
        if len(lines) < FIRST_LINES:
            lines.append(line)

    def finding(self, kind: str) -> Finding:
        return Finding(
            self.counts[kind], tuple(self.lines.get(kind, [])), self.firsts.get(kind, "")
        )

    def measure(self, name: str, length: int) -> None:
        self.lengths.setdefault(name, Counter())[length] += 1


def check(splits: Splits, tokenizers: TokenizerPair | None = None) -> CheckReport:
    """Read every corpus of `splits` once and return a report.

    tokenizers: if given, lengths in tokens are reported too. Reading errors become faults of the
    report; nothing is raised for bad data.
    """
    reports: dict[str, SplitReport] = {}
    faults: list[str] = []
    warnings: list[str] = []
    train_hashes: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
    for name, files in splits.items():
        tally = _tallied(files, tokenizers)
        if name == "train":
            train_hashes = np.unique(_hashes(tally.sources))
        else:
            tally.leaked = _leaked(tally, train_hashes)
        reports[name] = _report(files, tally)
        faults.extend(_faults(name, files, tally))
        warnings.extend(_warnings(name, files, reports[name]))
    return CheckReport(reports, faults, warnings)


def _tallied(files: PairFiles, tokenizers: TokenizerPair | None) -> _Tally:
    tally = _Tally(files.paths[0])
    for part in files.every:
        tally.begin(part.paths[0])
        for chunk in chunks(_guarded(part, tally), CHUNK):
            for pair in chunk:
                _count(pair, tally)
            if tokenizers is not None:
                for ids in tokenizers.source.encode_batch([pair.source for pair in chunk]):
                    tally.measure("source tokens", len(ids))
                for ids in tokenizers.target.encode_batch([pair.target for pair in chunk]):
                    tally.measure("target tokens", len(ids))
        if tally.error is not None:
            break
    return tally


@dataclass
class _Counted(BadRows):
    """Leaves out every row that is no pair, and counts it."""

    tally: _Tally = field(kw_only=True)

    def leave_out(self, error: DataError) -> None:
        self.tally.leave_out(error)


def _guarded(files: PairFiles, tally: _Tally) -> Iterator[Pair]:
    """Yield the pairs up to the first error, which is stored in the tally."""
    try:
        yield from read_pairs(files, _Counted(tally=tally))
    except HeadwayError as error:
        tally.error = error


def _count(pair: Pair, tally: _Tally) -> None:
    tally.pairs += 1
    tally.pair_lines.append(pair.line)
    tally.sources.append(_hash(pair.source))
    tally.both.append(_hash(f"{pair.source}\n{pair.target}"))
    sizes = (len(pair.source), len(pair.target))
    tally.measure("source characters", sizes[0])
    tally.measure("target characters", sizes[1])
    tally.measure("source words", len(pair.source.split()))
    tally.measure("target words", len(pair.target.split()))
    if not pair.source or not pair.target:
        tally.note(_EMPTY, pair.line)
        return
    if max(sizes) > RATIO_LIMIT * min(sizes):
        tally.note(_RATIO, pair.line)
    if CONTROL_CHARACTERS.search(pair.source) or CONTROL_CHARACTERS.search(pair.target):
        tally.note(_CONTROLS, pair.line)
    if pair.source == pair.target:
        tally.note(_SAME, pair.line)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")


def _hashes(values: "array[int]") -> npt.NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


_NOTHING = _hash("")


def _leaked(tally: _Tally, train_hashes: npt.NDArray[np.uint64]) -> Finding:
    """Return the pairs whose source hash is in `train_hashes` (sorted, unique), with the first
    line numbers."""
    hashes = _hashes(tally.sources)
    leaks = np.isin(hashes, train_hashes) & (hashes != np.uint64(_NOTHING))
    positions = np.flatnonzero(leaks)
    first = positions[:FIRST_LINES]
    lines = tuple(tally.pair_lines[int(p)] for p in first)
    return Finding(len(positions), lines, tally.where(int(first[0])) if lines else "")


def _report(files: PairFiles, tally: _Tally) -> SplitReport:
    return SplitReport(
        files=tuple(map(str, files.all_paths)),
        pairs=tally.pairs,
        readable=tally.error is None and tally.short is None,
        empty=tally.finding(_EMPTY),
        ratio_outliers=tally.finding(_RATIO),
        control_characters=tally.finding(_CONTROLS),
        identical=tally.finding(_SAME),
        duplicates=tally.pairs - len(np.unique(_hashes(tally.both))),
        leaked=tally.leaked,
        lengths={name: _summary(counter) for name, counter in sorted(tally.lengths.items())},
    )


def _summary(counter: Counter[int]) -> Lengths:
    """Return mean, 95th percentile (smallest length that at least 95 % of the lines do not exceed)
    and maximum of the lengths in `counter`."""
    values = np.array(sorted(counter), dtype=np.int64)
    counts = np.array([counter[int(value)] for value in values], dtype=np.int64)
    total = int(counts.sum())
    index = int(np.searchsorted(np.cumsum(counts) * 100, 95 * total))
    return Lengths(float(values @ counts) / total, int(values[index]), int(values[-1]))


def _faults(name: str, files: PairFiles, tally: _Tally) -> Iterator[str]:
    if tally.error is not None:
        where = f"{tally.error.where}: " if tally.error.where else ""
        yield f"{name}: {where}{tally.error.what}"
    elif tally.pairs == 0 and tally.short is None:
        yield f"{name}: {files.paths[0]}: has no sentence pairs"
    if tally.short is not None:
        short = tally.finding(_SHORT)
        lines = ", ".join(map(str, short.first_lines))
        more = ", …" if short.count > len(short.first_lines) else ""
        rows = "" if short.count == 1 else f" ({short.count:,} such rows: lines {lines}{more})"
        yield f"{name}: {tally.short.where}: {tally.short.what}{rows}"
    empty = tally.finding(_EMPTY)
    if empty.count:
        yield _sentence(name, empty, "an empty side", "have", "has")
    if tally.leaked.count:
        yield _sentence(name, tally.leaked, "in the training set", "also occur", "also occurs")


def _warnings(name: str, files: PairFiles, report: SplitReport) -> Iterator[str]:
    yield from (f"{name}: {note}" for note in files.notes)
    if report.duplicates:
        noun = "pair repeats" if report.duplicates == 1 else "pairs repeat"
        yield f"{name}: {report.duplicates:,} {noun} an earlier one"
    for finding, description in (
        (report.ratio_outliers, f"one side more than {RATIO_LIMIT} times as long as the other"),
        (report.identical, "the same text on both sides"),
        (report.control_characters, "control or replacement characters"),
    ):
        if finding.count:
            yield _sentence(name, finding, description, "have", "has")


def _sentence(
    name: str,
    finding: Finding,
    description: str,
    plural_verb: str,
    singular_verb: str,
) -> str:
    """Return a sentence such as `valid: valid.en:3: 2 pairs have an empty side (lines 3, 9)`."""
    is_single = finding.count == 1
    subject = f"1 pair {singular_verb}" if is_single else f"{finding.count:,} pairs {plural_verb}"
    lines = ", ".join(str(line) for line in finding.first_lines)
    more = ", …" if finding.count > len(finding.first_lines) else ""
    tail = "" if is_single else f" (lines {lines}{more})"
    return f"{name}: {finding.where}: {subject} {description}{tail}"
