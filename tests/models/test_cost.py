"""The cost of language models equals results by hand, of the papers and of torch."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.models import GPT, GPTConfig, parameter_count
from headway.models.cost import (
    activation_bytes,
    attention_flops,
    formula_parameters,
    forward_flops,
    parameters,
    training_flops,
)
from headway.transforms import fast

GPT3 = GPTConfig(**GPTConfig.sizes["gpt3-175b"])
SMALL = {"num_layers": 3, "model_dim": 24, "num_heads": 4, "ffn_dim": 40, "vocabulary": 50}
MODERN = {"num_kv_heads": 2, "head_dim": 10, "norm_kind": "rms", "qk_norm": True, "bias": False}
SHAPES = {
    "gpt": GPTConfig(**SMALL, max_length=16),
    "untied": GPTConfig(**SMALL, max_length=16, tie_output=False),
    "modern": GPTConfig(**SMALL, **MODERN, activation="swiglu", positions="rotary"),
}


def test_gpt3_has_the_parameters_of_a_result_by_hand():
    count = parameters(GPT3)
    matrices = 12 * 96 * 12_288**2  # 173,946,175,488
    words, positions = 50_257 * 12_288, 2048 * 12_288
    assert formula_parameters(GPT3) == matrices + words + positions == 174_588_899_328
    assert count.multiplied == count.split == matrices + words == 174_563_733_504
    # a block: 9 D biases, 4 D of two norms; 2 D of the last norm
    assert count.total == formula_parameters(GPT3) + (13 * 96 + 2) * 12_288 == 174_604_259_328
    assert count.ends == words + positions + 2 * 12_288
    assert count.block == 12 * 12_288**2 + 13 * 12_288


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_the_count_is_that_of_the_model_and_the_formula_omits_only_vectors(config):
    count, model = parameters(config), GPT(config)
    assert count.total == parameter_count(model)
    matrices = sum(p.numel() for p in model.parameters() if p.ndim == 2)
    assert formula_parameters(config) == matrices < count.total
    token_table = 50 * 24 if config.tie_output is False else 0
    assert count.split == count.multiplied + token_table


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_flops_are_those_that_torch_counts(config):
    model, length = GPT(config).train(), 11
    tokens = torch.randint(0, 50, (1, length))
    with FlopCounterMode(display=False) as counter:
        logits = model(tokens)
    assert counter.get_total_flops() == length * forward_flops(config, length)
    with FlopCounterMode(display=False) as counter:
        logits.sum().backward()
    backward = length * (training_flops(config, length) - forward_flops(config, length))
    assert counter.get_total_flops() == backward


# Brown et al. 2020, table D.1: training compute for 300 billion tokens
@pytest.mark.parametrize(
    ("size", "flops"),
    [
        *[("gpt3-125m", 2.25e20), ("gpt3-350m", 6.41e20), ("gpt3-760m", 1.37e21)],
        *[("gpt3-1.3b", 2.38e21), ("gpt3-2.7b", 4.77e21), ("gpt3-6.7b", 1.20e22)],
        *[("gpt3-13b", 2.31e22), ("gpt3-175b", 3.14e23)],
    ],
)
def test_six_n_is_what_the_gpt3_paper_counts(size, flops):
    config = GPTConfig(**GPTConfig.sizes[size])
    assert 6 * parameters(config).multiplied * 300e9 == pytest.approx(flops, rel=0.015)


def test_attentions_flops_by_hand():
    assert attention_flops(GPT3, 2048) == 4 * 96 * 2048 * 12_288 == 9_663_676_416
    assert training_flops(GPT3, 2048) == 6 * 174_563_733_504 + 12 * 96 * 2048 * 12_288
    assert training_flops(GPT3, 2048) * 300e9 == pytest.approx(3.229e23, rel=1e-3)


def test_scores_with_another_cost_are_refused():
    with pytest.raises(ValueError, match="attention='additive'"):
        forward_flops(GPTConfig(attention="additive"), 8)
    with pytest.raises(ValueError, match="length=0"):
        forward_flops(GPTConfig(), 0)


def test_activations_are_the_papers_factors_of_s_b_h_l():
    """Korthikanti et al. 2022: 5 a s / h is 80 for GPT-3, 70 % of the stored activations."""
    unit, ends = 2048 * 12_288 * 96, 4 * 2048 * 12_288

    def factor(**ways):
        return (activation_bytes(GPT3, 2048, 2048, **ways) - ends) / unit

    assert factor(flash=False) == 34 + 80
    assert factor() == factor(flash=False, recompute="selective") == 34
    assert factor(tensor=8, flash=False) == 10 + 24 / 8 + 80 / 8
    assert factor(recompute="full") == pytest.approx(2 + 34 / 96)
    assert factor(recompute="full", flash=False) == pytest.approx(2 + 114 / 96)
    in_float32 = activation_bytes(GPT3, 2048, 2048, element=4)
    assert in_float32 == (4 * 16 + 2) * unit + 2 * ends  # masks keep their one byte


def test_activations_grow_with_tokens_and_scores_with_their_square():
    def scores(tokens: int, length: int) -> int:
        held = activation_bytes(GPT3, tokens, length, flash=False)
        return held - activation_bytes(GPT3, tokens, length)

    assert activation_bytes(GPT3, 4096, 2048) == 2 * activation_bytes(GPT3, 2048, 2048)
    assert scores(4096, 2048) == 2 * scores(2048, 2048)
    assert scores(4096, 4096) == 4 * scores(2048, 2048)


def test_activations_of_grouped_heads_and_a_gate():
    """Per token and block: 4 D; queries and contexts 2 H K, keys and values 2 G K; gate, activated
    gate, expansion and their product 4 F; two bytes each, and two masks of D."""
    held = 2 * (4 * 24 + 2 * 40 + 2 * 20 + 4 * 40) + 2 * 24
    assert activation_bytes(SHAPES["modern"], 6, 3) == 6 * (3 * held + 4 * 24)


def test_activations_without_tokens_are_refused():
    with pytest.raises(ValueError, match="tokens=0"):
        activation_bytes(GPT3, 0, 2048)


def saved_by_torch(config, rows: int) -> int:
    """Return the bytes that the forward pass saves for the backward pass, without parameters."""
    model = fast(GPT(config).train())
    parameter_storage = {p.untyped_storage().data_ptr() for p in model.parameters()}
    stored, tensors = {}, []

    def keep(tensor):
        storage = tensor.untyped_storage()
        tensors.append(tensor)  # otherwise its memory would be reused
        if storage.data_ptr() not in parameter_storage:
            stored[storage.data_ptr()] = storage.nbytes()
        return tensor

    tokens = torch.randint(0, config.vocabulary, (rows, config.max_length))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.hidden(tokens)
    return sum(stored.values())


@pytest.mark.parametrize(
    ("changes", "low", "high"),
    [
        ({}, 0.9, 1.0),  # no dropout, no masks
        ({"dropout": 0.1}, 1.0, 1.1),
        ({**MODERN, "head_dim": 64, "activation": "swiglu", "positions": "rotary"}, 1.2, 1.5),
    ],
    ids=["gpt", "dropout", "modern"],
)
def test_torch_saves_the_counted_activations_and_more_in_modern_blocks(changes, low, high):
    """RMSNorm, QK-norm and rotary positions save activations that the papers do not count."""
    shape = {"num_layers": 3, "model_dim": 256, "num_heads": 4, "ffn_dim": 640}
    config = GPTConfig(**shape, vocabulary=50, max_length=320, **changes)
    counted = activation_bytes(config, 2 * 320, 320, element=4)
    assert low < saved_by_torch(config, 2) / counted < high
