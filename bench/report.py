"""Report of a benchmark: from measured rounds to a table and a JSON file."""

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

from headway.base.files import write_file
from headway.cli.doctor import machine_kind

GOAL = 1.5
FUNCTIONS, INTERFACE, COMMANDS = "functions", "Python", "command"
"""How a row was measured: by calls of functions, which only explain; as a user programs; or by the
command that a user types."""
PACKAGES = (
    *("headway", "torch", "transformers", "tokenizers", "numpy"),
    *("ctranslate2", "onnxruntime", "onnx"),
)
Point = tuple[float, float]
HEADINGS = (
    *("", "ours", "peer", "unit", "ratio", "spread", "goal", "", "whole, s", "measured by"),
    "compared with",
)
LEFT_ALIGNED = {0, 3, 7, 9, 10}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured claim. ours, peer: medians over the rounds, in `unit`.

    ratio: the median over pairs of neighbouring rounds; above 1, Headway is better (faster, or less
    memory). spread: the lowest and highest ratio. goal: the required ratio on this kind of machine;
    None if there is none. points: the points of a fitted curve. whole: median seconds of the whole
    commands, from their start to their end, of both sides. by: how it was measured.
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
    whole: tuple[float, float] | None = None
    by: str = FUNCTIONS

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
    """Return the row of some rounds.

    pairs: for each round Headway's answer and the peer's, {"work": ..., "seconds": ...}, and of a
    command also the seconds of the "whole".
    """
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
        whole=_wholes(pairs),
    )


def _wholes(pairs: Sequence[tuple[dict[str, Any], ...]]) -> tuple[float, float] | None:
    """Return the median seconds of the whole commands of both sides; None unless all are known."""
    if not all("whole" in answer for pair in pairs for answer in pair):
        return None
    ours, peer = (median(a["whole"] for a in side) for side in zip(*pairs, strict=True))
    return ours, peer


def shown(rows: Sequence[Row]) -> str:
    """Format the rows of commands and of programs, and below them those that only explain."""
    of_users = [r for r in rows if r.by != FUNCTIONS]
    explaining = [r for r in rows if r.by == FUNCTIONS]
    parts = [table(of_users)] if of_users else []
    if explaining:
        parts.append("Explanations: functions with chosen settings, not what a user types.")
        parts.append(table(explaining))
    return "\n".join(parts)


def table(rows: Sequence[Row]) -> str:
    """Format the rows as aligned text; a row below its goal says so."""
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
                "" if r.whole is None else " / ".join(f"{x:.3g}" for x in r.whole),
                r.by,
                r.peer_name,
            ]
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    text = [
        "  ".join(
            cell.ljust(width) if i in LEFT_ALIGNED else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*text, *(f"{r.name}: {r.note}" for r in rows if r.note)])


class RowsOfDay:
    """The rows measured so far, in a file: those of another day or other conditions are not kept.

    Keys are a claim and a peer.
    """

    def __init__(self, path: Path, conditions: dict[str, Any]) -> None:
        self._path, self._conditions = path, conditions
        self._rows: dict[tuple[str, str], list[Row]] = {}
        if path.is_file():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["conditions"] == conditions:
                for claim, peer, rows in kept["rows"]:
                    self._rows[claim, peer] = [_row_of(fields) for fields in rows]

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._rows

    def forget(self) -> None:
        self._rows.clear()

    def add(self, claim: str, peer: str, rows: list[Row]) -> None:
        """Keep the rows of a claim beside a peer, at once in the file too."""
        self._rows[claim, peer] = rows
        kept = [[*key, [asdict(r) for r in rows]] for key, rows in self._rows.items()]
        text = json.dumps({"conditions": self._conditions, "rows": kept}, ensure_ascii=False)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self._path, text.encode())

    def of(self, claims: Sequence[str], peers: Sequence[str] | None) -> list[Row]:
        """Return the rows of these claims beside these peers, or beside all, in that order."""
        return [
            r
            for claim in claims
            for (measured, peer), rows in self._rows.items()
            if measured == claim and (peers is None or peer in peers)
            for r in rows
        ]


def _row_of(fields: dict[str, Any]) -> Row:
    points = tuple((x, y) for x, y in fields["points"])
    whole = None if fields["whole"] is None else tuple(fields["whole"])
    return Row(**{**fields, "spread": tuple(fields["spread"]), "points": points, "whole": whole})


def as_json(rows: Sequence[Row], command: str, conditions: dict[str, Any]) -> str:
    """Return the content of the file of results. conditions: further settings to repeat them."""
    results = {
        "rows": [asdict(r) for r in rows],
        "versions": versions(),
        "command": command,
        "conditions": conditions,
    }
    return json.dumps(results, indent=1, ensure_ascii=False) + "\n"


def versions() -> dict[str, str]:
    """Return the versions of libraries and the type of machine, without its name."""
    import torch

    return {
        **{name: metadata.version(name) for name in PACKAGES if _is_installed(name)},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "processor": processor(),
        "kind": machine_kind(),
    }


def processor() -> str:
    """Return the processor's name, family and model, and the size of its last cache, from Linux."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return platform.processor()
    pairs = (line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in pairs}
    names = ("model name", "cpu family", "model", "cache size")
    return ", ".join(f"{name} {fields[name]}" for name in names if name in fields)


def _is_installed(name: str) -> bool:
    """Return whether a package is installed: a GPU machine may have this folder alone."""
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def command_line(arguments: Sequence[str]) -> str:
    """Return the command with file names instead of paths, which are private."""

    def short(argument: str) -> str:
        flag, sign, value = argument.rpartition("=")
        return f"{flag}{sign}{Path(value).name or value}"

    return shlex.join(["python", "-m", "bench", *map(short, arguments)])


def today() -> str:
    """Return the date in UTC as YYYY-MM-DD."""
    return datetime.now(UTC).date().isoformat()
