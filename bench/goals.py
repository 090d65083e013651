"""The goal of each row that a user's command measures, for each kind of machine (issue 48)."""

from __future__ import annotations

from headway.cli.doctor import KINDS, machine_kind

CPUS = ("avx2", "avx512", "bfloat16")


def _on_cpus(ratio: float, avx2: float | None = None) -> dict[str, float]:
    return {**dict.fromkeys(CPUS, ratio), "avx2": ratio if avx2 is None else avx2}


GOALS: dict[str, dict[str, float]] = {
    "train a translator": {**_on_cpus(1.5, avx2=1.3), "gpu": 1.5},
    "train a language model": _on_cpus(1.5, avx2=1.4),
    "memory of training": _on_cpus(1.0),
    "part of the matrix rate, 124 M": {"gpu": 0.5},
    "part of the matrix rate, 350 M": {"gpu": 0.55},
    "defaults": dict.fromkeys(KINDS, 0.95),
    "one text, transformers": _on_cpus(1.5),
    "one text, ctranslate2_float32": _on_cpus(1.0),
    "one text, ctranslate2_int8": _on_cpus(1.0),
    "texts, transformers": _on_cpus(1.5),
    "texts, ctranslate2_float32": _on_cpus(1.3, avx2=1.0),
    "texts, ctranslate2_int8": _on_cpus(1.0),
    "part of a plain read, float32": _on_cpus(0.8),
    "part of a plain read, int8": _on_cpus(0.7),
    "translate": _on_cpus(1.5),
    "serve beside generate in one process": _on_cpus(1 / 1.05),
    "serve beside transformers generate": {"gpu": 3.0},
    "serve beside transformers serve": {**_on_cpus(1.0), "gpu": 2.0},
    "start": dict.fromkeys(KINDS, 1.0),
    "chat beside TRL": _on_cpus(1.0),
}
"""What a row is -> the short name of a kind of machine (`KINDS`) -> the smallest ratio.

A row without an entry for a kind has no goal there.
"""

RATES: dict[str, dict[int, float]] = {
    "tokens/s, streams at once": {1: 1400.0, 64: 30_000.0, 256: 60_000.0},
    "ms to the first token, streams at once": {1: 30.0, 64: 300.0},
}
"""Goals of a server on a GPU that are figures, not ratios, by the number of streams."""


def kind() -> str | None:
    """Return the short name of this machine's kind; None for a machine of another kind."""
    here = machine_kind()
    return next((short for short, name in KINDS.items() if name == here), None)


def goal(what: str) -> float | None:
    """Return the goal of a row on this machine, or None."""
    return GOALS[what].get(kind() or "")
