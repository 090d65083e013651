"""metrics.jsonl, the log of a run, read without importing torch: one JSON object per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headway.files import open_plain


def read_metrics(path: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind, in order. A partially written last line is ignored."""
    if not path.exists():
        return []
    with open_plain(path) as file:
        lines = file.read().split(b"\n")
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row.get("kind") == kind:
            rows.append(row)
    return rows
