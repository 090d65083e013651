"""Compares what a run does now with what was recorded of it."""

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
"""What rounding moves further: texts, in which one token can be another, and gradient norms."""
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

    differences: what makes the comparison fail. deliberate: differences that `CHANGES` explains.
    """

    case: str
    how: str
    differences: list[Difference] = field(default_factory=list)
    deliberate: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        state = f"{len(self.differences)} differences" if self.differences else "as recorded"
        lines = [f"{self.case}: {state} ({self.how})"]
        lines += [f"  {each.path}\n    {_sides(each)}" for each in self.differences[:12]]
        if len(self.differences) > 12:
            lines.append(f"  ... and {len(self.differences) - 12} more")
        lines += [f"  deliberate: {each.path}: {reason(each)}" for each in self.deliberate]
        return "\n".join(lines)


def _sides(each: Difference) -> str:
    return f"recorded {each.recorded}\n    now      {each.now}"


def record_path(name: str) -> Path:
    return RECORDS / f"{name}.json"


def read_record(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(record_path(name).read_text(encoding="utf-8"))
    return record


def write_record(name: str, record: dict[str, Any]) -> None:
    text = json.dumps(record, ensure_ascii=False, indent=1)
    record_path(name).write_text(text + "\n", encoding="utf-8")


def compare(name: str, recorded: dict[str, Any], now: dict[str, Any]) -> Report:
    """Bit for bit; if the machine is another and bits differ, losses and scores up to rounding."""
    found = differences(name, recorded, now)
    same_machine = recorded["machine"] == now["machine"]
    how = "bit-identical" if same_machine or not found else "close, on another machine"
    if found and not same_machine:
        found = [each for each in found if not is_close(each)]
    report = Report(name, how)
    for each in found:
        (report.deliberate if reason(each) else report.differences).append(each)
    return report


def differences(name: str, recorded: dict[str, Any], now: dict[str, Any]) -> list[Difference]:
    """Every value that is not the same; command lines and the machine aside."""
    before, after = dict(flat(recorded)), dict(flat(now))
    every = dict.fromkeys([*before, *after])
    return [
        Difference(name, path, before.get(path, ABSENT), after.get(path, ABSENT))
        for path in every
        if repr(before.get(path, ABSENT)) != repr(after.get(path, ABSENT))
    ]


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a record, by their paths."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            inner = f"{path}.{key}" if path else str(key)
            if inner not in ("train", "machine") and key != "command":
                yield from flat(item, inner)
    else:
        yield path, value


def is_close(each: Difference) -> bool:
    """Whether another machine may differ so: rounding in losses and scores, and whatever follows
    from rounding in weights and predictions."""
    if each.path.startswith("predict."):
        return True
    if each.path.startswith("data.") or ABSENT in (each.recorded, each.now):
        return False
    diverges = CASES[each.case].diverges
    if not each.path.startswith(NUMBERS) or (diverges and not each.path.endswith(LOSSES)):
        return True
    if isinstance(each.recorded, float) and isinstance(each.now, float):
        rough = diverges or each.path.endswith(ROUGH)
        relative = ROUGH_RELATIVE if rough else RELATIVE
        return math.isclose(each.recorded, each.now, rel_tol=relative, abs_tol=ABSOLUTE)
    return False


def reason(each: Difference) -> str:
    """Why the value was changed deliberately; empty if it was not."""
    where = f"{each.case} {each.path}"
    return next((why for pattern, why in CHANGES.items() if fnmatchcase(where, pattern)), "")
