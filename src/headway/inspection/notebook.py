"""The inspection page in a cell of a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headway.bundle import Bundle
from headway.inspection.document import Document
from headway.inspection.page import NotebookPage, encode
from headway.inspection.watch import OF_A_PAGE, watch

if TYPE_CHECKING:
    from headway.inspection.page.widget import PageWidget


def show(
    bundle: Bundle,
    input: object,
    second: str | None = None,
    *,
    target: str | None = None,
    language: str | None = None,
    images: Sequence[object] = (),
    height: int = 720,
) -> PageWidget | NotebookPage:
    """Return the page of one input, as `headway inspect` writes it; the last value of a cell is
    shown.

    With anywidget (`pip install 'headway[notebooks]'`) it is a widget: what is selected in the page
    is its `selection` in Python, and setting `selection` selects in the page. Without, the page is
    the same, but tells Python nothing. input: the text or image. second, target, language,
    images: as for `watch`. height: in pixels. Raises UsageError if the model cannot be inspected.
    """
    frame = watch(
        bundle,
        input,
        second,
        target=target,
        language=language,
        images=images,
        vectors=True,
        analyses=OF_A_PAGE,
    )
    title = input[:80] if isinstance(input, str) else frame.label
    document = Document(title=title, frames=[frame])
    if find_spec("anywidget") is None:
        return NotebookPage(encode(document), height)
    from headway.inspection.page.widget import PageWidget

    return PageWidget(document, height)
