"""The film of a run: glimpses of its model on one held-out example, one file per glimpse.

A glimpse has the step, the loss, the output of the model for the example, and the attention of a
few heads on the same tokens in every glimpse: those of the reference, where the model has one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from headway.attention import attention_layers
from headway.base.errors import DataError, UsageError
from headway.base.files import make_durable_folder, parse_json
from headway.base.shapes import Float, Tensor
from headway.base.tensors import read_tensors, write_tensors
from headway.bundle import Bundle
from headway.inspection.document import Document, Frame, Maps, Side
from headway.inspection.page import encode, header_json
from headway.inspection.watch import inspect_probe
from headway.tasks.job import Example, TextPairs

FOLDER = "glimpses"
HEADER = "header"
CELLS = 40_000  # the most attention weights of a glimpse, so that a film has at most 3 MB
PIXELS = 96  # the longest side of the image of a glimpse
WRITTEN = 24  # tokens that a language model writes after the example
TOP = 3  # predictions per position
NAME = re.compile(r"step-([0-9]{9,})\.safetensors")


@dataclass(frozen=True)
class FilmFolder:
    """Keeps glimpses of a model on `example` in a folder."""

    folder: Path
    example: Example

    def rewind(self, step: int) -> None:
        """Remove the glimpses after `step`, whose steps are repeated."""
        for number, path in _files(self.folder):
            if number > step:
                path.unlink()

    def keep(self, bundle: Bundle, step: int, loss: float | None) -> None:
        """Write the glimpse of this step, unless there is one.

        Does nothing for an example that is too long for the model.
        """
        path = self.folder / f"step-{step:09}.safetensors"
        if path.exists():
            return
        try:
            frame = glimpse(bundle, self.example, f"step {step:,}")
        except UsageError:
            return
        encoded = encode(Document(title=frame.label, frames=[frame]), prefix=f"s{step}-b")
        text = self.example.input
        header = {
            **{"step": step, "loss": loss},
            "input": text if isinstance(text, str) else None,
            "second": self.example.second,
            "reference": self.example.target or self.example.label,
            "frame": _only_frame(encoded.header),
        }
        make_durable_folder(self.folder)
        parts = {HEADER: header_json(header), **encoded.blocks}
        blocks = {
            name: torch.frombuffer(bytearray(data), dtype=torch.uint8)
            for name, data in parts.items()
        }
        write_tensors(path, blocks)


def _only_frame(header: Mapping[str, Any]) -> object:
    (frame,) = header["frames"]
    return frame


@dataclass(frozen=True)
class Glimpse:
    """One moment of a film. loss: the mean of the steps since the one before. input, second: what
    the model was given, if that is text. frame: of the header of a page, with the output as its
    answer."""

    step: int
    loss: float | None
    input: str | None
    second: str | None
    reference: str | None
    frame: dict[str, Any]

    @property
    def given(self) -> str | None:
        """The texts that the model was given, for a person."""
        return "\n".join(text for text in (self.input, self.second) if text) or None


@dataclass(frozen=True)
class Film:
    """The glimpses of a run in the order of steps, and the blocks that their frames refer to."""

    glimpses: Sequence[Glimpse]
    blocks: Mapping[str, bytes]


def read_film(run: Path) -> Film:
    """Read the glimpses of a run. DataError names an invalid file.

    All frames open at the head that is the most informative one in the last.
    """
    glimpses: list[Glimpse] = []
    blocks: dict[str, bytes] = {}
    for _, path in _files(run / FOLDER):
        parts = {name: bytes(data.numpy()) for name, data in read_tensors(path).items()}
        try:
            glimpses.append(Glimpse(**parse_json(parts.pop(HEADER), str(path))))
            glimpses[-1].frame["opening"]
        except (KeyError, TypeError) as error:
            raise DataError(
                "the file does not contain a glimpse of a run", str(path), "remove it"
            ) from error
        blocks |= parts
    for one in glimpses:
        one.frame["opening"] = glimpses[-1].frame["opening"]
    return Film(glimpses, blocks)


def _files(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of glimpses with their steps, in order."""
    named = ((NAME.fullmatch(path.name), path) for path in folder.glob("*"))
    return sorted((int(name[1]), path) for name, path in named if name)


def glimpse(bundle: Bundle, example: Example, label: str) -> Frame:
    """Return the attention of a model on fixed tokens, and its own output as the answer.

    A model without attention has its output only, and a model of pairs the similarities of their
    texts. UsageError for an example that is too long.
    """
    text, second, target, language, _ = example
    if isinstance(text, TextPairs):
        return _similarities(bundle, text, label)
    fixed = bundle.probe(text, second, target=target, language=language, written=0)
    output = fixed.answer
    if target is not None or not output:
        output = bundle.probe(text, second, language=language, written=WRITTEN).answer
    if not attention_layers(bundle.model):
        return Frame(label=label, model={}, sides={}, maps=[], answer=output)
    frame = inspect_probe(fixed, analyses=(), top=TOP, label=label)
    maps = [few for maps in frame.maps if (few := _few_heads(maps, CELLS // len(frame.maps)))]
    sides = {name: _small(side) for name, side in frame.sides.items()}
    return replace(frame, answer=output, maps=maps, sides=sides)


def _similarities(bundle: Bundle, pairs: TextPairs, label: str) -> Frame:
    """Return the cosines of the first texts of pairs with all second texts, as a map of one head.

    The answer is the number of texts that are most similar to the other text of their pair.
    """
    embed = bundle.embed  # type: ignore[attr-defined]  # of an encoder of texts
    cosines: Float[Tensor, "N N"] = (embed(pairs.first) @ embed(pairs.second).T).cpu()
    right = int((cosines.argmax(1) == torch.arange(len(cosines))).sum())
    maps = Maps(
        name="pairs",
        queries="first",
        keys="second",
        layers=["cosine"],
        weights=[cosines[None]],
        measure="similarity",
        normalised=False,
    )
    sides = {"first": Side(tokens=pairs.first), "second": Side(tokens=pairs.second)}
    answer = f"{right} of {len(cosines)} texts are most similar to the other text of their pair"
    return Frame(label=label, model={}, sides=sides, maps=[maps], answer=answer)


def _few_heads(maps: Maps, cells: int) -> Maps | None:
    """Return the maps of as many layers and heads as have at most `cells` weights; None if a
    single one has more. The last layer is one of them."""
    heads, queries, keys = maps.weights[0].shape
    count = cells // (queries * keys)
    if not count:
        return None
    depth = len(maps.layers)
    chosen = max(1, min(depth, count // heads))
    if chosen == 1:
        layers = [depth - 1]
    else:
        layers = [round(at * (depth - 1) / (chosen - 1)) for at in range(chosen)]
    first = slice(0, count // chosen)
    return replace(
        maps,
        layers=[maps.layers[layer] for layer in layers],
        weights=[maps.weights[layer][first] for layer in layers],
        patterns=[maps.patterns[layer][first] for layer in layers] if maps.patterns else (),
    )


def _small(side: Side) -> Side:
    """Return a side whose image has at most `PIXELS` rows and columns, by leaving pixels out."""
    if side.image is None or side.reach is None:
        return side
    every = -(-max(side.image.shape[:2]) // PIXELS)
    rows, columns = side.reach
    reach = (-(-rows // every), -(-columns // every))
    return replace(side, image=side.image[::every, ::every], reach=reach)
