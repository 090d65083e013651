"""Every option of the one configuration of decoders: plain and fast, with and without a cache."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.attention import RotaryScaling
from headway.base.settings import fields_of, flatten, override, to_dict
from headway.blocks import Experts
from headway.models import GPT, CaptionerConfig, GPTConfig
from headway.training.objectives.cross_entropy import next_token_sum
from headway.transforms import fast
from headway.transforms.batch_invariant import make_batch_invariant
from tests.fixtures.random_weights import with_noise

BASE = GPTConfig(
    model_dim=24,
    num_heads=4,
    num_kv_heads=2,
    ffn_dim=40,
    num_layers=4,
    vocabulary=31,
    max_length=32,
    positions="rotary",
    norm_kind="rms",
    activation="swiglu",
    bias=False,
)
LLAMA3 = {"kind": "llama3", "factor": 8.0, "original_length": 16}
OPTIONS = {
    "norm of the sublayer's output": {"norm": "inner"},
    "sandwich": {"norm": "sandwich"},
    "parallel": {"norm": "parallel"},
    "parallel with one norm": {"norm": "parallel-shared", "norm_kind": "layer"},
    "gains of 1 + w": {"norm_kind": "rms-offset", "qk_norm": True},
    "no shift": {"norm_kind": "layer-gain"},
    "no parameters of norms": {"norm_kind": "layer-plain"},
    "QK-norm over all heads": {"qk_norm": True, "qk_norm_over": "all"},
    "GELU gate": {"activation": "geglu"},
    "exact GELU gate": {"activation": "geglu-exact"},
    "biases of queries, keys, values": {"attention_bias": "qkv"},
    "biases of attention": {"attention_bias": "all"},
    "no biases of attention": {"bias": True, "attention_bias": "none"},
    "biases of logits": {"output_bias": True},
    "local base": {"local_rotary_base": 50.0, "layers": "llg", "window": 3},
    "partial rotary": {"rotary_fraction": 0.34},
    "adjacent pairs": {"rotary_pairs": "adjacent"},
    "scaled rotary": {"rotary_scaling": RotaryScaling(**LLAMA3)},
    "score scale": {"score_scale": 0.3},
    "score scale and window": {"score_scale": 0.3, "layers": "gl", "window": 3},
    "score cap": {"score_cap": 3.0},
    "windows": {"layers": "lg", "window": 3},
    "layers without positions": {"layers": "gG"},
    "windows without positions": {"layers": "Lg", "window": 3},
    "residual scale": {"residual_scale": 0.3},
    "embedding scale": {"embedding_scale": 5.0},
    "embedding norm": {"embedding_norm": True},
    "logit scale": {"logit_scale": 0.3},
    "logit cap": {"logit_cap": 2.0},
    "experts": {"experts": Experts(total=4)},
    "experts in some layers, a shared one": {
        "experts": Experts(
            total=5, chosen=3, ffn_dim=12, shared_dim=8, weights="probabilities", layers="ed"
        )
    },
    "experts without gates": {"experts": Experts(total=3), "activation": "relu"},
}
TOKENS = torch.randint(0, 31, (2, 9), generator=torch.Generator().manual_seed(1))


def model_of(name):
    torch.manual_seed(0)
    return with_noise(GPT(replace(BASE, **OPTIONS[name])))


@pytest.mark.parametrize("name", OPTIONS)
@torch.no_grad()
def test_fast_twins_and_the_cache_compute_the_option_or_step_aside(name):
    model = model_of(name)
    whole, quick = model(TOKENS), fast(model_of(name))
    assert_close(quick(TOKENS), whole, rtol=1e-5, atol=1e-5)
    for runner in (model, quick):
        state = runner.start(TOKENS[:, :4])
        steps = []
        for t in range(4, TOKENS.shape[1]):
            logits, state = runner.step(TOKENS[:, t : t + 1], state)
            steps.append(logits)
        assert_close(torch.cat(steps, 1), whole[:, 4:], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_changes_the_model_and_its_loss_is_that_of_its_logits(name):
    model, config = model_of(name), replace(BASE, **OPTIONS[name])
    assert set(OPTIONS[name]) >= {text.split("=")[0] for text in config.options}
    assert config.options and not BASE.options
    hidden = model.hidden(TOKENS)[:, :-1].flatten(0, 1)
    targets = TOKENS[:, 1:].flatten()
    expected = torch.nn.functional.cross_entropy(
        model(TOKENS)[:, :-1].flatten(0, 1), targets, reduction="sum"
    )
    for runner in (model, fast(model)):
        total, nats = next_token_sum(runner, hidden, targets)
        assert_close(total, expected, rtol=1e-5, atol=1e-4)
        assert_close(nats, expected.detach(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_saved_and_read_by_its_name(name):
    config = replace(BASE, **OPTIONS[name])
    assert override(GPTConfig(), flatten(to_dict(config)), "config.json") == config
    texts = {key: str(field.default) for key, field in fields_of(config).items()}
    texts = {key: text for key, text in texts.items() if text not in ("None", "()")}
    assert override(GPTConfig(), texts, "the command line") == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": "gx"}, "must be letters of"),
        ({"layers": ""}, "must be letters of"),
        ({"layers": "l", "attention": "dot"}, "needs attention=scaled-dot"),
        ({"score_cap": 2.0, "attention": "window"}, "needs attention=scaled-dot"),
        ({"residual_scale": 0.5, "norm": "post"}, "needs norm=pre"),
        ({"qk_norm_over": "all"}, "needs qk_norm=true"),
        ({"rotary_fraction": 0.5, "head_dim": 6}, "must be even"),
        ({"rotary_fraction": 0.5, "positions": "alibi"}, "needs positions=rotary"),
        ({"layers": "gG", "positions": "learned"}, "needs positions=rotary"),
        ({"rotary_scaling": RotaryScaling(**LLAMA3), "positions": "none"}, "needs positions"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(BASE, **changes)


def test_what_is_made_for_the_usual_blocks_refuses_other_options():
    with pytest.raises(ValueError, match=r"logit_cap=2\.0"):
        CaptionerConfig(gpt=replace(BASE, logit_cap=2.0))
    with pytest.raises(Exception, match=r"logit_cap=2\.0"):
        make_batch_invariant(fast(model_of("logit cap")))


def test_layers_with_one_base_share_their_positions_and_others_do_not():
    blocks = GPT(replace(BASE, layers="lg", window=3)).decoder.blocks
    assert len({block.attention.positions for block in blocks}) == 1
    blocks = GPT(replace(BASE, layers="lgG", local_rotary_base=50.0)).decoder.blocks
    assert blocks[2].attention.positions is None
    assert [b.attention.positions.base for b in blocks[:2]] == [50.0, BASE.rotary_base]


def test_texts_of_a_model_with_factors_for_each_pair_end_at_the_original_length():
    scaling = RotaryScaling(kind="longrope", original_length=7, pair_factors=(1.0, 2.0, 3.0))
    assert GPT(replace(BASE, rotary_scaling=scaling)).max_length == 7
    with pytest.raises(ValueError, match="each of 3 rotated pairs needs a factor; 2 are"):
        GPT(replace(BASE, rotary_scaling=replace(scaling, pair_factors=(1.0, 2.0))))
