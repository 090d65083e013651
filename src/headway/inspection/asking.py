"""One input put to a model of any kind: how it is read, and what the answer's numbers mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from headway.bundle import (
    AnswererBundle,
    Bundle,
    CaptionerBundle,
    ClassifierBundle,
    EncoderBundle,
    ImageClassifierBundle,
    ImageEncoderBundle,
    Reading,
    TaggerBundle,
    TextBundle,
    TranslatorBundle,
)
from headway.data.image_reader import ImageReader
from headway.data.images import Pixels, as_pixels
from headway.errors import UsageError
from headway.inspection.document import Guess
from headway.models import ViT
from headway.shapes import Float, Tensor
from headway.text import MarkedTokenizer

WRITTEN = 12
"""Pieces that a language model goes on for, unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Says:
    """What the numbers mean that a reading gives: row i of rows(reading.run()) are logits of what
    stands at, or is said of, places[i] of a side; column c is names([c]). One column: a number."""

    side: str
    places: Sequence[int]
    rows: Callable[[Tensor], Float[Tensor, "P V"]]
    names: Callable[[Sequence[int]], list[str]]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What the model sees: pixels, and the patches that cover their first `reach` rows, columns."""

    pixels: Pixels
    grid: tuple[int, int]
    reach: tuple[int, int]
    beside: int


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A model's reading of one input and its answer. says: None of a model that gives vectors only.
    pictures: of the sides that are one."""

    bundle: Any
    reading: Reading
    answer: str
    says: Says | None
    pictures: Mapping[str, Picture] = field(default_factory=dict)

    def guesses(self, given: Tensor, top: int) -> list[Guess]:
        """The `top` likeliest things at each place, by what a reading gave."""
        if self.says is None:
            return []
        rows = self.says.rows(given).float()
        if rows.shape[1] < 2:
            return []
        best = rows.softmax(-1).topk(min(top, rows.shape[1]))
        return [
            Guess(place=place, tokens=self.says.names(ids), probabilities=shares)
            for place, ids, shares in zip(
                self.says.places, best.indices.tolist(), best.values.tolist(), strict=True
            )
        ]


def ask(
    bundle: Bundle,
    given: Any,
    second: str | None = None,
    *,
    target: str | Sequence[int] | None = None,
    language: str | None = None,
    written: int = WRITTEN,
) -> Asked:
    """Put a text or a picture to a model.

    second: the other text of a model of pairs, the context of a question. target: what a translator
    or a captioner is to be watched writing (a text or ids), instead of its own best. language: of a
    captioner. written: most pieces that a language model writes, which are watched too. UsageError
    for what a model cannot read or nothing can be seen in.
    """
    check_input(bundle, given, second, target=target, language=language)
    kinds: dict[type[Any], Callable[[], Asked]] = {
        TranslatorBundle: lambda: _translation(bundle, given, target),
        TextBundle: lambda: _text(bundle, given, written),
        EncoderBundle: lambda: _filled(bundle, given, second),
        ClassifierBundle: lambda: _classes(bundle, given, second),
        TaggerBundle: lambda: _tags(bundle, given),
        AnswererBundle: lambda: _answer(bundle, given, second),
        ImageEncoderBundle: lambda: _image(bundle, given),
        ImageClassifierBundle: lambda: _image(bundle, given),
        CaptionerBundle: lambda: _caption(bundle, given, target, language),
    }
    if type(bundle) not in kinds:
        raise UsageError(
            f"a {bundle.kind} has no attention to look at", hint="any kind but words can be watched"
        )
    return kinds[type(bundle)]()


def check_input(
    bundle: Bundle,
    given: Any,
    second: str | None = None,
    *,
    target: str | Sequence[int] | None = None,
    language: str | None = None,
) -> None:
    """UsageError for what `ask` could not put to a model of this kind."""
    reads_second = EncoderBundle | ClassifierBundle | AnswererBundle
    if second is not None and not isinstance(bundle, reads_second):
        raise UsageError(f"a {bundle.kind} reads one input, and there is a second one")
    if target is not None and not isinstance(bundle, TranslatorBundle | CaptionerBundle):
        raise UsageError(
            f"a {bundle.kind} writes nothing that could be given as the target",
            hint="a translator or a captioner does",
        )
    if language is not None and not isinstance(bundle, CaptionerBundle):
        raise UsageError(f"a {bundle.kind} is asked for no language")
    pictures = ImageEncoderBundle | ImageClassifierBundle | CaptionerBundle
    if not isinstance(bundle, pictures) and (not isinstance(given, str) or not given.strip()):
        raise UsageError("there is nothing to look at in an empty text", hint="give some words")


def _translation(bundle: Any, source: str, target: str | Sequence[int] | None) -> Asked:
    reading = bundle.reading(source, target)
    side = bundle.tokenizer.target
    ids = reading.ids["target"]
    says = _next(ids, side.size, side.pieces, "target")
    return Asked(bundle=bundle, reading=reading, answer=side.decode(ids), says=says)


def _next(
    ids: Sequence[int], size: int, names: Callable[[Sequence[int]], list[str]], side: str
) -> Says:
    """A decoder's output: its row t is place t of what it writes."""
    return Says(
        side=side, places=range(len(ids)), rows=lambda given: given[0, :, :size], names=names
    )


def _text(bundle: Any, text: str, written: int) -> Asked:
    tokens: Sequence[int] = ()
    answer = ""
    if written > 0:
        ((best,),) = bundle.generate([text], max_tokens=written, temperature=0.0)
        room = bundle.model.max_length
        begun = len(bundle.tokenizer.begin(text))
        tokens = best.tokens if room is None else best.tokens[: max(0, room - begun)]
        answer = best.text
    reading = bundle.reading(text, tokens)
    size, pieces = bundle.tokenizer.size, bundle.tokenizer.pieces
    count = len(reading.ids["text"])
    # row t says what stands at t + 1; the last one, what could follow
    says = Says(
        side="text",
        places=range(1, count + 1),
        rows=lambda given: given[0, :, :size],
        names=pieces,
    )
    return Asked(bundle=bundle, reading=reading, answer=answer, says=says)


def _filled(bundle: Any, text: str, second: str | None) -> Asked:
    reading = bundle.reading(text, second)
    if bundle.model.masked_words is None:
        return Asked(bundle=bundle, reading=reading, answer="", says=None)
    tokenizer = bundle.tokenizer
    size, mask = tokenizer.size, tokenizer.marks.mask
    places = [i for i, token in enumerate(reading.ids["text"]) if token == mask]

    def rows(given: Tensor) -> Tensor:
        # a vocabulary may be padded to a round number: what is no piece is no guess
        return given[0, places, :size]

    says = Says(side="text", places=places, rows=rows, names=tokenizer.words)
    with torch.inference_mode():
        best = rows(reading.run()).argmax(-1).tolist()
    return Asked(bundle=bundle, reading=reading, answer=", ".join(tokenizer.words(best)), says=says)


def _classes(bundle: Any, text: str, second: str | None) -> Asked:
    reading = bundle.reading(text, second)
    given = text if second is None else (text, second)
    marked = isinstance(bundle.reader.tokenizer, MarkedTokenizer)
    # what has read all of it: [CLS], or a language model's last token
    place = 0 if marked else len(reading.ids["text"]) - 1
    if bundle.reader.numbers is not None:
        answer, labels = f"{bundle.score([given])[0]:.3g}", ["the number"]
    else:
        answer, labels = bundle.classify([given])[0].label, list(bundle.labels)
    says = _labelled(labels, "text", [place], lambda found: found)
    return Asked(bundle=bundle, reading=reading, answer=answer, says=says)


def _labelled(
    labels: Sequence[str], side: str, places: Sequence[int], rows: Callable[[Tensor], Tensor]
) -> Says:
    return Says(side=side, places=places, rows=rows, names=lambda ids: [labels[i] for i in ids])


def _tags(bundle: Any, text: str) -> Asked:
    reading = bundle.reading(text)
    (found,) = bundle.tag([text])
    ((row,),) = bundle.reader.encode([[word.text for word in found.words]])
    says = _labelled(bundle.tags, "text", list(row.firsts), lambda given: given[0, row.firsts])
    named = found.spans or [word for word in found.words if word.tag != "O"]
    shown = [f"{each.text} ({getattr(each, 'label', None) or each.tag})" for each in named]
    return Asked(bundle=bundle, reading=reading, answer=", ".join(shown), says=says)


def _answer(bundle: Any, question: str, context: str | None) -> Asked:
    if context is None:
        raise UsageError(
            "an answer is looked for in a text, and there is none", hint="give it as the second"
        )
    reading = bundle.reading(question, context)
    pieces = reading.pieces["text"]
    with torch.inference_mode():
        places = reading.run()[0].argmax(0).tolist()  # where it begins, where it ends
    says = Says(
        side="text",
        places=places,
        rows=lambda given: given[0].T,
        names=lambda ids: [pieces[i] for i in ids],
    )
    answer = bundle.answer(question, context)
    return Asked(bundle=bundle, reading=reading, answer=answer[0].text if answer else "", says=says)


def _picture(vit: ViT, reader: ImageReader, given: Any) -> Picture:
    pixels = reader.sized(as_pixels(given, "the picture"))
    patches = vit.embedding.patches
    rows, columns = patches.grid(*pixels.shape[:2])
    return Picture(
        pixels=pixels,
        grid=(rows, columns),
        reach=(rows * patches.height, columns * patches.width),
        beside=vit.embedding.beside,
    )


def _image(bundle: Any, given: Any) -> Asked:
    reading, says, answer = bundle.reading(given), None, ""
    if isinstance(bundle, ImageClassifierBundle):
        (found,) = bundle.classify([given])
        answer = found.label
        says = _labelled(bundle.labels, "picture", [0], lambda given: given)
    picture = _picture(bundle.vit, bundle.reader, given)
    return Asked(
        bundle=bundle, reading=reading, answer=answer, says=says, pictures={"picture": picture}
    )


def _caption(
    bundle: Any, given: Any, text: str | Sequence[int] | None, language: str | None
) -> Asked:
    reading = bundle.reading(given, text, language=language)
    reader = bundle.reader
    ids = reading.ids["target"]
    return Asked(
        bundle=bundle,
        reading=reading,
        answer=reader.decode(ids),
        says=_next(ids, reader.size, reader.pieces, "target"),
        pictures={"picture": _picture(bundle.model.vit, reader.images, given)},
    )
