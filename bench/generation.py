"""Speed of greedy generation with the 124 M shape, compared with `transformers.generate`; float32.

Both sides have the same weights (untrained ones: the speed is the same) and must generate the same
tokens: 64 tokens after a prompt of 32, with batch sizes 1 and 8. The time includes the prompt.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from bench.report import Row, row
from bench.sides import Answer, Settings, Side, Worker, interleave
from headway.decoding import MostProbable, Sampling, sample
from headway.models import GPT, GPTConfig
from headway.transforms.fast.table import prepare_for_inference

PEER = "transformers generate"
PROMPT, WRITTEN, BATCHES = 32, 64, (1, 8)
GOAL = 1.5


def measure(ours: Side, peer: Side, rounds: int, device: str) -> list[Row]:
    """Measure each batch size. AssertionError if the generated tokens differ."""
    a, b = (side.ask(batch=2, tokens=True)["tokens"] for side in (ours, peer))
    assert a == b, "the two sides generated different tokens"
    rows = []
    for batch in BATCHES:
        pairs = interleave(ours, peer, rounds, batch=batch)
        name = f"generation, 124 M, batch {batch}"
        rows.append(row(name, pairs, "tokens/s", PEER, device, goal=GOAL))
    return rows


def ours(settings: Settings) -> Worker:
    model = _model()
    prepare_for_inference(model)  # as `headway.load` does
    sampling = Sampling(eos=-1, max_tokens=WRITTEN, rules=[MostProbable()])

    def write(prompts: torch.Tensor) -> list[list[int]]:
        samples = sample(model, prompts.tolist(), sampling, [[0]] * len(prompts))
        return [texts[0].tokens for texts in samples]

    return _worker(settings, write)


def peer(settings: Settings) -> Worker:
    import tempfile
    from pathlib import Path

    from transformers import GPT2LMHeadModel

    from headway.interop import write as write_folder

    with tempfile.TemporaryDirectory() as folder:
        write_folder(_model(), Path(folder, "gpt2"), "gpt2")
        model: Any = GPT2LMHeadModel.from_pretrained(Path(folder, "gpt2")).eval()
    model.generation_config.eos_token_id = None

    def write(prompts: torch.Tensor) -> list[list[int]]:
        tokens: torch.Tensor = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=WRITTEN,
            do_sample=False,
            pad_token_id=0,
        )
        return tokens[:, PROMPT:].tolist()

    return _worker(settings, write)


def _model() -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig(**GPTConfig.sizes["gpt2-small"])).eval()


def _worker(settings: Settings, write: Any) -> Worker:
    def work(question: dict[str, Any]) -> Answer:
        torch.manual_seed(1)
        prompts = torch.randint(50_257, (question["batch"], PROMPT))
        started = time.perf_counter()
        for _ in range(settings.work):
            tokens = write(prompts)
        count = settings.work * question["batch"] * WRITTEN
        answer = {"work": count, "seconds": time.perf_counter() - started}
        return {**answer, "tokens": tokens} if question.get("tokens") else answer

    return work
