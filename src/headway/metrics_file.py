"""metrics.jsonl, the log of a run, read without importing torch: one JSON object per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_metrics(path: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind, in order. A partially written last line is ignored."""
    rows = []
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row.get("kind") == kind:
            rows.append(row)
    return rows
