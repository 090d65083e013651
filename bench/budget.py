"""Compare a run with transformers' GPT-2 at equal training time: `python -m bench.budget RUN`.

Trains a GPT-2 of the size of a finished run of `headway train gpt`, on the tokens of the run (same
tokenizer, sequences and order), for as many seconds as the run trained, and prints the bits per
byte of both on the run's held-out text. AdamW with the run's weight decay, warm-up and cosine
schedule; each learning rate of `--lr` is tried with the whole budget, and the best counts.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

import headway
from headway.base.devices import MachineConfig, prepare
from headway.base.metrics_file import read_metrics
from headway.bundle import TextBundle
from headway.data.padding import IGNORED
from headway.data.stream import Batches
from headway.data.text_corpus import TextCorpus
from headway.evaluation import bits_per_byte
from headway.models import GPT, parameter_count
from headway.runs import saved
from headway.tasks.language_modeling.config import LanguageRunConfig
from headway.tasks.language_modeling.packing import PackedSequences, in_order

WARMUP = 0.02  # fraction of the budget


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.budget", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--lr", type=float, nargs="+", default=[1e-3])
    parser.add_argument("--seconds", type=float, help="training time; if unset, that of the run")
    options = parser.parse_args()
    config, bundle = saved(options.run), headway.load(options.run)
    assert isinstance(config, LanguageRunConfig) and isinstance(bundle, TextBundle)
    prepare(MachineConfig(threads=config.machine.threads))
    seconds = options.seconds or _seconds(options.run)
    train, valid = (
        TextCorpus.open(options.run / "data" / name, bundle.tokenizer)
        for name in ("train", "valid")
    )
    ours = _bits_per_byte(bundle.model, config, valid)
    size = parameter_count(bundle.model) / 1e6
    print(f"headway {size:.1f} M: {ours:.4f} bits per byte, {seconds:.0f} s")
    for lr in options.lr:
        model = _peer(config)
        tokens = _train(model, config, train, lr, seconds)
        bits = _bits_per_byte(model, config, valid)
        size = parameter_count(model) / 1e6
        print(
            f"transformers GPT-2 {size:.1f} M, lr {lr:g}: {bits:.4f} bits per byte, "
            f"{tokens:,} tokens in {seconds:.0f} s",
            flush=True,
        )


def _seconds(run: Path) -> float:
    rows = read_metrics(run / "metrics.jsonl", "finished")
    return float(rows[-1]["seconds"])


def _peer(config: LanguageRunConfig) -> GPT2LMHeadModel:
    shape = config.model
    torch.manual_seed(config.training.seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=shape.vocabulary,
            n_positions=config.training.length,
            n_embd=shape.model_dim,
            n_layer=shape.num_layers,
            n_head=shape.num_heads,
            embd_pdrop=shape.dropout,
            resid_pdrop=shape.dropout,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def _train(
    model: GPT2LMHeadModel,
    config: LanguageRunConfig,
    corpus: TextCorpus,
    lr: float,
    seconds: float,
) -> int:
    """Train for `seconds`; the learning rate follows the clock. Return the number of tokens."""
    training = config.training
    sequences = PackedSequences([corpus], training.batch_size, training.length, seed=training.seed)
    batches = Batches(sequences, sequences.batch)
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    decay = config.optimizer.weight_decay
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    update = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)
    model.train()
    tokens, started = 0, time.perf_counter()
    for _, _, batch in batches.stream(0, 0):
        fraction = (time.perf_counter() - started) / seconds
        if fraction >= 1:
            return tokens
        rate = fraction / WARMUP if fraction < WARMUP else (1 + math.cos(math.pi * fraction)) / 2
        for group in update.param_groups:
            group["lr"] = lr * min(rate, 1.0)
        with torch.autocast("cpu", torch.bfloat16, config.machine.dtype == "bfloat16"):
            logits = model(input_ids=batch.tokens, use_cache=False).logits
        loss = F.cross_entropy(
            logits.float().flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED
        )
        update.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        update.step()
        tokens += batch.targets.numel()
    return tokens


@torch.inference_mode()
def _bits_per_byte(
    model: GPT | GPT2LMHeadModel, config: LanguageRunConfig, valid: TextCorpus
) -> float:
    """Return the bits per byte of all held-out text, in sequences of the training length."""
    model.eval()
    nats = 0.0
    for batch in in_order(valid, config.training.batch_size, config.training.length):
        logits = model(batch.tokens)
        logits = logits if isinstance(logits, torch.Tensor) else logits.logits
        nats += F.cross_entropy(
            logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, reduction="sum"
        ).item()
    return bits_per_byte(nats, valid.num_bytes)


if __name__ == "__main__":
    main()
