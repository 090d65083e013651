"""From rounds to a table and a file."""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

GOAL = 1.2
PACKAGES = ("headway", "torch", "transformers", "tokenizers", "numpy")
Point = tuple[float, float]
HEADINGS = ("", "ours", "peer", "unit", "ratio", "spread", "goal", "", "beside")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claim. ours, peer: medians over the rounds, in `unit`.

    ratio: how many times better ours is, the median over pairs of neighbouring rounds; spread: its
    least and greatest. Better is more, or less where the unit is memory. goal: what the ratio
    should be; None where it is only stated. points: what a row that is a curve was fitted to.
    """

    name: str
    ours: float
    peer: float
    peer_name: str
    ratio: float
    goal: float | None
    spread: tuple[float, float]
    device: str
    unit: str
    note: str = ""
    points: tuple[Point, ...] = ()

    @property
    def reached(self) -> bool:
        return self.goal is None or self.ratio >= self.goal


def row(
    name: str,
    pairs: Sequence[tuple[dict[str, Any], ...]],
    unit: str,
    peer_name: str,
    device: str,
    *,
    less_is_better: bool = False,
    goal: float | None = GOAL,
    note: str = "",
) -> Row:
    """The row of some rounds: (our answer, the peer's) each, {"work": ..., "seconds": ...}."""
    rates = [tuple(answer["work"] / answer["seconds"] for answer in pair) for pair in pairs]
    ratios = [peer / ours if less_is_better else ours / peer for ours, peer in rates]
    return Row(
        name=name,
        ours=median(ours for ours, _ in rates),
        peer=median(peer for _, peer in rates),
        peer_name=peer_name,
        ratio=median(ratios),
        goal=goal,
        spread=(min(ratios), max(ratios)),
        device=device,
        unit=unit,
        note=note,
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text; a row below its goal is marked."""
    lines = [list(HEADINGS)]
    for r in rows:
        low, high = r.spread
        numbers = [f"{x:,.0f}" if x >= 1000 else f"{x:.4g}" for x in (r.ours, r.peer)]
        lines.append(
            [
                r.name,
                *numbers,
                r.unit,
                f"{r.ratio:.2f}",
                f"{low:.2f}..{high:.2f}",
                "" if r.goal is None else f"{r.goal:.2f}",
                "" if r.reached else "below",
                r.peer_name,
            ]
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    left = {0, 3, 7, 8}
    text = [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*text, *(f"{r.name}: {r.note}" for r in rows if r.note)])


def as_json(rows: Sequence[Row], command: str, conditions: dict[str, Any]) -> str:
    """The file of results. `conditions`: what else a reader must know to repeat them."""
    facts = {
        "rows": [asdict(r) for r in rows],
        "versions": versions(),
        "command": command,
        "conditions": conditions,
    }
    return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


def versions() -> dict[str, str]:
    """Libraries and machine, without the machine's name."""
    import torch

    found = {name: metadata.version(name) for name in PACKAGES}
    return {
        **found,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": torch.backends.cpu.get_cpu_capability(),
    }


def command_line(arguments: Sequence[str]) -> str:
    """What was typed, folders cut to their names: a machine's paths are nobody's business."""

    def short(argument: str) -> str:
        flag, sign, value = argument.rpartition("=")
        return f"{flag}{sign}{Path(value).name or value}"

    return shlex.join(["python", "-m", "bench", *map(short, arguments)])


def today() -> str:
    """YYYY-MM-DD, in UTC."""
    return datetime.now(UTC).date().isoformat()
