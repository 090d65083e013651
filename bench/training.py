"""Training speed in target tokens per second, compared with transformers' MarianMTModel.

Both sides get the same padded batches, prepared before the measurement, the same initial weights,
AdamW (fused), label smoothing 0.1 and gradient clipping. Padding is not counted. Headway's side is
`headway.training.fit`; the peer is the shortest equivalent loop with transformers' model: its
logits and `torch.nn.functional.cross_entropy`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import headway
from bench.marian import Specials, to_marian
from bench.report import Row, row
from bench.sides import Answer, Settings, Side, Worker, faster_attention, interleave
from headway.base.devices import Machine
from headway.data.stream import ByTokens
from headway.models import Translator
from headway.tasks.translation.batches import TranslationBatch, collate
from headway.tasks.translation.objective import TranslationObjective
from headway.tasks.translation.parallel_corpus import Corpus
from headway.text import TokenizerPair
from headway.training import OptimizerConfig, StopRequest, TrainingState, fit, optimizer
from headway.transforms import fast

TOKENS, SMOOTHING, CLIP, DROPOUT, RATE = 4096, 0.1, 1.0, 0.1, 3e-4
PEER = "transformers MarianMTModel"


def measure(ours: Side, peer: Side, rounds: int, device: str) -> list[Row]:
    """Measure each dtype. AssertionError if the initial losses of the two sides differ."""
    a, b = (side.ask(initial=True)["loss"] for side in (ours, peer))
    assert abs(a - b) < 1e-4, f"not the same model: loss {a} and {b}"
    rows = []
    for dtype in ("float32", "bfloat16"):
        attention = faster_attention(peer, max(1, rounds // 2), dtype=dtype)
        pairs = interleave(ours, peer, rounds, dtype=dtype, attention=attention)
        name = f"{PEER} ({attention})"
        rows.append(row(f"training, {dtype}", pairs, "target tokens/s", name, device))
    return rows


def ours(settings: Settings) -> Worker:
    """Headway: `fit` for `settings.work` steps per request."""
    model, batches, tokenizers = _start(settings)
    run = TrainingState(model, optimizer(model, OptimizerConfig(lr=RATE)))
    objective = TranslationObjective(tokenizers.target.pad, SMOOTHING)

    def work(question: dict[str, Any]) -> Answer:
        if question.get("initial"):
            with torch.no_grad():
                loss = objective(model.eval(), batches[0])
            return {"loss": loss.total.item() / loss.count}
        machine = Machine("cpu", question["dtype"], settings.threads)
        run.stop = None
        before, started = run.targets, time.perf_counter()
        fit(
            run,
            ((0, 0, batch) for batch in cycle(batches)),
            objective,
            [],
            steps=run.step + settings.work,
            learning_rate=lambda step: RATE,
            clip=CLIP,
            precision=machine.precision,
            request=StopRequest(),
        )
        return {"work": run.targets - before, "seconds": time.perf_counter() - started}

    return work


def peer(settings: Settings) -> Worker:
    """The same steps with transformers' model."""
    start, batches, tokenizers = _start(settings)
    side = tokenizers.target
    model = to_marian(start, Specials(side.pad, side.bos, side.eos))
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters, lr=RATE, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
    )

    def step(batch: TranslationBatch, precision: AbstractContextManager[Any]) -> float:
        optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = marian_loss(model, batch, side.pad)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        return loss.item()

    def work(question: dict[str, Any]) -> Answer:
        if question.get("initial"):
            with torch.no_grad():
                return {"loss": marian_loss(model.eval(), batches[0], side.pad).item()}
        model.set_attn_implementation(question["attention"])
        model.train()
        targets, started = 0, time.perf_counter()
        for batch in islice(cycle(batches), settings.work):
            step(batch, _precision(question["dtype"]))
            targets += int((batch.target_out != side.pad).sum())
        return {"work": targets, "seconds": time.perf_counter() - started}

    return work


def marian_loss(model: Any, batch: TranslationBatch, pad: int) -> torch.Tensor:
    """Label-smoothed cross-entropy a target, padding left out."""
    logits = model(
        input_ids=batch.source,
        attention_mask=batch.source_keys,
        decoder_input_ids=batch.target_in,
        use_cache=False,
    ).logits
    return F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=pad,
        label_smoothing=SMOOTHING,
    )


def _precision(dtype: str) -> AbstractContextManager[Any]:
    return nullcontext() if dtype == "float32" else torch.autocast("cpu", dtype=torch.bfloat16)


def _start(settings: Settings) -> tuple[Translator, list[TranslationBatch], TokenizerPair]:
    """The trained bundle's shape with fresh weights, and the first batches of an epoch."""
    folder = Path(settings.folder)
    tokenizers = TokenizerPair.load(folder)
    corpus = Corpus.open(folder / "data" / "train", tokenizers)
    order = ByTokens(corpus.source.lengths, corpus.target.lengths, TOKENS, seed=0)
    chosen: Iterator[Any] = islice(order(0), settings.work)
    batches = [collate(corpus, indices, tokenizers) for indices in chosen]
    torch.manual_seed(0)
    config = replace(headway.load(folder).config, norm="post", dropout=DROPOUT)
    return fast(Translator(config)), batches, tokenizers
