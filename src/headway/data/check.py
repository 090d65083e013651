"""Faults and oddities of sentence pairs, found before they cost a training run."""

from __future__ import annotations

import hashlib
import unicodedata
from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.data.formats import Pair, PairFiles, Splits, read_pairs
from headway.errors import HeadwayError

SHOWN = 5  # line numbers named for each finding
RATIO = 9  # one side this many times as long as the other is hardly a translation


@dataclass
class SplitReport:
    """One corpus. Findings map to the line numbers (from 1) where they stand."""

    name: str
    files: str
    pairs: int = 0
    findings: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    lengths: dict[str, dict[str, float]] = field(default_factory=dict)

    def note(self, finding: str, line: int) -> None:
        self.counts[finding] = self.counts.get(finding, 0) + 1
        places = self.findings.setdefault(finding, [])
        if len(places) < SHOWN:
            places.append(line)

    def describe(self, finding: str) -> str:
        lines = ", ".join(str(n) for n in self.findings[finding])
        more = ", ..." if self.counts[finding] > SHOWN else ""
        return f"{self.files}: {self.counts[finding]:,} {finding} (line {lines}{more})"


@dataclass
class CheckReport:
    """faults make `headway data check` exit with 3; warnings are for a person to judge."""

    splits: list[SplitReport]
    faults: list[str]
    warnings: list[str]

    def as_dict(self) -> dict[str, Any]:
        facts = [
            {"name": s.name, "files": s.files, "pairs": s.pairs, "words": s.lengths, **s.counts}
            for s in self.splits
        ]
        return {"splits": facts, "faults": self.faults, "warnings": self.warnings}

    def __str__(self) -> str:
        lines = []
        for split in self.splits:
            lines.append(f"{split.name:<6} {split.pairs:>9,} pairs   {split.files}")
            for side, length in split.lengths.items():
                lines.append(
                    f"       {side}: {length['mean']:.1f} words on average, "
                    f"95 % up to {length['p95']:.0f}, longest {length['longest']:.0f}"
                )
        lines += [f"fault    {fault}" for fault in self.faults]
        lines += [f"warning  {warning}" for warning in self.warnings]
        return "\n".join([*lines, "" if self.faults else "no faults"]).rstrip()


FAULTS = ("pairs with an empty side", "pairs whose source is also in train")


def check_splits(splits: Splits) -> CheckReport:
    """Read every split once. Sentences are kept as 8-byte hashes, so memory stays small.

    Faults: unreadable files, unequal counts, empty sides, sources of valid or test that also stand
    in train. Warnings: duplicates, source equal to target, odd length ratios, control characters.
    """
    reports: list[SplitReport] = []
    faults: list[str] = []
    trained: set[int] = set()
    for name, files in _named(splits):
        report = SplitReport(name, files.describe())
        reports.append(report)
        try:
            sources = _check(report, files, trained)
        except HeadwayError as error:
            faults.append(str(error).replace("\n", ";"))
            continue
        trained = sources if name == "train" else trained
    warnings: list[str] = []
    for report in reports:
        for finding in report.findings:
            (faults if finding in FAULTS else warnings).append(report.describe(finding))
    return CheckReport(reports, faults, warnings)


def _named(splits: Splits) -> list[tuple[str, PairFiles]]:
    every = [("train", splits.train), ("valid", splits.valid), ("test", splits.test)]
    return [(name, files) for name, files in every if files is not None]


def _check(report: SplitReport, files: PairFiles, trained: set[int]) -> set[int]:
    sources: set[int] = set()
    pairs: set[int] = set()
    lengths = array("I"), array("I")
    for pair in read_pairs(files):
        report.pairs += 1
        if not pair.source or not pair.target:
            report.note("pairs with an empty side", pair.line)
            continue
        source = _hash(pair.source)
        both = _hash(f"{pair.source}\t{pair.target}")
        if source in trained:
            report.note("pairs whose source is also in train", pair.line)
        if both in pairs:
            report.note("pairs that stand there twice", pair.line)
        sources.add(source)
        pairs.add(both)
        _look(report, pair)
        lengths[0].append(len(pair.source.split()))
        lengths[1].append(len(pair.target.split()))
    for side, counted in zip(("source", "target"), lengths, strict=True):
        if counted:
            words = np.frombuffer(counted, dtype=np.uint32)
            report.lengths[side] = {
                "mean": float(words.mean()),
                "p95": float(np.percentile(words, 95)),
                "longest": float(words.max()),
            }
    return sources


def _look(report: SplitReport, pair: Pair) -> None:
    """What can be seen in one pair alone."""
    if pair.source == pair.target:
        report.note("pairs whose two sides are equal", pair.line)
    short, long = sorted((len(pair.source), len(pair.target)))
    if long > RATIO * short + 20:
        report.note(f"pairs with one side over {RATIO} times as long as the other", pair.line)
    if any(unicodedata.category(c) == "Cc" for c in pair.source + pair.target):
        report.note("pairs with control characters", pair.line)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
