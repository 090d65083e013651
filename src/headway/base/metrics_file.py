"""metrics.jsonl, the log of a run, read without importing torch: one JSON object per line."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.base.errors import HeadwayWarning
from headway.base.files import open_plain

Event = dict[str, Any]
"""One line of metrics.jsonl: {"kind": "step" | "valid" | "saved" | ..., "step": ..., ...}."""

ASIDE = {"kind", "step", "epoch", "time", "seconds", "took", "is_best"}
"""The keys of events that are no measured numbers."""

OF_A_STEP = {"train", "valid", "sample", "finished"}
"""The kinds of events that belong to a step."""


def read_metrics(path: Path, kind: str) -> list[Event]:
    """Return the events of one kind, in order, as `events` reads them."""
    return read_log(path).get(kind, [])


def read_log(path: Path) -> dict[str, list[Event]]:
    """Return the events of each kind, in order, as `events` reads them."""
    by_kind: dict[str, list[Event]] = {}
    for _, event in events(path):
        by_kind.setdefault(event["kind"], []).append(event)
    return by_kind


def events(path: Path) -> Iterator[tuple[bytes, Event]]:
    """Yield each complete line of a log, without its end, and the event in it; no line if there is
    no such file.

    A last line that was only partially written is left out. So is any other line that is no event,
    with a HeadwayWarning that names the first of them.
    """
    if not path.exists():
        return
    with open_plain(path) as file:
        *lines, last = file.read().split(b"\n")
    damaged = []
    for number, line in enumerate(lines, start=1):
        event = _event(line)
        if event is not None:
            yield line, event
        elif line.strip():
            damaged.append(number)
    if (event := _event(last)) is not None:
        yield last, event
    if damaged:
        others = f", nor are {len(damaged) - 1} further lines" if len(damaged) > 1 else ""
        warnings.warn(
            f"{path}:{damaged[0]}: this line is no event of a training log{others}; left out",
            HeadwayWarning,
            stacklevel=2,
        )


def _event(line: bytes) -> Event | None:
    """Return the event in a line; None if there is none, or if it has no kind or no step."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("kind"), str):
        return None
    has_step = type(event.get("step")) is int
    return event if has_step or ("step" not in event and event["kind"] not in OF_A_STEP) else None
