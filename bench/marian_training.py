"""transformers' MarianMT trained from scratch on the pairs of a run, for the same time.

    python -m bench.marian_training runs/translate-multi30k-en-de --time 30    # minutes
    python -m bench.marian_training runs/translate-multi30k-en-de --steps 60   # speed alone

The run must be one of `headway train translate` with sinusoidal positions and one vocabulary.
MarianMT has its size and dropout, its tokenizer and its batches in the same order, its learning
rate, schedule, gradient clipping and averaged weights; both sides use the same number of threads.
The loop is the usual one. The rest is MarianMT's own: initial values, norms after the residual
connections, GELU. Both translate the run's test pairs with beams of width 5, each by its own
library. With --steps only the speed of training is printed, after every 20 steps.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import headway
from bench.commands import print_rates
from bench.marian import cut, marian_loss
from headway.base.devices import select_device
from headway.base.metrics_file import read_metrics
from headway.data.stream import ByTokens
from headway.evaluation import score_translations
from headway.runs.recipes import saved
from headway.tasks import registry
from headway.tasks.opening import load
from headway.tasks.translation.batches import TranslationBatch, collate, collate_sources
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationRunConfig, TranslationScoring
from headway.tasks.translation.parallel_corpus import Corpus
from headway.text import TokenizerPair
from headway.training.optimizers import ADAMW_RATE
from headway.training.schedules import learning_rate

BEAM, SENTENCES = 5, 64


@dataclass(frozen=True)
class Trained:
    """A trained translator. steps: those of training; both sides take the same batches."""

    name: str
    steps: int
    bleu: float
    chrf: float


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    if options.steps:
        print_speed(options.run, options.steps, options.dtype, options.attention)
        return 0
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    for side in compare(options.run, 60 * options.time):
        print(f"{side.name:9} {side.steps:7,} steps   BLEU {side.bleu:.2f}   chrF {side.chrf:.2f}")
    return 0


def print_speed(run: Path, steps: int, dtype: str, attention: str) -> None:
    """Print the target tokens per second of the usual loop, on the device that torch finds."""
    config, tokenizers = saved(run), TokenizerPair.load(run)
    torch.manual_seed(config.training.seed)
    model = marian(config, tokenizers, attention).to(select_device())
    print_rates(updates(model, run, config, tokenizers, dtype), steps)


def compare(run: Path, seconds: float) -> tuple[Trained, Trained]:
    """Train MarianMT for that time; return the run's model and MarianMT."""
    config, bundle = saved(run), load(run, kind=TranslatorBundle)
    tokenizers: TokenizerPair = bundle.tokenizer
    torch.manual_seed(config.training.seed)
    model, steps = train(marian(config, tokenizers), run, config, tokenizers, seconds)
    pairs = registry.task("translation").held_out(bundle, run, config, TranslationScoring()).pairs
    outputs = translate(model, tokenizers, [pair.source for pair in pairs])
    theirs = score_translations(outputs, [pair.target for pair in pairs])
    ours = headway.evaluate(run)
    last = read_metrics(run / "metrics.jsonl", "finished")[-1]
    return (
        Trained("Headway", last["step"], ours["bleu"], ours["chrf"]),
        Trained("MarianMT", steps, theirs.bleu, theirs.chrf),
    )


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.marian_training", description=__doc__.splitlines()[0]
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--time", type=float, default=30, help="minutes of training")
    parser.add_argument("--steps", type=int, help="measure the speed of so many steps instead")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--threads", type=int, default=1, help="with --time; else those of torch")
    return parser.parse_args(arguments)


def marian(config: TranslationRunConfig, tokenizers: TokenizerPair, attention: str = "sdpa") -> Any:
    """Return an untrained MarianMT of the size of the run's model."""
    from transformers import MarianConfig, MarianMTModel

    model, side = config.model, tokenizers.target
    made = MarianMTModel(
        MarianConfig(
            vocab_size=side.size,
            d_model=model.model_dim,
            encoder_layers=model.encoder_layers,
            decoder_layers=model.decoder_layers,
            encoder_attention_heads=model.num_heads,
            decoder_attention_heads=model.num_heads,
            encoder_ffn_dim=model.ffn_dim,
            decoder_ffn_dim=model.ffn_dim,
            dropout=model.dropout,
            scale_embedding=True,
            max_position_embeddings=config.data.max_length + 12,
            pad_token_id=side.pad,
            bos_token_id=side.bos,
            eos_token_id=side.eos,
            decoder_start_token_id=side.bos,
            forced_eos_token_id=side.eos,
        )
    )
    made.set_attn_implementation(attention)
    return made


def train(
    model: Any, run: Path, config: TranslationRunConfig, tokenizers: TokenizerPair, seconds: float
) -> tuple[Any, int]:
    """Train for that time. Return the model of averaged weights, and the number of steps."""
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config.training.average))
    begun = time.perf_counter()
    for step, _ in enumerate(updates(model, run, config, tokenizers, "float32"), 1):
        averaged.update_parameters(model)
        if step == config.training.steps or time.perf_counter() - begun > seconds:
            break
    return averaged.module.eval(), step


def updates(
    model: Any, run: Path, config: TranslationRunConfig, tokenizers: TokenizerPair, dtype: str
) -> Iterator[int]:
    """Train without end; yield the number of target tokens of each update.

    Prints the mean loss of every 100 updates on standard error.
    """
    parameters = list(model.parameters())
    update = torch.optim.AdamW(
        parameters,
        betas=(config.optimizer.beta1, config.optimizer.beta2),
        eps=config.optimizer.eps,
        weight_decay=config.optimizer.weight_decay,
        fused=True,
    )
    is_adamw = config.optimizer.kind == "adamw"
    rate = (config.optimizer.lr if is_adamw else None) or ADAMW_RATE
    device, pad = parameters[0].device, tokenizers.target.pad
    model.train()
    losses = 0.0
    for step, batch in enumerate(_batches(run, config, tokenizers), 1):
        batch = batch.to(str(device))
        for group in update.param_groups:
            group["lr"] = learning_rate(config.schedule, rate, step, config.training.steps)
        update.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16"):
            loss = marian_loss(model, batch, pad)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, config.training.clip)
        update.step()
        losses += loss.item()
        if step % 100 == 0:
            print(f"step {step:,}  loss {losses / 100:.3f}", file=sys.stderr, flush=True)
            losses = 0.0
        yield batch.count or int((batch.target_out != pad).sum())


def _batches(
    run: Path, config: TranslationRunConfig, tokenizers: TokenizerPair
) -> Iterator[TranslationBatch]:
    corpus = Corpus.open(run / "data" / "train", tokenizers)
    order = ByTokens(
        corpus.source.lengths,
        corpus.target.lengths,
        config.training.batch_tokens,
        config.training.seed,
    )
    for epoch in count():
        for indices in order(epoch):
            yield collate(corpus, indices, tokenizers)


@torch.inference_mode()
def translate(model: Any, tokenizers: TokenizerPair, texts: list[str]) -> list[str]:
    """Translate by transformers' beam search, in batches of similar lengths."""
    side = tokenizers.target
    sources = tokenizers.source.encode_batch(texts)
    outputs = [""] * len(texts)
    order = sorted(range(len(texts)), key=lambda i: len(sources[i]))
    for start in range(0, len(order), SENTENCES):
        chosen = order[start : start + SENTENCES]
        source, keys = collate_sources([sources[i] for i in chosen], tokenizers.source)
        generated = model.generate(
            input_ids=source,
            attention_mask=torch.ones_like(source) if keys is None else keys.long(),
            num_beams=BEAM,
            do_sample=False,
            max_length=2 * source.shape[1] + 10,
        )
        for i, ids in zip(chosen, cut(generated.tolist(), side.eos), strict=True):
            outputs[i] = side.decode(ids)
    return outputs


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
