"""The inspection page in a cell of a notebook."""

from __future__ import annotations

from typing import Any

from headway.bundle import Bundle
from headway.inspection.document import Document
from headway.inspection.page import Widget, encode
from headway.inspection.watch import watch


def show(
    bundle: Bundle,
    input: Any,
    second: str | None = None,
    *,
    target: str | None = None,
    language: str | None = None,
    height: int = 720,
) -> Widget:
    """Return the page of one input, as `headway inspect` writes it; the last value of a cell is
    shown.

    input: the text or image. second, target, language: as for `watch`. height: in pixels. Raises
    UsageError if the model cannot be inspected.
    """
    frame = watch(bundle, input, second, target=target, language=language, vectors=True)
    title = input[:80] if isinstance(input, str) else frame.label
    return Widget(encode(Document(title=title, frames=[frame])), height)
