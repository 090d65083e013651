"""Compare a run with transformers' GPT-2 at equal training time: `python -m bench.budget RUN`.

Trains a GPT-2 of the size of a finished run of `headway train gpt`, on the tokens of the run (same
tokenizer, sequences and order), for as many seconds as the run trained, and prints the bits per
byte of both on the run's held-out text. AdamW with the run's weight decay, warm-up and cosine
schedule; each learning rate of `--lr` is tried with the whole budget, and the best counts.

With --steps only the speed of training is printed, after every 20 steps.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

import headway
from bench.commands import print_rates
from headway.base.devices import MachineConfig, prepare, select_device
from headway.base.metrics_file import read_metrics
from headway.bundle import TextBundle
from headway.data.padding import IGNORED
from headway.data.stream import Batches
from headway.data.text_corpus import TextCorpus
from headway.evaluation import bits_per_byte
from headway.models import parameter_count
from headway.runs import saved
from headway.tasks.language_modeling.config import LanguageRunConfig
from headway.tasks.language_modeling.packing import PackedSequences, in_order

WARMUP = 0.02  # fraction of the budget


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.budget", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--lr", type=float, nargs="+", default=[1e-3])
    parser.add_argument("--seconds", type=float, help="training time; if unset, that of the run")
    parser.add_argument("--steps", type=int, help="measure the speed of so many steps instead")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    options = parser.parse_args()
    config, bundle = saved(options.run), headway.load(options.run)
    assert isinstance(config, LanguageRunConfig) and isinstance(bundle, TextBundle)
    if options.steps:
        corpus = TextCorpus.open(options.run / "data" / "train", bundle.tokenizer)
        model = gpt2(config).to(select_device())
        done = updates(model, config, corpus, options.lr[0], options.dtype, lambda: 0.5)
        print_rates(done, options.steps)
        return
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
        model = gpt2(config)
        begun, dtype = time.perf_counter(), str(config.machine.dtype)

        def fraction(begun: float = begun) -> float:
            return (time.perf_counter() - begun) / seconds

        tokens = sum(updates(model, config, train, lr, dtype, fraction))
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


def gpt2(config: LanguageRunConfig) -> Any:
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


def updates(
    model: Any,
    config: LanguageRunConfig,
    corpus: TextCorpus,
    lr: float,
    dtype: str,
    fraction: Callable[[], float],
) -> Iterator[int]:
    """Train until `fraction`, the used part of the budget, is 1; yield the tokens of each update.

    The learning rate follows that part.
    """
    training, device = config.training, next(model.parameters()).device
    sequences = PackedSequences([corpus], training.batch_size, training.length, seed=training.seed)
    batches = Batches(sequences, sequences.batch, str(device))
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    decay = config.optimizer.weight_decay
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    update = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)
    model.train()
    for _, _, batch in batches.stream(0, 0):
        used = fraction()
        if used >= 1:
            return
        rate = used / WARMUP if used < WARMUP else (1 + math.cos(math.pi * used)) / 2
        for group in update.param_groups:
            group["lr"] = lr * min(rate, 1.0)
        with torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16"):
            logits = model(input_ids=batch.tokens, use_cache=False).logits
        loss = F.cross_entropy(
            logits.float().flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED
        )
        update.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        update.step()
        loss.item()
        yield batch.targets.numel()


@torch.inference_mode()
def _bits_per_byte(model: Any, config: LanguageRunConfig, valid: TextCorpus) -> float:
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
