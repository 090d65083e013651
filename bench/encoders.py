"""Encoding speed in float32 and int8, compared with onnxruntime.

- The shape of MiniLM (6 layers, width 384): 256 sentences of 4 to 60 tokens, the shortest first in
  batches of 32; mean of the token vectors.
- ViT-S (12 layers, width 384): 32 images of 224 x 224 pixels; vector of [CLS].

The weights are untrained; the speed is the same. onnxruntime's side is transformers' model with the
same weights, exported by torch.onnx and, for int8, quantised by `quantize_dynamic`. In float32 the
vectors of both sides must agree before anything is timed; in int8 the lowest cosine similarity to
Headway's float32 is printed for each side.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.report import Row, row
from bench.sides import Answer, Settings, Side, Worker, interleave
from headway.blocks.heads import mean_pool
from headway.data.image_reader import IMAGES_AT_ONCE
from headway.data.padding import collate_encoder_batch, shortest_first
from headway.interop import write
from headway.models import Bert, BertConfig, ViT, ViTConfig
from headway.transforms import quantize
from headway.transforms.fast.table import prepare_for_inference

PEERS = ("onnxruntime_float32", "onnxruntime_int8")
REQUIRES = dict.fromkeys(PEERS, ("onnxruntime", "onnx", "onnxscript", "transformers"))
NAMES = {"onnxruntime_float32": "onnxruntime float32", "onnxruntime_int8": "onnxruntime int8"}
CASES = {"MiniLM, 256 sentences": "text", "ViT-S, 32 images": "image"}
TEXT = {**BertConfig.sizes["minilm"], "masked_lm_head": False, "next_sentence": False}
IMAGE = ViTConfig.sizes["s"]
SENTENCES, SHORTEST, LONGEST, IMAGES = 256, 4, 60, 32
ROWS = 32  # batch size, as in `EncoderBundle.embed`
GOAL, CLOSE = 1.1, 1e-4

Encode = Callable[[], Tensor]


def measure(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Compare the vectors, then measure. RuntimeError if they differ in float32."""
    name = peer.name.rpartition(", ")[2]
    dtype = name.rpartition("_")[2]
    for title in CASES:
        exact, vectors, peer_vectors = (
            torch.tensor(side.ask(case=title, dtype=kind, vectors=True)["vectors"])
            for side, kind in ((ours, "float32"), (ours, dtype), (peer, dtype))
        )
        if dtype == "float32":
            difference = (vectors - peer_vectors).abs().max().item()
            if difference > CLOSE:
                raise RuntimeError(
                    f"{title}: the vectors differ by {difference:.1e}, more than {CLOSE:g}"
                )
            note = f"vectors differ by at most {difference:.1e}"
        else:
            lowest, peer_lowest = (
                F.cosine_similarity(exact, v, dim=-1).min().item() for v in (vectors, peer_vectors)
            )
            note = f"lowest cosine to float32: ours {lowest:.4f}, peer {peer_lowest:.4f}"
        pairs = interleave(ours, peer, rounds, case=title, dtype=dtype)
        unit = "sentences/s" if CASES[title] == "text" else "images/s"
        full_title = f"{title}, {dtype}"
        yield row(full_title, pairs, unit, NAMES[name], device, goal=GOAL, note=note)


def text_encoder() -> Bert:
    torch.manual_seed(0)
    return Bert(BertConfig(**TEXT)).eval()


def image_encoder() -> ViT:
    torch.manual_seed(0)
    return ViT(ViTConfig(**IMAGE)).eval()


def sentences() -> list[list[int]]:
    """Return the ids of the sentences, without padding."""
    torch.manual_seed(1)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (SENTENCES,)).tolist()
    return [torch.randint(1, BertConfig(**TEXT).vocabulary, (n,)).tolist() for n in lengths]


def images() -> Tensor:
    """Return normalised pixels."""
    config = ViTConfig(**IMAGE)
    torch.manual_seed(1)
    return torch.randn(IMAGES, config.channels, *config.image)


def ours(settings: Settings) -> Worker:
    """Headway, as `EncoderBundle.embed` and `ImageEncoderBundle.embed` compute."""

    def build(kind: str, dtype: str) -> Encode:
        model: Any = text_encoder() if kind == "text" else image_encoder()
        if dtype != "float32":
            quantize(model, dtype)
        prepare_for_inference(model)  # as `headway.load` does
        if kind == "image":
            parts = images().split(IMAGES_AT_ONCE)
            return lambda: torch.cat([model.class_vector(model.encode(part)) for part in parts])
        return _in_batches(
            lambda tokens, keys, types: model.encode(tokens, keys, types), model.config.model_dim
        )

    return _worker(settings, build)


def _in_batches(encode: Callable[[Tensor, Any, Any], Tensor], width: int) -> Encode:
    """Return a function that encodes all sentences: the same batches on both sides."""
    rows = sentences()

    def run() -> Tensor:
        vectors = torch.zeros(len(rows), width)
        for chosen in shortest_first(rows, ROWS):
            batch = collate_encoder_batch([rows[i] for i in chosen], None, 0)
            vectors[chosen] = mean_pool(encode(batch.tokens, batch.keys, batch.types), batch.keys)
        return vectors

    return run


def onnxruntime_float32(settings: Settings) -> Worker:
    return _onnxruntime(settings, "float32")


def onnxruntime_int8(settings: Settings) -> Worker:
    return _onnxruntime(settings, "int8")


def _onnxruntime(settings: Settings, dtype: str) -> Worker:
    def build(kind: str, _: str) -> Encode:
        with TemporaryDirectory() as folder:
            path = _exported(kind, Path(folder))
            if dtype == "int8":
                path = _quantised(path)
            session = _session(path, settings.threads)
        if kind == "image":
            feeds = [{"pixels": part.numpy()} for part in images().split(IMAGES_AT_ONCE)]
            return lambda: torch.cat([torch.from_numpy(session.run(None, f)[0]) for f in feeds])

        def encode(tokens: Tensor, keys: Tensor, types: Any) -> Tensor:
            feed = {"tokens": tokens.numpy(), "mask": keys.long().numpy()}
            return torch.from_numpy(session.run(None, feed)[0])

        return _in_batches(encode, BertConfig(**TEXT).model_dim)

    return _worker(settings, build)


class _TextVectors(nn.Module):
    """transformers' encoder with one output: the vectors of all tokens."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
        return hidden


class _ImageVectors(nn.Module):
    """transformers' encoder with one output: the vectors of [CLS]."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        hidden: Tensor = self.model(pixel_values=pixels).last_hidden_state
        return hidden[:, 0]


def _exported(kind: str, folder: Path) -> Path:
    """Write transformers' model as an ONNX file; return its path."""
    from transformers import BertModel, ViTModel

    source, path = folder / "source", folder / "model.onnx"
    options: dict[str, Any]
    if kind == "text":
        write(text_encoder(), source, "bert")
        model: Any = _TextVectors(BertModel.from_pretrained(source).eval())
        example: tuple[Tensor, ...] = (
            torch.ones(2, 7, dtype=torch.long),
            torch.ones(2, 7, dtype=torch.long),
        )
        example[1][1, 4:] = 0
        sizes = {0: torch.export.Dim("sentences"), 1: torch.export.Dim("length", max=LONGEST)}
        options = {"input_names": ["tokens", "mask"], "dynamic_shapes": (sizes, sizes)}
    else:
        write(image_encoder(), source, "vit")
        model = _ImageVectors(ViTModel.from_pretrained(source, add_pooling_layer=False).eval())
        example, options = (images()[:IMAGES_AT_ONCE],), {"input_names": ["pixels"]}
    with torch.inference_mode():
        torch.onnx.export(
            model, example, path, dynamo=True, verbose=False, external_data=False, **options
        )
    return path


def _quantised(path: Path) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    small = path.with_name("int8.onnx")
    quantize_dynamic(path, small, weight_type=QuantType.QInt8, per_channel=True)
    return small


def _session(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(
        os.fspath(path), options, providers=["CPUExecutionProvider"]
    )


def _worker(settings: Settings, build: Callable[[str, str], Encode]) -> Worker:
    """build: returns for a kind of model and a dtype the function to time."""
    built: dict[tuple[str, str], Encode] = {}

    @torch.inference_mode()
    def work(question: dict[str, Any]) -> Answer:
        key = CASES[question["case"]], question["dtype"]
        if key not in built:
            with torch.inference_mode(False):
                built[key] = build(*key)
        run = built[key]
        if question.get("vectors"):
            return {"vectors": run().tolist()}
        started = time.perf_counter()
        for _ in range(settings.work):
            run()
        count = SENTENCES if key[0] == "text" else IMAGES
        return {"work": settings.work * count, "seconds": time.perf_counter() - started}

    return work
