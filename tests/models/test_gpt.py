"""Sizes, shapes and initialisation of language models; tests/parity compares their outputs."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.attention import GroupedQueryAttention, MultiHeadAttention
from headway.base.settings import override
from headway.models import GPT, GPTConfig, parameter_count

SMALL = GPTConfig(model_dim=24, num_heads=6, ffn_dim=40, num_layers=3, max_length=32, vocabulary=11)


def count(name: str) -> int:
    with torch.device("meta"):
        return parameter_count(GPT(replace(GPTConfig(), **GPTConfig.sizes[name])))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt1", 116_534_784),
        ("gpt2-small", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("gpt3-175b", 174_604_259_328),
        ("modern-0.6b", 596_049_920),  # Qwen3-0.6B as released
    ],
)
def test_the_released_sizes_have_the_released_parameters(name, expected):
    assert count(name) == expected


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("gpt3-125m", 125),
        ("gpt3-350m", 350),
        ("gpt3-760m", 760),
        ("gpt3-1.3b", 1300),
        ("gpt3-2.7b", 2700),
        ("gpt3-6.7b", 6700),
        ("gpt3-13b", 13_000),
        ("gpt3-175b", 175_000),
    ],
)
def test_gpt3s_eight_sizes_are_within_three_percent_of_their_names(name, millions):
    assert abs(count(name) / 1e6 - millions) / millions < 0.03


def test_gpt3s_table_as_printed_differs_from_its_names():
    """24 heads of 128 would make the 1.3B wider inside its attention, and 16 % too large."""
    config = replace(GPTConfig(), **GPTConfig.sizes["gpt3-1.3b"])
    with torch.device("meta"):
        printed = parameter_count(GPT(replace(config, num_heads=24, head_dim=128)))
    assert printed / 1.3e9 > 1.15
    thirteen = GPTConfig.sizes["gpt3-13b"]
    with pytest.raises(ValueError, match="model_dim=5140 must be a multiple of num_heads=40"):
        replace(GPTConfig(), **{**thirteen, "model_dim": 5140})


def test_the_number_of_parameters_is_that_of_the_equations():
    config = replace(SMALL, num_kv_heads=2, qk_norm=True, activation="swiglu", norm_kind="rms")
    config = replace(config, bias=False, positions="rotary", tie_output=False)
    d, f, k, g = 24, 40, 4, 2
    block = 2 * d * d + 2 * d * g * k + 2 * k + 3 * d * f + 2 * d
    assert parameter_count(GPT(config)) == 2 * 11 * d + 3 * block + d


@pytest.mark.parametrize("name", GPTConfig.sizes)
def test_every_size_is_built_on_the_meta_device(name):
    config = override(GPTConfig(), GPTConfig.sizes[name], "the size")
    with torch.device("meta"):
        model = GPT(config)
    assert all(p.is_meta for p in model.parameters())
    assert not list(model.buffers())


def test_init_weights_initialises_a_model_of_the_meta_device():
    models = []
    for device in ("cpu", "meta"):
        torch.manual_seed(3)
        with torch.device(device):
            model = GPT(replace(SMALL, qk_norm=True))
        if device == "meta":
            model.to_empty(device="cpu")
            model.tie_weights()
        torch.manual_seed(3)
        model.init_weights()
        models.append(model)
    for a, b in zip(*(m.parameters() for m in models), strict=True):
        assert torch.equal(a, b)


def test_initial_outputs_of_blocks_are_scaled_as_in_gpt2():
    model = GPT(replace(SMALL, model_dim=96, ffn_dim=200))
    small = 0.02 / 6**0.5
    for block in model.decoder.blocks:
        for layer in (block.attention.output, block.feedforward.contract):
            assert layer.weight.std().item() == pytest.approx(small, rel=0.05)
        assert block.attention.query.weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert not block.attention.output.bias.any()


def test_initial_predictions_are_near_uniform():
    for changes in ({}, {"norm": "post"}, {"positions": "sinusoidal"}, {"norm_kind": "rms"}):
        model = GPT(replace(SMALL, vocabulary=1000, **changes)).eval()
        tokens = torch.randint(0, 1000, (4, 9))
        with torch.no_grad():
            logits = model(tokens[:, :-1]).flatten(0, 1)
        loss = float(torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten()))
        assert 6.8 < loss < 7.3  # ln 1000 = 6.9


def test_tied_matrices_are_one():
    tied, untied = GPT(SMALL), GPT(replace(SMALL, tie_output=False))
    assert tied.output.weight is tied.embedding.tokens.weight
    assert parameter_count(untied) - parameter_count(tied) == 11 * 24


def test_forward_is_the_output_projection_of_hidden():
    model, tokens = GPT(SMALL).eval(), torch.randint(0, 11, (2, 5))
    assert torch.equal(model(tokens), model.hidden(tokens) @ model.output.weight.T)


def test_only_configured_modules_are_built():
    """Without shared heads or QK-norm the plain attention; no bias means none anywhere."""
    assert type(GPT(SMALL).decoder.blocks[0].attention) is MultiHeadAttention
    shared = GPT(replace(SMALL, num_kv_heads=3, bias=False, norm_kind="rms"))
    assert type(shared.decoder.blocks[0].attention) is GroupedQueryAttention
    assert not [name for name, _ in shared.named_parameters() if name.endswith("bias")]


@torch.no_grad()
def test_a_prompt_may_be_empty_and_rows_may_have_different_lengths():
    model = GPT(SMALL).eval()
    ids = torch.randint(0, 11, (3, 4))
    keys = torch.arange(3) < torch.tensor([[3], [0], [1]])
    state = model.start(ids[:, :3], keys)
    assert state.lengths == [3, 0, 1]
    logits, _ = model.step(ids[:, 3:], state)
    for row, length in enumerate((3, 0, 1)):
        whole = torch.cat((ids[row : row + 1, :length], ids[row : row + 1, 3:]), 1)
        assert_close(logits[row, 0], model(whole)[0, -1], rtol=0, atol=1e-6)
    state = model.start(ids[:, :0])
    assert_close(model.step(ids, state)[0], model(ids), rtol=0, atol=1e-6)


@torch.no_grad()
def test_a_new_row_joins_a_row_with_a_cache():
    model = GPT(SMALL).eval()
    ids = torch.randint(0, 11, (3, 4))
    states = [model.start(ids[:1, :3]), model.start(ids[1:, :0])]
    joined = states[0].join(states[1])
    assert joined.lengths == [3, 0, 0]
    logits, _ = model.step(ids[:, 3:], joined)
    assert_close(logits[0, 0], model(ids[:1])[0, -1], rtol=0, atol=1e-6)
    assert_close(logits[1:], model(ids[1:, 3:]), rtol=0, atol=1e-6)


def test_padding_at_the_left_is_refused():
    ids, keys = torch.ones(1, 3, dtype=torch.long), torch.tensor([[False, True, True]])
    with pytest.raises(ValueError, match="pad at the right"):
        GPT(SMALL).start(ids, keys)


def test_a_text_longer_than_a_learned_table_is_refused_and_other_schemes_have_no_limit():
    long = torch.zeros(1, 33, dtype=torch.long)
    assert GPT(SMALL).max_length == 32
    with pytest.raises(ValueError, match="max_length=32"):
        GPT(SMALL)(long)
    for scheme in ("rotary", "alibi", "relative", "sinusoidal", "none"):
        model = GPT(replace(SMALL, positions=scheme))
        assert model.max_length is None
        assert model(long).shape == (1, 33, 11)


def test_the_cache_stores_shared_heads_once():
    model = GPT(replace(SMALL, num_kv_heads=2))
    state = model.start(torch.zeros(5, 7, dtype=torch.long))
    keys, values = state.cache.layers[0].stores
    assert keys.shape[:2] == values.shape[:2] == (5, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 5}, r"model_dim=24 must be a multiple of num_heads=5"),
        ({"num_kv_heads": 4}, r"num_heads=6 must be a multiple of num_kv_heads=4"),
        ({"positions": "rotary", "head_dim": 3}, "positions=rotary"),
        ({"positions": "sinusoidal", "model_dim": 9, "head_dim": 2}, "even model_dim"),
    ],
)
def test_invalid_shapes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changes)
