"""A bundle of any kind behind the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.bundle import WRITTEN, Bundle
from headway.errors import UsageError
from headway.inspection.ablation import Head, without_heads
from headway.inspection.document import Document, Frame
from headway.inspection.walk import walk
from headway.inspection.watch import watch
from headway.serving.question import Question

SENTENCE = "The monkey ate the banana because it was hungry."
"""What the page shows of a model of texts before anybody asked."""


class BundleViewer:
    """A `Viewer` of one bundle. name: what it is called in the page."""

    def __init__(self, bundle: Bundle, name: str) -> None:
        self.bundle, self.name = bundle, name
        self._picture: bytes | str | None = None

    def open(self, path: str) -> Document:
        """The first page, of what the command line named: a text, or the path of a picture."""
        if self.looks_at_pictures:
            self._picture = path
            return self.look(Question())
        return self.look(Question(text=path))

    @property
    def looks_at_pictures(self) -> bool:
        return self.bundle.inputs.modality == "image"

    def first(self) -> Document:
        """Of a model that reads one text, what it makes of `SENTENCE`; of others nothing yet."""
        try:
            return self.look(Question(text=SENTENCE))
        except UsageError:
            note = "Drop a picture." if self.looks_at_pictures else "Type what this model reads."
            return Document(title=self.name, frames=[], notes=[note])

    def look(self, asked: Question) -> Document:
        frame = self._frame(asked, self.name)
        return Document(title=self.name, frames=[frame])

    def without(self, asked: Question) -> Document:
        """Both frames are of the same words: what it wrote with all heads is read again without
        some, so that their maps can be compared."""
        whole = self._frame(asked, "all heads")
        with without_heads(self.bundle.model, asked.heads):
            fewer = self._frame(asked, "without " + ", ".join(map(_called, asked.heads)))
        return Document(title=self.name, frames=[whole, fewer])

    def walk(self, asked: Question) -> Document:
        steps = walk(
            self.bundle,
            **self._given(asked),
            written=WRITTEN,
            map=asked.maps,
            layer=asked.layer,
            head=asked.head,
            place=asked.place,
        )
        return Document(title=self.name, frames=[], walk=steps)

    def _frame(self, asked: Question, label: str) -> Frame:
        frame = watch(self.bundle, **self._given(asked), vectors=True, label=label)
        return replace(frame, model={**frame.model, "input": asked.text or ""})

    def _given(self, asked: Question) -> dict[str, Any]:
        """As `watch` and `walk` take it. A page sends a picture once; questions about its heads
        are about the one that was sent last."""
        target = asked.target or None
        if not self.looks_at_pictures:
            if not asked.text:
                raise UsageError("there is nothing to look at", hint="type a text")
            return {"given": asked.text, "second": asked.second or None, "target": target}
        self._picture = asked.picture or self._picture
        if self._picture is None:
            raise UsageError("there is nothing to look at", hint="drop a picture")
        return {"given": self._picture, "target": target}


def _called(head: Head) -> str:
    """ "decoder 1.2": its layer and number from 1."""
    name, layer, number = head
    return f"{name} {layer + 1}.{number + 1}"
