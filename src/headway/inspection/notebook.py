"""The inspection page in a cell of a notebook."""

from __future__ import annotations

from typing import Any

from headway.bundle import Bundle
from headway.inspection.document import Document
from headway.inspection.page import Widget, encode
from headway.inspection.watch import watch


def show(
    bundle: Bundle,
    given: Any,
    second: str | None = None,
    *,
    target: str | None = None,
    language: str | None = None,
    height: int = 720,
) -> Widget:
    """Return the page of one input, as `headway inspect` writes it; the last value of a cell is
    shown.

    given: the text or image. second, target, language: as for `watch`. height: in pixels. Raises
    UsageError if the model cannot be inspected.
    """
    frame = watch(bundle, given, second, target=target, language=language, vectors=True)
    title = given[:80] if isinstance(given, str) else frame.label
    return Widget(encode(Document(title=title, frames=[frame])), height)
