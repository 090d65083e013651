"""The format of the page: a header of plain JSON, and blocks of bytes compressed with gzip.

Weights have one byte each (`byte_weights`), with one block per layer, so that a page is shown
before all blocks are loaded. Vectors are little-endian float32. The header refers to the blocks by
name: "b0", "b1", ...
"""

import base64
import gzip
import json
import math
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.base.errors import UsageError
from headway.data.images import Pixels
from headway.inspection.document import Document, Frame, Maps, Side, Step, Vectors
from headway.inspection.entropy import relative_entropy
from headway.inspection.first_head import opening, opening_query
from headway.inspection.page.byte_weights import TOP, coding_of, thumbnails, to_codes

FORMAT, VERSION = "headway-inspection", 1
LEVELS = (31, 63, 255)


@dataclass(frozen=True)
class Encoded:
    """A document in the format of the page. blocks: name -> bytes compressed with gzip."""

    header: Mapping[str, object]
    blocks: Mapping[str, bytes]


class _Blocks:
    """Blocks of bytes, each with a unique name."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.by_name: dict[str, bytes] = {}

    def add(self, data: npt.NDArray[np.generic]) -> str:
        name = f"{self.prefix}{len(self.by_name)}"
        self.by_name[name] = gzip.compress(np.ascontiguousarray(data).tobytes(), 6, mtime=0)
        return name


def encode(
    document: Document,
    *,
    levels: int = 255,
    layers: Collection[int] = (),
    live: bool = False,
    report: Mapping[str, object] | None = None,
    prefix: str = "b",
) -> Encoded:
    """Return the header and the blocks of a document.

    levels: the number of different weights, 31, 63 or 255. layers: the layers to store, counted
    from 1; if empty, all. Reduced levels and layers are mentioned in the notes. live: whether the
    page can ask a server to run the model. report: report of a training run, in the form that
    `assets/view-report.js` documents. prefix: prefix of the names of blocks; a server with several
    documents needs a different one for each.

    Raises UsageError for invalid levels or layers, and DataError for invalid weights.
    """
    if levels not in LEVELS:
        raise UsageError(f"levels must be 31, 63 or 255, not {levels}")
    notes = list(document.notes)
    frames = document.frames
    if layers:
        frames = [only_layers(frame, sorted(set(layers))) for frame in frames]
        notes.append(f"Only layers {', '.join(map(str, sorted(set(layers))))} are in this page.")
    if levels < TOP:
        notes.append(f"Weights are rounded to {levels} levels, to make this page smaller.")
    blocks = _Blocks(prefix)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "title": document.title,
        "notes": notes,
        "live": live,
        "examples": list(document.examples),
        "modality": document.modality,
        "frames": [_frame(frame, blocks, levels) for frame in frames],
        "walk": [_step(step) for step in document.walk],
        "report": report,
    }
    return Encoded(header, blocks.by_name)


def header_json(header: Mapping[str, object]) -> bytes:
    """Return JSON that is safe inside HTML and JavaScript: without "<" and lone surrogates."""
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text.encode("utf-8", "replace")


def only_layers(frame: Frame, layers: Sequence[int]) -> Frame:
    """Return a frame with the maps of these layers only, counted from 1.

    Maps that have none of the layers are left out. Raises UsageError if no map has one of them.
    """
    if low := [n for n in layers if n < 1]:
        raise UsageError(f"there is no layer {low[0]}", hint="layers are counted from 1")
    if not any(n <= len(maps.layers) for maps in frame.maps for n in layers):
        most = max((len(maps.layers) for maps in frame.maps), default=0)
        raise UsageError(f"there is no layer {layers[0]}", hint=f"layers are 1 to {most}")

    def chosen(values: Sequence[object]) -> list[Any]:
        return [values[n - 1] for n in layers if n <= len(values)]

    def fewer(maps: Maps) -> Maps:
        parts: dict[str, Any] = {name: chosen(getattr(maps, name)) for name in _BY_LAYER}
        return replace(maps, **parts)

    reduced = [small for maps in frame.maps if (small := fewer(maps)).layers]
    by_layer: dict[str, Any] = {
        name: {part: chosen(values) for part, values in getattr(frame, name).items()}
        for name in ("importance", "effects", "updates")
    }
    return replace(frame, maps=reduced, **by_layer)


_BY_LAYER = ("layers", "weights", "patterns", "vectors")


def _frame(frame: Frame, blocks: _Blocks, levels: int) -> dict[str, object]:
    lens = frame.lens
    return {
        "label": frame.label,
        "model": {key: _plain(value) for key, value in frame.model.items()},
        "answer": frame.answer,
        "sides": {name: _side(side) for name, side in frame.sides.items()},
        "maps": [_maps(maps, frame, blocks, levels) for maps in frame.maps],
        "opening": _opening(frame),
        "predictions": [_plain(asdict(prediction)) for prediction in frame.predictions],
        "predictions_side": frame.predictions_side,
        "lens": lens and _plain(asdict(lens)),
        "attributions": [_plain(asdict(attribution)) for attribution in frame.attributions],
        "beam": [_plain(asdict(leaf)) for leaf in frame.beam],
        "effects": {
            part: [[_plain(asdict(effect), 2) for effect in layer] for layer in layers]
            for part, layers in frame.effects.items()
        },
        "updates": _plain(frame.updates, 2),
        "mixtures": [_plain(asdict(mixture), 3) for mixture in frame.mixtures],
    }


def _opening(frame: Frame) -> dict[str, object] | None:
    first = opening(frame)
    if first is None:
        return None
    return {**asdict(first), "query": opening_query(frame, first)}


def _maps(maps: Maps, frame: Frame, blocks: _Blocks, levels: int) -> dict[str, object]:
    if not maps.weights or len(maps.weights) != len(maps.layers):
        raise ValueError(
            f"{maps.name!r} has weights of {len(maps.weights)} layers, but {len(maps.layers)} names"
        )
    heads, queries, keys = maps.weights[0].shape
    sides = frame.sides[maps.queries].tokens, frame.sides[maps.keys].tokens
    if any(w.shape != (heads, len(sides[0]), len(sides[1])) for w in maps.weights):
        raise ValueError(
            f"{maps.name!r}: the shape of a layer does not fit its {len(sides[0])} queries and "
            f"{len(sides[1])} keys"
        )
    coding = coding_of(list(maps.weights), maps.normalised, f"{maps.name} ({maps.measure})")
    signed = coding["kind"] == "signed"
    ids, small = [], []
    for weights in maps.weights:
        codes = to_codes(weights, coding, levels)
        ids.append(blocks.add(codes))
        small.append(thumbnails(codes, signed))
    of_attention = maps.measure == "attention"
    importance = frame.importance.get(maps.name) if of_attention else None
    return {
        **{"name": maps.name, "measure": maps.measure},
        **{"queries": maps.queries, "keys": maps.keys, "layers": list(maps.layers)},
        **{"heads": heads, "shape": [queries, keys]},
        **{"causal": maps.causal, "normalised": maps.normalised},
        **{"blocks": ids, "coding": coding},
        "thumbnails": blocks.add(np.stack(small)),
        "thumbnail": list(small[0].shape[1:]),
        "entropy": _entropy(maps) if maps.normalised else None,
        "patterns": [[_plain(dict(head)) for head in layer] for layer in maps.patterns],
        "importance": _plain([list(layer) for layer in importance]) if importance else None,
        "metric": frame.metric,
        "vectors": [_vectors(vectors, blocks) for vectors in maps.vectors] or None,
    }


def _entropy(maps: Maps) -> list[list[float | None]]:
    """Return [layer][head], the mean over queries; None if each query has only one key."""
    causal = maps.causal and maps.queries == maps.keys
    means = [relative_entropy(w, causal).nanmean(-1).tolist() for w in maps.weights]
    return [[None if math.isnan(h) else round(h, 4) for h in layer] for layer in means]


def _vectors(vectors: Vectors, blocks: _Blocks) -> dict[str, object]:
    named = {name: getattr(vectors, name).detach().float().cpu().numpy() for name in ("q", "k")}
    norms = vectors.norms.detach().float().cpu().numpy()
    return {
        **{name: blocks.add(values.astype("<f4")) for name, values in named.items()},
        "norms": blocks.add(norms.astype("<f4")),
        "width": vectors.q.shape[-1],
        "scale": vectors.scale,
    }


def _side(side: Side) -> dict[str, object]:
    count, prefix, grid = len(side.tokens), side.num_prefix_tokens, side.grid
    if grid is not None and count - prefix < grid[0] * grid[1]:
        raise ValueError(
            f"{count} tokens, {prefix} of them before the patches, do not fit a grid of "
            f"{grid[0]} x {grid[1]} patches"
        )
    image = side.image
    return {
        "tokens": list(side.tokens),
        "words": [list(word) for word in side.words],
        "image": None if image is None else data_url(image),
        "size": None if image is None else list(image.shape[:2]),
        "grid": None if side.grid is None else list(side.grid),
        "reach": None if side.reach is None else list(side.reach),
        "num_prefix_tokens": side.num_prefix_tokens,
        "generated": side.generated,
    }


def _step(step: Step) -> dict[str, object]:
    arrays = [
        {
            **{"name": array.name, "shape": list(array.shape)},
            **{"rows": list(array.rows), "columns": list(array.columns)},
            "values": _plain(array.values.detach().double().cpu().tolist()),
        }
        for array in step.arrays
    ]
    texts = {name: getattr(step, name) for name in ("title", "text", "equation", "source")}
    return {**texts, "arrays": arrays}


def data_url(pixels: Pixels) -> str:
    """Return an image as a data address with a PNG (ISO/IEC 15948), which needs no request."""
    rows, columns, channels = pixels.shape
    colour = {1: 0, 3: 2}[channels]
    lines = np.zeros((rows, 1 + columns * channels), np.uint8)  # filter type 0: none
    lines[:, 1:] = pixels.reshape(rows, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", columns, rows, 8, colour, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 6))
    png = b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _plain(value: object, digits: int = 6) -> Any:
    """Return a value for JSON: floats have `digits` digits, NaN and infinity are None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, digits) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, digits) for inner in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return str(value)
