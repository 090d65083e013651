"""Held-out inputs of a run, as its log and its saved attention have them: examples for a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from headway.base.errors import HeadwayError
from headway.base.metrics_file import read_log
from headway.runs.attention_over_time import read_attention_snapshots

MOST = 5
_SPECIAL = re.compile(r"<[^<>\s]+>|\[[A-Z]+\]")  # </s>, [CLS]; [MASK] belongs to an input


def held_out_inputs(run: Path) -> list[str]:
    """Return up to five texts that the run evaluated its model on, without having trained on them.

    They are the inputs of its sample outputs; if these have no input, as those of a language model,
    the text whose attention is saved during training. Empty for a folder that is no run, and for
    inputs that are no texts.
    """
    try:
        return _of_samples(run) or _of_attention(run)
    except (HeadwayError, OSError):
        return []  # an unfinished or damaged run: the page starts without examples


def _of_samples(run: Path) -> list[str]:
    log = run / "metrics.jsonl"
    rows = read_log(log).get("sample", []) if log.is_file() else []
    texts = [row.get("source") or row.get("prompt") or "" for row in reversed(rows)]
    return list(dict.fromkeys(text for text in texts if isinstance(text, str) and text.strip()))[
        :MOST
    ]


def _of_attention(run: Path) -> list[str]:
    frames: list[Any] = read_attention_snapshots(run)[0]
    sides = [side for frame in frames[:1] for side in frame["sides"].values()]
    if not sides or sides[0].get("image"):
        return []
    tokens = [
        token for token in sides[0]["tokens"] if token == "[MASK]" or not _SPECIAL.fullmatch(token)
    ]
    wordpieces = any(token.startswith("##") for token in tokens)
    text = " ".join(tokens).replace(" ##", "") if wordpieces else "".join(tokens)
    return [text] if text.strip() else []
