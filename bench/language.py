"""Training of language models: speed and memory, compared with three libraries.

6 layers, width 384, 6 heads, vocabulary of 8,000 tokens, batches of 8 sequences of 256 tokens,
AdamW (fused), gradient clipping, float32, dropout 0 and 0.1. Headway's side is
`headway.training.fit`; each peer is the shortest equivalent loop with its library's model. Dropout
acts on embeddings, inside feed-forward layers and after every sublayer; dropout of attention
weights, which Headway does not have, is off for all. Memory is the peak resident set of the process
above its size before the model was built.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.report import Row, row
from bench.sides import Answer, Settings, Side, Worker, interleave
from headway.base.devices import Machine
from headway.models import GPT, GPTConfig
from headway.tasks.language_modeling.packing import TextBatch
from headway.training import (
    OptimizerConfig,
    StopRequest,
    TextObjective,
    TrainingState,
    fit,
    optimizer,
)
from headway.transforms import fast

PEERS = ("transformers_gpt2", "torch_encoder", "x_transformers")
NAMES = {
    "transformers_gpt2": "transformers GPT2LMHeadModel",
    "torch_encoder": "torch nn.TransformerEncoder",
    "x_transformers": "x-transformers",
}
REQUIRES = {
    "transformers_gpt2": ("transformers",),
    "x_transformers": ("x_transformers",),
}
LAYERS, WIDTH, HEADS, VOCABULARY = 6, 384, 6, 8000
ROWS, LENGTH, RATE, CLIP = 8, 256, 3e-4, 1.0
DROPOUTS = (0.0, 0.1)

Loss = Callable[[Tensor, Tensor], Tensor]


def measure(ours: Side, peer: Side, rounds: int, device: str) -> list[Row]:
    """Measure the speed at each dropout, then memory."""
    name = NAMES[peer.name.rpartition(", ")[2]]
    rows = []
    for dropout in DROPOUTS:
        pairs = interleave(ours, peer, rounds, dropout=dropout)
        title = f"language model training, dropout {dropout:g}"
        rows.append(row(title, pairs, "tokens/s", name, device))
    memory = [tuple(side.ask(memory=True) for side in (ours, peer))]
    title = "language model training, memory"
    rows.append(row(title, memory, "MB", name, device, less_is_better=True, goal=1.0))
    return rows


def ours(settings: Settings) -> Worker:
    """Headway: `fit` for `settings.work` steps per request."""
    batches = [TextBatch(tokens, targets, None, ()) for tokens, targets in _batches()]
    machine = Machine("cpu", "float32", settings.threads)

    def build(dropout: float) -> Callable[[int], None]:
        model = fast(GPT(_shape(dropout)))
        run = TrainingState(model, optimizer(model, OptimizerConfig(lr=RATE)))

        def train(steps: int) -> None:
            run.stop = None
            fit(
                run,
                ((0, 0, batch) for batch in cycle(batches)),
                TextObjective(),
                [],
                steps=run.step + steps,
                learning_rate=lambda step: RATE,
                clip=CLIP,
                precision=machine.precision,
                request=StopRequest(),
            )

        return train

    return _worker(settings, build)


def transformers_gpt2(settings: Settings) -> Worker:
    from transformers import GPT2Config, GPT2LMHeadModel

    def build(dropout: float) -> tuple[nn.Module, Loss]:
        config = GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=LENGTH,
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=HEADS,
            embd_pdrop=dropout,
            resid_pdrop=dropout,
            attn_pdrop=0.0,
        )
        model: Any = GPT2LMHeadModel(config)
        return model, lambda tokens, targets: _loss(
            model(input_ids=tokens, use_cache=False).logits, targets
        )

    return _peer(settings, build)


def torch_encoder(settings: Settings) -> Worker:
    def build(dropout: float) -> tuple[nn.Module, Loss]:
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout, "gelu", batch_first=True, norm_first=True
        )
        layer.self_attn.dropout = 0.0
        stack = nn.TransformerEncoder(
            layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False
        )
        tokens, positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        model = nn.ModuleDict({"stack": stack, "tokens": tokens, "positions": positions})
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        first = nn.Dropout(dropout)

        def loss(read: Tensor, targets: Tensor) -> Tensor:
            x = first(tokens(read) + positions.weight)
            logits = stack(x, mask=mask, is_causal=True) @ tokens.weight.T
            return _loss(logits, targets)

        return model, loss

    return _peer(settings, build)


def x_transformers(settings: Settings) -> Worker:
    from x_transformers import Decoder, TransformerWrapper

    def build(dropout: float) -> tuple[nn.Module, Loss]:
        decoder = Decoder(
            dim=WIDTH,
            depth=LAYERS,
            heads=HEADS,
            attn_dim_head=WIDTH // HEADS,
            attn_flash=True,
            ff_dropout=dropout,
            layer_dropout=0.0,
        )
        model: Any = TransformerWrapper(
            num_tokens=VOCABULARY,
            max_seq_len=LENGTH,
            attn_layers=decoder,
            emb_dropout=dropout,
            tie_embedding=True,
        )
        return model, lambda tokens, targets: _loss(model(tokens), targets)

    return _peer(settings, build)


def _shape(dropout: float) -> GPTConfig:
    return GPTConfig(
        model_dim=WIDTH,
        num_heads=HEADS,
        ffn_dim=4 * WIDTH,
        num_layers=LAYERS,
        dropout=dropout,
        max_length=LENGTH,
        vocabulary=VOCABULARY,
    )


def _batches(count: int = 4) -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    ids = torch.randint(VOCABULARY, (count, ROWS, LENGTH + 1))
    return [(row[:, :-1].contiguous(), row[:, 1:].contiguous()) for row in ids]


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _peer(settings: Settings, build: Callable[[float], tuple[nn.Module, Loss]]) -> Worker:
    """Return a worker with the shortest training loop around a peer's model."""
    batches = _batches()

    def trained(dropout: float) -> Callable[[int], None]:
        model, loss = build(dropout)
        model.train()
        parameters = list(model.parameters())
        update = torch.optim.AdamW(parameters, lr=RATE, fused=True)

        def train(steps: int) -> None:
            for number in range(steps):
                update.zero_grad(set_to_none=True)
                value = loss(*batches[number % len(batches)])
                value.backward()
                torch.nn.utils.clip_grad_norm_(parameters, CLIP)
                update.step()
                value.item()

        return train

    return _worker(settings, trained)


def _worker(settings: Settings, build: Callable[[float], Callable[[int], None]]) -> Worker:
    before = _resident()
    built: dict[float, Callable[[int], None]] = {}

    def work(question: dict[str, Any]) -> Answer:
        if question.get("memory"):
            return {"work": _resident() - before, "seconds": 1.0}
        dropout = question["dropout"]
        if dropout not in built:
            built.clear()  # one model at a time
            built[dropout] = build(dropout)
        started = time.perf_counter()
        built[dropout](settings.work)
        tokens = settings.work * ROWS * LENGTH
        return {"work": tokens, "seconds": time.perf_counter() - started}

    return work


def _resident() -> float:
    """Return the peak resident set of this process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
