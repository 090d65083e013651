"""Opening a model for a verb that only one kind of model has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.bundle import Bundle

B = TypeVar("B", bound="Bundle")


def opened(folder: str | Path, kind: type[B], device: str = "cpu") -> B:
    """The bundle in `folder`, which must be of this kind."""
    from headway.bundle import load

    bundle: Any = load(folder, device)
    if not isinstance(bundle, kind):
        raise UsageError(
            f"{folder} holds a {bundle.kind}, and this needs a {kind.kind}",
            hint="headway runs ls says which recipe a run came from",
        )
    return bundle
