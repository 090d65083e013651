"""metrics.jsonl, the log of a run, read without importing torch: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.files import open_plain


def read_metrics(path: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind, in order. A partially written last line is ignored."""
    return [event for _, event in events(path) if event.get("kind") == kind]


def events(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield each complete line of a log, without its end, and the event in it; no line if there is
    no such file."""
    if not path.exists():
        return
    with open_plain(path) as file:
        lines = file.read().split(b"\n")
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        yield line, event
