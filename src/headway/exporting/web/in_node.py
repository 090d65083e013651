"""The page's own code, run in Node and compared with the model before the page is kept."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from headway.attention import record_attention
from headway.base.errors import DataError, HeadwayError
from headway.base.shapes import Tensor
from headway.bundle import Bundle, EncoderBundle, part_of
from headway.data.images import Pixels
from headway.exporting.verified import TOLERANCE, differing
from headway.exporting.web.description import Description, tokenizers_of
from headway.exporting.web.packages import BINARY, LOADER, RUNTIME, Package, node
from headway.exporting.web.page import checking_script
from headway.interop.hf_export import check_same_ids, verification_texts
from headway.tasks.translation.bundle import TranslatorBundle

SECONDS = 600
TOKENS = 24
"""Tokens that a language model writes greedily after each probe."""
LONGEST = 40
"""Characters of a probe."""
COUNT = 4


@dataclass(frozen=True, kw_only=True)
class InNode:
    """The page's code against the model. difference, of_attention: maximum absolute difference of
    the logits and of the attention weights. texts: number of texts with equal ids. tokens: number
    of greedy tokens that are the same. seconds: of the fastest answer."""

    difference: float
    of_attention: float
    texts: int
    tokens: int
    seconds: float
    version: str


def compare_in_node(
    bundle: Bundle,
    model: Any,
    description: Description,
    graphs: Mapping[str, Path],
    packages: Mapping[str, Package],
    where: str,
    tolerance: float | None = TOLERANCE,
) -> InNode:
    """Run the code of a page in Node on probes, and compare it.

    model: computes what the page must compute: the model itself. tolerance: None measures only.
    Raises HeadwayError for a text with other ids, another token, or outputs that differ by more.
    """
    texts = {name: verification_texts(one) for name, one in tokenizers_of(bundle).items()}
    inputs = _inputs(bundle, description, texts)
    probes = {"texts": texts, "inputs": [_plain(one) for one in inputs], "tokens": TOKENS}
    found = _run(description, graphs, packages, probes, where)
    count = 0
    for name, tokenizer in tokenizers_of(bundle).items():
        for text, theirs in zip(texts[name], found["texts"][name], strict=True):
            check_same_ids(text, tokenizer.encode(text), theirs["ids"], where)
            if not isinstance(bundle, EncoderBundle) and description["kind"] != "classify":
                _check_same_text(tokenizer.decode(theirs["ids"]), theirs["text"], where)
            count += 1
    difference, of_attention, tokens = 0.0, 0.0, 0
    for one, answer in zip(inputs, found["answers"], strict=True):
        logits, maps = _expected(bundle, model, one, answer, description, where)
        further = _compare("logits", logits, answer["logits"], where, tolerance)
        difference = max(difference, further)
        for part, ours, theirs in zip(description["maps"], maps, answer["maps"], strict=True):
            what = f"attention weights of the {part['name']}"
            for weights, values in zip(ours, theirs, strict=True):
                further = _compare(what, weights, values, where, tolerance)
                of_attention = max(of_attention, further)
        if "written" in answer:
            tokens += _check_greedy(logits, answer, description, where, 2 * difference + TOLERANCE)
    return InNode(
        difference=difference,
        of_attention=of_attention,
        texts=count,
        tokens=tokens,
        seconds=min(answer["seconds"] for answer in found["answers"]),
        version=f"{packages[RUNTIME].version} in Node",
    )


def _run(
    description: Description,
    graphs: Mapping[str, Path],
    packages: Mapping[str, Package],
    probes: Mapping[str, object],
    where: str,
) -> Any:
    """Return what the page's code computes. HeadwayError if it fails."""
    loader, binary = (packages[RUNTIME].folder / file for file in (LOADER, BINARY))
    with TemporaryDirectory() as scratch:
        script, request = Path(scratch, "page.cjs"), Path(scratch, "request.json")
        script.write_bytes(checking_script(packages))
        described = Path(scratch, "description.json")
        described.write_text(json.dumps(description))
        files = {
            "wasm": str(binary.resolve()),
            "loader": loader.resolve().as_uri(),
            "description": str(described),
            "graphs": {name: str(path) for name, path in graphs.items()},
        }
        request.write_text(json.dumps({"files": files, "probes": probes}))
        words = [node(), str(script), str(request)]
        try:
            done = subprocess.run(
                words, capture_output=True, encoding="utf-8", timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            what = f"the page did not answer in {SECONDS} s in Node; the folder was removed"
            raise HeadwayError(what, where) from error
    if done.returncode != 0:
        reason = " ".join(done.stderr.split())[-300:]
        raise HeadwayError(f"the page fails in Node: {reason}; the folder was removed", where)
    return json.loads(done.stdout)


def _inputs(
    bundle: Any, description: Description, texts: Mapping[str, Sequence[str]]
) -> list[str | Pixels]:
    """Return inputs of the model: short texts, or images of random pixels of several sizes."""
    if description["modality"] == "image":
        reader = description["image"]["reader"]
        sides = (reader["height"], reader["width"])
        generator = np.random.default_rng(0)
        shapes = [(sides[0] + grow, sides[1] + 2 * grow, 3) for grow in (0, 7, 61)]
        return [generator.integers(0, 256, shape).astype(np.uint8) for shape in shapes]
    known = (*description["examples"], *texts["source"])
    short = [text.strip()[:LONGEST].strip() for text in known]
    chosen = [text for text in dict.fromkeys(short) if text and "\0" not in text]
    if "mask" in description:
        mask = description["mask"]["text"]
        chosen = [f"{text[: LONGEST // 2]} {mask} {text[LONGEST // 2 :]}" for text in chosen]
    fitting = []
    for text in chosen:
        try:
            _ids_of(bundle, text)
        except (DataError, HeadwayError):
            continue
        fitting.append(text)
    return [*fitting[:COUNT]]


def _plain(one: str | Pixels) -> dict[str, object]:
    if isinstance(one, str):
        return {"text": one}
    height, width, channels = one.shape
    data = {"height": height, "width": width, "channels": channels, "data": one.ravel().tolist()}
    return {"image": data}


def _ids_of(bundle: Any, text: str) -> list[int]:
    """Return the ids of an input, special tokens included."""
    if isinstance(bundle, TranslatorBundle):
        return [*bundle.probe(text, target="").reading.ids["source"]]
    return [*bundle.probe(text, written=0).reading.ids["text"]]


def _expected(
    bundle: Any, model: Any, one: str | Pixels, answer: Any, description: Description, where: str
) -> tuple[Tensor, list[list[Tensor]]]:
    """Return the logits of the model and its attention weights for what the page has read and
    written, by part. Raises HeadwayError if the page has read other ids or pixels."""
    ids = {name: side["values"] for name, side in answer["ids"].items()}
    inputs: list[Tensor] = []
    if isinstance(one, str):
        ours = _ids_of(bundle, one)
        first = "source" if "source" in ids else "text"
        read = ids[first][: answer["ids"][first]["generated"]]  # None: the page wrote none of them
        check_same_ids(one, ours, read, where)
        inputs.append(torch.tensor([ids[first]]))
        if description["kind"] in ("fill", "classify"):
            inputs.append(torch.ones_like(inputs[0], dtype=torch.bool))
    else:
        reader = getattr(bundle.reader, "images", bundle.reader)
        pixels = reader.batch([one])
        theirs = torch.tensor(answer["pixels"]).view(pixels.shape)
        step = 1 / 255 / min(reader.deviation)  # a filter may round a value to the next one
        if float((pixels - theirs).abs().max()) > 1.01 * step:
            raise HeadwayError(
                f"an image of {one.shape[0]} x {one.shape[1]} pixels becomes another one in the "
                "page; the folder was removed",
                where,
            )
        inputs.append(theirs)
    if "read" in ids:
        inputs.append(torch.tensor([ids["read"]]))
    with torch.inference_mode(), record_attention(model) as recorded:
        logits: Tensor = model(*inputs)
    by_part: dict[str, list[Tensor]] = {part["name"]: [] for part in description["maps"]}
    for layer, calls in recorded.items():
        by_part[part_of(layer)] += calls
    return logits, [by_part[part["name"]] for part in description["maps"]]


def _compare(
    what: str, ours: Tensor, theirs: Mapping[str, Any], where: str, tolerance: float | None
) -> float:
    """Return the maximum absolute difference. HeadwayError if it is too large."""
    values = torch.tensor(theirs["values"]).view(theirs["shape"])
    return differing(ours, values, what, where, tolerance, "page")


def _check_greedy(
    logits: Tensor, answer: Any, description: Description, where: str, near: float
) -> int:
    """Return the number of tokens that the page wrote. HeadwayError if the model has a more
    probable one. near: differences of logits that no computation decides."""
    written = answer["written"]
    scores = logits[0, :, : description["size"]].clone()
    scores[:, description["forbidden"]] = -torch.inf
    first = len(scores) - len(written) - 1
    for number, token in enumerate(written):
        row = scores[first + number]
        if float(row.max() - row[token]) > near:
            raise HeadwayError(
                f"greedy token {number + 1} is another one in the page; the folder was removed",
                where,
            )
    return len(written)


def _check_same_text(ours: str, theirs: str, where: str) -> None:
    if ours != theirs:
        raise HeadwayError(
            f"the page decodes {ours[:60]!r} as {theirs[:60]!r}; the folder was removed", where
        )
