"""The viewer of a bundle, for the live inspection page."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headway.base.errors import UsageError
from headway.bundle import WRITTEN, Bundle
from headway.inspection.ablation import Head, without_heads
from headway.inspection.document import Document, Frame
from headway.inspection.experts import held_out_reads, with_held_out
from headway.inspection.walk import walk
from headway.inspection.watch import OF_A_PAGE, watch
from headway.serving.inspection_request import InspectionRequest

SENTENCE = "The monkey ate the banana because it was hungry."
"""The first input of the page, for a model of texts."""


class BundleViewer:
    """A `Viewer` of one bundle.

    name: its name in the page. examples: texts that the page offers as inputs; the first of them is
    shown first. passages: held-out texts from which the page shows what experts read most.
    """

    def __init__(
        self,
        bundle: Bundle,
        name: str,
        examples: Sequence[str] = (),
        *,
        passages: Sequence[str] = (),
    ) -> None:
        self.bundle, self.name, self.examples = bundle, name, examples
        self._reads = held_out_reads(bundle, passages)
        self._image: bytes | str | None = None

    def open(self, path: str) -> Document:
        """The first document, for a text or the path of an image from the command line."""
        if self.takes_images:
            self._image = path
            return self.look(InspectionRequest())
        return self.look(InspectionRequest(text=path))

    @property
    def takes_images(self) -> bool:
        return self.bundle.inputs.modality == "image"

    def first(self) -> Document:
        """The first document: that of the first example, or of `SENTENCE`; a note instead if the
        model needs another input."""
        try:
            return self.look(InspectionRequest(text=next(iter(self.examples), SENTENCE)))
        except UsageError:
            note = "Drop an image." if self.takes_images else "Type the input of this model."
            return self._document(notes=[note])

    def look(self, request: InspectionRequest) -> Document:
        return self._document(self._frame(request, self.name))

    def without(self, request: InspectionRequest) -> Document:
        """Frames with all heads and without some of them.

        Both are of the same tokens: the output of all heads is the target without them, so that
        their maps can be compared.
        """
        whole = self._frame(request, "all heads")
        with without_heads(self.bundle.model, request.heads):
            fewer = self._frame(request, "without " + ", ".join(map(_title_of, request.heads)))
        return self._document(whole, fewer)

    def walk(self, request: InspectionRequest) -> Document:
        steps = walk(
            self.bundle.probe(**self._arguments(request), written=WRITTEN),
            map=request.maps,
            layer=request.layer,
            head=request.head,
            position=request.position,
        )
        return Document(title=self.name, frames=[], walk=steps)

    def _document(self, *frames: Frame, notes: Sequence[str] = ()) -> Document:
        return Document(
            title=self.name,
            frames=frames,
            notes=notes,
            examples=self.examples,
            modality=self.bundle.inputs.modality,
        )

    def _frame(self, request: InspectionRequest, label: str) -> Frame:
        arguments = self._arguments(request)
        frame = watch(self.bundle, **arguments, vectors=True, label=label, analyses=OF_A_PAGE)
        frame = with_held_out(frame, self._reads)
        return replace(frame, model={**frame.model, "input": request.text or ""})

    def _arguments(self, request: InspectionRequest) -> dict[str, Any]:
        """The arguments of `watch` and `Bundle.probe`.

        A page sends an image once; later requests without an image are about the last one.
        """
        target = request.target or None
        if not self.takes_images:
            if not request.text:
                raise UsageError("the text is missing", hint="type a text")
            return {"input": request.text, "second": request.second or None, "target": target}
        self._image = request.image or self._image
        if self._image is None:
            raise UsageError("the image is missing", hint="drop an image")
        return {"input": self._image, "target": target}


def _title_of(head: Head) -> str:
    """The title of a head, such as "decoder 1.2": its layer and number, counted from 1."""
    name, layer, number = head
    return f"{name} {layer + 1}.{number + 1}"
