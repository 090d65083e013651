"""Cost of recording attention in an encoder (MiniLM, 6 layers of 12 heads).

The same batch of texts, truncated to the same length, is encoded without recording, recording the
attention weights of the last layer or of all layers, and, with Headway alone, recording the inputs
of all attention kernels (q, k, v). The peer is transformers' BertModel: with its fused kernel
without recording, and with `output_attentions`, which uses its slow kernel and always returns all
layers. The weights must agree to 1e-4 before anything is timed. The model is that of
`bench.embeddings`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from bench.embeddings import encoder_folder, missing, sentences
from bench.report import Row, row
from bench.sides import Answer, Settings, Side, Worker

__all__ = ["measure", "missing", "ours", "peer"]

PEER = "transformers BertModel"
TEXTS, LENGTH = 8, 128
GOAL = 1.2
CLOSE = 1e-4
LAST = "encoder.blocks.5"


def measure(ours: Side, peer: Side, rounds: int, device: str) -> list[Row]:
    """Compare the weights, then measure each way of recording in turn."""
    our_weights, peer_weights = (
        torch.tensor(side.ask(way="all", weights=True)["weights"]) for side in (ours, peer)
    )
    difference = (our_weights - peer_weights).abs().max().item()
    if difference > CLOSE:
        raise RuntimeError(f"the weights differ by {difference:.1e}, more than {CLOSE:g}")
    for way in ("off", "last", "all", "vectors"):
        ours.ask(way=way)
    for way in ("off", "all"):
        peer.ask(way=way)
    answers: dict[str, list[tuple[Answer, Answer]]] = {}
    for _ in range(rounds):
        ours_off, peer_off, peer_all = ours.ask(way="off"), peer.ask(way="off"), peer.ask(way="all")
        answers.setdefault("off", []).append((ours_off, peer_off))
        for way in ("last", "all", "vectors"):
            watched = ours.ask(way=way)
            answers.setdefault(f"{way}: beside ours unwatched", []).append((watched, ours_off))
            if way != "vectors":
                answers.setdefault(f"{way}: beside the peer's", []).append((watched, peer_all))
    unwatched = "Headway, unwatched"
    names = {
        "off": ("unwatched", PEER),
        "last: beside ours unwatched": ("weights of the last layer", unwatched),
        "last: beside the peer's": ("weights of the last layer", f"{PEER}, output_attentions"),
        "all: beside ours unwatched": ("weights of all layers", unwatched),
        "all: beside the peer's": ("weights of all layers", f"{PEER}, output_attentions"),
        "vectors: beside ours unwatched": ("q, k, v of all layers", unwatched),
    }
    note = f"{TEXTS} texts of {LENGTH} tokens; weights differ by at most {difference:.1e}"
    return [
        row(
            f"watching: {names[way][0]}",
            pairs,
            "batches/s",
            names[way][1],
            device,
            goal=None if names[way][1] is unwatched else GOAL,  # a cost without a goal
            note=note if way == "off" else "",
        )
        for way, pairs in answers.items()
    ]


def _batch(tokenize: Callable[[str], list[int]]) -> torch.Tensor:
    """Return sequences of LENGTH ids: concatenated texts, split."""
    ids = [i for text in sentences(TEXTS * LENGTH) for i in tokenize(text)]
    return torch.tensor(ids[: TEXTS * LENGTH]).view(TEXTS, LENGTH)


def ours(settings: Settings) -> Worker:
    from headway.attention import record_attention, record_inputs
    from headway.bundle import EncoderBundle
    from headway.tasks.opening import load_as

    bundle = load_as(EncoderBundle, str(encoder_folder()))
    batch, model = _batch(bundle.tokenizer.encode), bundle.model
    keys = torch.ones_like(batch, dtype=torch.bool)
    ways: dict[str, Callable[[], Any]] = {
        "off": nullcontext,
        "last": lambda: record_attention(model, (LAST,)),
        "all": lambda: record_attention(model),
        "vectors": lambda: record_inputs(model),
    }

    @torch.inference_mode()
    def read(way: str) -> Any:
        with ways[way]() as maps:
            model.encode(batch, keys)
        return maps

    return _worker(settings, read, lambda maps: [calls[0][0] for calls in maps.values()])


def peer(settings: Settings) -> Worker:
    from transformers import AutoTokenizer, BertModel

    folder = str(encoder_folder())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = BertModel.from_pretrained(folder, dtype=torch.float32).eval()
    batch = _batch(lambda text: tokenizer(text, add_special_tokens=False)["input_ids"])

    @torch.inference_mode()
    def read(way: str) -> Any:
        implementation = "sdpa" if way == "off" else "eager"
        if model.config._attn_implementation != implementation:
            model.set_attn_implementation(implementation)
        return model(batch, output_attentions=way != "off").attentions

    return _worker(settings, read, lambda maps: [weights[0] for weights in maps])


def _worker(
    settings: Settings, read: Callable[[str], Any], first: Callable[[Any], list[torch.Tensor]]
) -> Worker:
    def work(question: dict[str, Any]) -> Answer:
        if question.get("weights"):
            return {"weights": torch.stack(first(read(question["way"]))).tolist()}
        read(question["way"])  # a change of kernels is not counted
        started = time.perf_counter()
        for _ in range(settings.work):
            read(question["way"])
        return {"work": settings.work, "seconds": time.perf_counter() - started}

    return work
