"""Generation and translation on a GPU, beside what its bandwidth allows and beside other code."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.gpu_rounds import Measurement
from bench.gpu_scale import PROMPT, Limit, Run, Scale
from bench.gpu_sides import available, built, gpt2
from bench.marian import Specials, to_marian
from bench.plain_gpt import Generator, PlainGPT
from headway.decoding import (
    BeamSettings,
    Limits,
    MostProbable,
    Sampling,
    fast_beam_search,
    fast_greedy_search,
    run,
    sample,
)
from headway.models import GPT, GPTConfig, Translator
from headway.transforms import replay_steps
from headway.transforms.fast.table import prepare_for_inference

SOURCE = 24
MOST_WRITTEN = 64
"""Tokens of a source sentence, and of a translation at most."""


def decoding(measurement: Measurement, rates: Limit, size: str, goals: dict[int, float]) -> None:
    """Greedy generation after prompts of 32 tokens. goals: by batch size; without any, all sizes
    of the scale are measured, and what CUDA graphs save."""
    scale = measurement.scale
    config = scale.gpt(size)
    ours, by_graphs = built_generator(scale, config)
    dtype = ours.output.weight.dtype
    plain = built(lambda: PlainGPT(config), scale, dtype).eval()
    weights = sum(p.numel() * p.element_size() for p in ours.parameters())
    for batch in tuple(goals) or scale.batches:
        prompts = torch.randint(config.vocabulary, (batch, PROMPT), device=scale.device)
        length = PROMPT + scale.written / 2  # of the keys and values that a step reads, on average
        kept = 2 * config.num_layers * config.model_dim * length * batch * dtype.itemsize
        sides = {
            "Headway": lambda prompts=prompts: partial(
                _sampled, by_graphs, prompts.tolist(), scale
            ),
            "Headway greedy search": lambda prompts=prompts: partial(
                searched, by_graphs, prompts, scale
            ),
            "plain loop compiled": lambda prompts=prompts: partial(
                Generator(plain, len(prompts), PROMPT + scale.written, compiled=scale.compiled),
                prompts,
                scale.written,
            ),
            "transformers static cache": lambda prompts=prompts: _generated(
                config, dtype, prompts, scale
            ),
        }
        if not goals:
            sides["Headway without graphs"] = lambda prompts=prompts: partial(
                searched, ours, prompts, scale
            )
        most = batch * rates.bandwidth / (weights + kept)
        name = f"generation {size} bfloat16, batch {batch}"
        work = batch * scale.written
        goal = goals.get(batch)
        measurement.compare(name, available(sides, scale), work, "tokens/s", (most, goal))


def translating(measurement: Measurement, rates: Limit, widths: tuple[int, ...]) -> None:
    """Translation by beams of these widths (1: greedily), as `headway.load` decodes on a GPU and by
    CUDA graphs. The part of the bandwidth counts the weights of the decoder only."""
    scale = measurement.scale
    config = replace(scale.translator("base"), share_embeddings=True)
    last, dtype = config.target_vocabulary - 1, _dtype(scale)
    torch.manual_seed(0)
    on_cpu = Translator(config).eval()
    peer = to_marian(on_cpu, Specials(pad=last, bos=last, eos=0)).to(scale.device, dtype)
    ours = prepare_for_inference(on_cpu.to(scale.device, dtype))
    by_graphs = replay_steps(copy(ours))
    sources = torch.randint(4, last, (scale.sentences, SOURCE), device=scale.device)
    written = min(scale.written, MOST_WRITTEN)
    weights = [*ours.decoder.parameters(), *ours.output.parameters()]
    read = sum(p.numel() * p.element_size() for p in weights)
    most = scale.sentences * rates.bandwidth / read
    for width in widths:
        sides: dict[str, Callable[[], Run]] = {
            "Headway": partial(_translation, ours, sources, written, width),
            "Headway by graphs": partial(_translation, by_graphs, sources, written, width),
            "transformers": partial(_translation_by_peer, peer, sources, written, width),
        }
        name = f"translation 6+6 x 512 bfloat16, {len(sources)} sentences, beam {width}"
        work = len(sources) * written
        measurement.compare(name, available(sides, scale), work, "tokens/s", (most, None))


def _translation(model: Translator, sources: Tensor, written: int, width: int) -> Run:
    """No token ends a sentence, so that all translations have the same length."""
    bos = model.config.target_vocabulary - 1
    limits = Limits(bos=bos, eos=-1, max_lengths=[written - 1] * len(sources), cut=True)
    if width == 1:
        return lambda: run(model, fast_greedy_search(model, (sources, None), limits))
    settings = BeamSettings(beam=width, length_penalty=0.0)
    return lambda: run(model, fast_beam_search(model, (sources, None), limits, settings))


def _translation_by_peer(model: Any, sources: Tensor, written: int, width: int) -> Run:
    model.generation_config.update(eos_token_id=None, forced_eos_token_id=None)
    options: dict[str, Any] = {"num_beams": width, "do_sample": False, "max_new_tokens": written}
    mask = torch.ones_like(sources)
    return lambda: model.generate(sources, attention_mask=mask, **options)


def built_generator(scale: Scale, config: GPTConfig) -> tuple[GPT, GPT]:
    """Return a model in bfloat16, and one with the same weights that decodes by CUDA graphs."""
    dtype = _dtype(scale)
    torch.manual_seed(0)
    model = built(lambda: GPT(config), scale, dtype).eval()
    prepare_for_inference(model)  # as `headway.load` does, and `replay_steps`
    return model, replay_steps(copy(model))


def _sampled(model: GPT, prompts: list[list[int]], scale: Scale) -> object:
    """`headway generate` at temperature 0: tokens are read after each step."""
    sampling = Sampling(eos=-1, max_tokens=scale.written, rules=[MostProbable()])
    return sample(model, prompts, sampling, [[0]] * len(prompts))


def searched(model: GPT, prompts: Tensor, scale: Scale) -> object:
    """Greedy search: tokens are read after several steps."""
    lengths = [scale.written - 1] * len(prompts)
    limits = Limits(prompts[:, -1].tolist(), -1, lengths)
    return run(model, fast_greedy_search(model, (prompts[:, :-1], None), limits))


def _generated(config: GPTConfig, dtype: torch.dtype, prompts: Tensor, scale: Scale) -> Run:
    model = gpt2(config, scale, dtype).eval()
    model.generation_config.eos_token_id = None
    options: dict[str, Any] = {"do_sample": False, "max_new_tokens": scale.written}
    if scale.compiled:
        options["cache_implementation"] = "static"  # which transformers compiles by itself
    mask = torch.ones_like(prompts)
    return lambda: model.generate(prompts, attention_mask=mask, pad_token_id=0, **options)


def _dtype(scale: Scale) -> torch.dtype:
    return torch.bfloat16 if scale.device == "cuda" else torch.float32
