"""Opening a model for a verb that only one kind of model has."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from headway.errors import UsageError

B = TypeVar("B")


def opened(folder: str | Path, wanted: type[B], device: str = "cpu") -> B:
    """The bundle in `folder`, which must be of this class."""
    from headway.bundle import load

    bundle, kind = load(folder, device), getattr(wanted, "kind", "model")
    if not isinstance(bundle, wanted):
        raise UsageError(
            f"{folder} holds a {bundle.kind}, and this needs a {kind}",
            hint="headway runs ls says which recipe a run came from",
        )
    return bundle
