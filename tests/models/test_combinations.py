"""Combinations of encoder, decoder and score are built and trained, or refused by name."""

from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch

import headway
from headway.attention import Kernel
from headway.decoding import Forbidden, Limits
from headway.models import Translator, TranslatorConfig
from headway.models.kernels_and_positions import SCHEMES, SCORES
from headway.tasks.translation.bundle import TranslatorBundle
from headway.text import TokenizerPair
from headway.transforms import fast
from tests.fixtures.searches import greedy_search

SMALL = TranslatorConfig(
    model_dim=12,
    num_heads=3,
    ffn_dim=20,
    encoder_layers=2,
    decoder_layers=2,
    dropout=0.0,
    window=3,
    source_vocabulary=11,
    target_vocabulary=11,
)
SOURCE, TARGET = (
    torch.tensor([[3, 4, 5, 6, 2], [7, 8, 2, 0, 0]]),
    torch.tensor([[1, 4, 9], [1, 5, 5]]),
)
KEYS = SOURCE != 0
SIDES = ("transformer", "rnn", "feed-forward"), ("transformer", "rnn")


def gradients(model):
    model(SOURCE, TARGET, KEYS).log_softmax(-1)[..., 3].sum().backward()
    return {name: p.grad for name, p in model.named_parameters()}


# Scores whose weights change if the same vector is added to every key.
DEPENDS_ON_BIAS = {"additive", "linear", "linear-elu"}


def dead_parameters(model):
    """Return the names of parameters with a gradient of 0; check that all gradients are finite."""
    by_name = gradients(model)
    for name, gradient in by_name.items():
        assert gradient is not None and torch.isfinite(gradient).all(), name
    largest = max(float(gradient.abs().max()) for gradient in by_name.values())
    return {
        name for name, gradient in by_name.items() if float(gradient.abs().max()) < 1e-6 * largest
    }


def attends(model):
    return any(isinstance(module, Kernel) for module in model.modules())


@pytest.mark.turns(3)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("encoder", "decoder"),
    list(product(*SIDES)),
)
def test_every_combination_trains_all_its_parameters_or_is_refused(encoder, decoder, score):
    changes = {"encoder": encoder, "decoder": decoder, "attention": score}
    refused = (score == "none" and decoder == "transformer") or (
        score == "window" and decoder == "rnn" and encoder != "transformer"
    )
    if refused:
        with pytest.raises(ValueError, match=f"attention={score}"):
            replace(SMALL, **changes)
        return
    for cell, feeding in product(("gru", "lstm"), (False, True)):
        if feeding and (decoder != "rnn" or score == "none"):
            with pytest.raises(ValueError, match="input_feeding"):
                replace(SMALL, **changes, input_feeding=True)
            continue
        model = Translator(replace(SMALL, **changes, cell=cell, input_feeding=feeding))
        dead = dead_parameters(model)
        # A softmax of q (k + b) does not depend on b, which adds a constant to a query's scores.
        assert dead == {name for name in dead if name.endswith("key.bias")}
        assert bool(dead) is not (score in DEPENDS_ON_BIAS or not attends(model))


@cache
def tokenizers():
    return TokenizerPair.train(lambda: iter([("two dogs play", "zwei hunde spielen")]), 270, True)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "changes",
    [
        {"encoder": encoder, "decoder": decoder, "attention": score, **more}
        for encoder, decoder, score in product(*SIDES, SCORES)
        for more in ({}, {"cell": "lstm", "input_feeding": True, "bidirectional": False})
    ],
    ids=lambda changes: " ".join(map(str, changes.values())),
)
@torch.no_grad()
def test_every_combination_generates_by_its_logits_and_is_loaded_from_disk(changes, tmp_path):
    size = tokenizers().source.size
    try:
        config = replace(SMALL, **changes, source_vocabulary=size, target_vocabulary=size)
    except ValueError as refused:
        assert str(refused).startswith(("attention=", "input_feeding"))
        return
    model = Translator(config).eval()
    limits = Limits(1, 2, [6, 6], [Forbidden([[0], [1]])])
    for row, best in enumerate(greedy_search(model, (SOURCE, KEYS), limits)):
        read = torch.tensor([[1, *best.tokens]])
        logits = model(SOURCE[row : row + 1], read, KEYS[row : row + 1])[0]
        logits[:, :2] = -torch.inf
        written = [*best.tokens, *([2] if best.finished else [])]
        assert logits.argmax(-1).tolist()[: len(written)] == written
    TranslatorBundle(model, tokenizers()).save(tmp_path / "m")
    plain = headway.load(tmp_path / "m", fast=False).model
    assert torch.equal(plain(SOURCE, TARGET, KEYS), model(SOURCE, TARGET, KEYS))
    reloaded = headway.load(tmp_path / "m").model
    assert torch.equal(reloaded(SOURCE, TARGET, KEYS), fast(model)(SOURCE, TARGET, KEYS))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_output_depends_on_order_with_every_position_scheme_except_none(scheme):
    model = Translator(replace(SMALL, positions=scheme, max_length=16)).eval()
    shuffled = SOURCE[:1, [2, 0, 3, 1, 4]]
    with torch.no_grad():
        gap = (model(SOURCE[:1], TARGET[:1]) - model(shuffled, TARGET[:1])).abs().max()
    assert (gap > 1e-5) == (scheme != "none")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "rotary", "model_dim": 9}, "positions=rotary"),
        ({"positions": "sinusoidal", "model_dim": 9}, "even model_dim"),
        ({"encoder": "rnn", "positions": "none", "model_dim": 9}, "bidirectional"),
        ({"position_dim": 4, "encoder": "rnn", "tie_output": False}, "position_dim=4"),
    ],
)
def test_invalid_combinations_are_refused_with_the_setting(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **{"share_embeddings": False, **changes})


def rnn(**changes):
    return Translator(replace(SMALL, encoder="rnn", decoder="rnn", **changes)).eval()


@torch.no_grad()
@pytest.mark.parametrize("bidirectional", [True, False])
def test_without_attention_the_decoder_depends_on_the_last_states_only(bidirectional):
    """States in between have no effect without attention, and have one with attention."""
    last = [0, 4] if bidirectional else [4]
    for score, reached in (("none", False), ("additive", True)):
        model = rnn(attention=score, bidirectional=bidirectional)
        memory = model.encode(SOURCE[:1])
        before = model.decode(TARGET[:1], memory)
        between = memory.clone()
        between[:, [i for i in range(5) if i not in last]] += 1.0
        assert torch.equal(before, model.decode(TARGET[:1], between)) is not reached
        ends = memory.clone()
        ends[:, last] += 1.0
        assert not torch.equal(before, model.decode(TARGET[:1], ends))


@torch.no_grad()
def test_with_input_feeding_a_prediction_depends_on_the_previous_attention():
    """With equal recurrent states, different attention at one word changes later predictions."""
    for feeding in (True, False):
        torch.manual_seed(0)
        model = rnn(attention="additive", input_feeding=feeding)
        _, state = model.step(TARGET[:1, :2], model.start(SOURCE[:1]))
        plain, _ = model.step(TARGET[:1, 2:], state)
        torch.manual_seed(0)
        model = rnn(attention="additive", input_feeding=feeding)
        state = model.start(SOURCE[:1])
        value = state.memory.layers[0][1].clone()
        state.memory.layers[0][1].add_(1.0)  # other values at the first words ...
        _, state = model.step(TARGET[:1, :2], state)
        state.memory.layers[0][1].copy_(value)  # ... and the same ones afterwards
        changed, _ = model.step(TARGET[:1, 2:], state)
        assert torch.equal(plain, changed) is not feeding


def test_the_initialisation_of_recurrent_layers():
    """Recurrent weights are orthogonal per gate; biases are zero except an LSTM's forget gate."""
    model = rnn(attention="none", cell="lstm")
    layer = model.decoder.layers.layers[0]
    for gate in layer.weight_hh_l0.detach().chunk(4):
        torch.testing.assert_close(gate @ gate.T, torch.eye(12), atol=1e-5, rtol=0)
    forget = layer.bias_ih_l0.detach().chunk(4)
    assert [float(gate.sum()) for gate in forget] == [0, 12, 0, 0]
    assert not layer.bias_hh_l0.any()
