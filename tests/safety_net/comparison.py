"""Compares the results of a run with its record."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.safety_net.cases import CASES
from tests.safety_net.changes import CHANGES

RECORDS = Path(__file__).parent / "records"
NUMBERS = ("losses.", "validation.", "eval.")
"""Sections whose numbers another machine reaches too, up to rounding."""
RELATIVE, ABSOLUTE = 1e-3, 1e-3
ROUGH = ("bleu", "chrf", "cider", "grad_norm")
"""Scores that rounding changes more: of texts, where one token can differ, and gradient norms."""
ROUGH_RELATIVE = 0.05
LOSSES = (".loss", ".nats")
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One value that is not the recorded one."""

    case: str
    path: str
    recorded: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.case}  {self.path}: recorded {self.recorded}, now {self.now}"


@dataclass
class Report:
    """Outcome of comparing one case.

    differences: those that make the comparison fail. deliberate: those that `CHANGES` explains.
    """

    case: str
    how: str
    differences: list[Difference] = field(default_factory=list)
    deliberate: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        state = f"{len(self.differences)} differences" if self.differences else "as recorded"
        lines = [f"{self.case}: {state} ({self.how})"]
        lines += [
            f"  {difference.path}\n    {_sides(difference)}" for difference in self.differences[:12]
        ]
        if len(self.differences) > 12:
            lines.append(f"  ... and {len(self.differences) - 12} more")
        lines += [
            f"  deliberate: {difference.path}: {reason(difference)}"
            for difference in self.deliberate
        ]
        return "\n".join(lines)


def _sides(difference: Difference) -> str:
    return f"recorded {difference.recorded}\n    now      {difference.now}"


def record_path(name: str) -> Path:
    return RECORDS / f"{name}.json"


def read_record(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(record_path(name).read_text(encoding="utf-8"))
    return record


def write_record(name: str, record: dict[str, Any]) -> None:
    text = json.dumps(record, ensure_ascii=False, indent=1)
    record_path(name).write_text(text + "\n", encoding="utf-8")


def compare(name: str, recorded: dict[str, Any], now: dict[str, Any]) -> Report:
    """Compare bits; on another machine where bits differ, losses and scores up to rounding."""
    changed = differences(name, recorded, now)
    same_machine = recorded["machine"] == now["machine"]
    how = "bit-identical" if same_machine or not changed else "close, on another machine"
    if changed and not same_machine:
        changed = [difference for difference in changed if not is_close(difference)]
    report = Report(name, how)
    for difference in changed:
        (report.deliberate if reason(difference) else report.differences).append(difference)
    return report


def differences(name: str, recorded: dict[str, Any], now: dict[str, Any]) -> list[Difference]:
    """Return every value that differs, without command lines and the machine."""
    before, after = dict(flat(recorded)), dict(flat(now))
    every = dict.fromkeys([*before, *after])
    return [
        Difference(name, path, before.get(path, ABSENT), after.get(path, ABSENT))
        for path in every
        if repr(before.get(path, ABSENT)) != repr(after.get(path, ABSENT))
    ]


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each leaf of a record."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            inner = f"{path}.{key}" if path else str(key)
            if inner not in ("train", "machine") and key != "command":
                yield from flat(item, inner)
    else:
        yield path, value


def is_close(difference: Difference) -> bool:
    """Return whether another machine may cause the difference: rounding in losses and scores, and
    any change of weights and predictions."""
    if difference.path.startswith("predict."):
        return True
    if difference.path.startswith("data.") or ABSENT in (difference.recorded, difference.now):
        return False
    diverges = CASES[difference.case].diverges
    if not difference.path.startswith(NUMBERS) or (
        diverges and not difference.path.endswith(LOSSES)
    ):
        return True
    if isinstance(difference.recorded, float) and isinstance(difference.now, float):
        rough = diverges or difference.path.endswith(ROUGH)
        relative = ROUGH_RELATIVE if rough else RELATIVE
        return math.isclose(difference.recorded, difference.now, rel_tol=relative, abs_tol=ABSOLUTE)
    return False


def reason(difference: Difference) -> str:
    """Return the reason for which the value was changed deliberately; empty if it was not."""
    key = f"{difference.case} {difference.path}"
    return next((why for pattern, why in CHANGES.items() if fnmatchcase(key, pattern)), "")
