"""Steps of decoders by compiled loops: the plain model's numbers, in every configuration they take,
and torch's own path for all others."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from importlib import import_module

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from headway.attention import MultiHeadAttention, record_attention
from headway.blocks import DecoderOnly, DecoderOnlyBlock, FeedForward, PreNorm
from headway.blocks.feedforward import ACTIVATIONS
from headway.models import GPT, GPTConfig, Translator, TranslatorConfig
from headway.transforms import quantize
from headway.transforms.batch_invariant import make_batch_invariant
from headway.transforms.fast import loops
from headway.transforms.fast.table import prepare_for_inference

module = import_module("headway.transforms.fast.sublayers")
pytestmark = pytest.mark.skipif(not loops.instructions(), reason="the loops are not compiled")

SHAPE = {"vocabulary": 90, "model_dim": 44, "num_layers": 2, "num_heads": 4, "ffn_dim": 70}
MODERN = {
    "norm_kind": "rms",
    "positions": "rotary",
    "activation": "swiglu",
    "bias": False,
    "head_dim": 12,
}
GEMMA = {**MODERN, "norm": "sandwich", "norm_kind": "rms-offset", "activation": "geglu"}
CONFIGURATIONS = {
    "gpt-2": {"activation": "gelu-tanh", "bias": True, "positions": "learned"},
    "modern": MODERN,
    "grouped": {**MODERN, "num_kv_heads": 2, "head_dim": 20},
    "one key head, normalised": {**MODERN, "num_kv_heads": 1, "qk_norm": True, "head_dim": 10},
    "wide heads": {**MODERN, "head_dim": 150},
    "gelu": {"activation": "gelu", "positions": "sinusoidal"},
    "relu": {"activation": "relu", "positions": "learned"},
    "silu": {"activation": "silu", "positions": "rotary", "head_dim": 12},
    "windows": {**MODERN, "window": 7, "layers": "l"},
    "gemma": {**GEMMA, "layers": "lg", "window": 7, "local_rotary_base": 500.0, "qk_norm": True},
    "gemma 2": {**GEMMA, "layers": "lg", "window": 9, "score_cap": 0.5, "logit_cap": 3.0},
    "layers without positions": {**MODERN, "layers": "gG"},
    "factors of scores and of sublayers": {**MODERN, "score_scale": 0.11, "residual_scale": 0.3},
    "norms of the changes, and over all heads": {
        **MODERN,
        "norm": "inner",
        "qk_norm": True,
        "qk_norm_over": "all",
        "num_kv_heads": 2,
    },
    "norms without shift": {**MODERN, "norm_kind": "layer-gain"},
    "norms without parameters": {**MODERN, "norm_kind": "layer-plain"},
    "parallel sublayers": {**MODERN, "norm": "parallel"},
    "parallel sublayers with one norm": {**MODERN, "norm": "parallel-shared", "bias": True},
    "partial rotation": {**MODERN, "rotary_fraction": 0.5, "num_kv_heads": 2},
    "adjacent pairs": {**MODERN, "rotary_pairs": "adjacent", "rotary_fraction": 0.5},
}
DTYPES = {None: 1e-4, "int8": 0.03, "int4": 0.03, "bfloat16": 0.01}


@pytest.fixture(params=loops.available_sets(), ids=loops.SET_NAMES.get)
def instructions(request, monkeypatch):
    monkeypatch.setattr(loops, "instructions", lambda: request.param)


@pytest.fixture
def steps(monkeypatch):
    """Return a list with the number of rows of each step that the loops computed."""
    rows, compute = [], module.LoopedStack.step

    def counted(self, x, *rest):
        rows.append(len(x))
        return compute(self, x, *rest)

    monkeypatch.setattr(module.LoopedStack, "step", counted)
    monkeypatch.setattr(import_module("headway.transforms.quantize"), "SMALLEST", 1)
    return rows


def gpt(**changes):
    torch.manual_seed(3)
    return GPT(GPTConfig(**{**SHAPE, "max_length": 64, **changes})).eval()


def translator(**changes):
    torch.manual_seed(3)
    sizes = {"model_dim": 44, "num_heads": 4, "ffn_dim": 70, "activation": "geglu"}
    layers = {"encoder_layers": 1, "decoder_layers": 2}
    vocabularies = {"source_vocabulary": 90, "target_vocabulary": 80, "share_embeddings": False}
    return Translator(TranslatorConfig(**sizes, **layers, **vocabularies, **changes)).eval()


@torch.no_grad()
def check_continuation(plain, twin, prompt, tokens, tolerance):
    """Compare the logits of each further token with those of the plain model for all at once."""
    full = plain(torch.cat((prompt, tokens), 1))
    state = twin.start(prompt)
    for t in range(tokens.shape[1]):
        logits, state = twin.step(tokens[:, t : t + 1], state)
        expected = full[:, prompt.shape[1] + t]
        error = (logits[:, -1] - expected).norm() / expected.norm()
        assert error < tolerance, (t, float(error))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_language_model_continues_as_the_plain_one_reads(instructions, steps, name, dtype):
    plain = gpt(**CONFIGURATIONS[name])
    if dtype:
        quantize(plain, dtype)
    twin = prepare_for_inference(deepcopy(plain))
    for rows in (1, 3):
        prompt, tokens = torch.randint(90, (rows, 5)), torch.randint(90, (rows, 20))
        check_continuation(plain, twin, prompt, tokens, DTYPES[dtype])
    assert steps == [1] * 20 + [3] * 20


@torch.no_grad()
def test_texts_of_different_lengths_are_continued_as_alone(instructions, steps):
    model = prepare_for_inference(gpt(**CONFIGURATIONS["grouped"]))
    prompts = [torch.randint(90, (1, length)) for length in (3, 11, 7)]
    read = torch.randint(90, (3, 12))
    states = [model.start(prompt) for prompt in prompts]
    alone = []
    for n, state in enumerate(states):
        for t in range(12):
            logits, state = model.step(read[n : n + 1, t : t + 1], state)
        alone.append(logits)
    together = model.start(prompts[0])
    for prompt in prompts[1:]:
        together = together.join(model.start(prompt))
    order = [2, 0, 1]
    for t in range(12):
        if t == 6:  # a search reorders its sequences
            together, read = together.reorder(order), read[order]
        logits, together = model.step(read[:, t : t + 1], together)
    for n, row in enumerate(order):
        assert_close(logits[n], alone[row][0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("residual", ["pre", "post"])
def test_a_translator_writes_as_the_plain_one_reads(instructions, steps, residual, dtype):
    plain = translator(norm=residual)
    if dtype:
        quantize(plain, dtype)
    twin = prepare_for_inference(deepcopy(plain))
    sources = torch.randint(3, 90, (2, 9))
    keys = torch.ones(2, 12, dtype=torch.bool)[:, :9]  # rows that are not one behind another
    keys[1, 6:] = False
    written = torch.randint(3, 80, (2, 12))
    with torch.no_grad():
        full = plain(sources, written, keys)
        # the beams of a sentence share its keys, in order and, after a reordering, in disorder
        for rows in ([0, 1], [0, 0, 1, 1], [1, 0, 0]):
            state = twin.start(sources, keys).reorder(rows)
            for t in range(12):
                logits, state = twin.step(written[rows, t : t + 1], state)
                error = (logits[:, -1] - full[rows, t]).norm() / full[rows, t].norm()
                assert error < DTYPES[dtype], (rows, t, float(error))
    assert set(steps) == {2, 4, 3}


@torch.no_grad()
def test_beams_that_are_not_moved_continue_as_those_that_are(instructions, steps):
    """Sequences multiply, change places and end; sometimes torch reads the cache, too."""
    model = prepare_for_inference(gpt(**CONFIGURATIONS["grouped"]))
    orders = [[1, 0, 0, 1, 1], [4, 0, 2, 2, 1], [3, 3, 0, 1, 4], [2, 1, 0], [0, 1], [1, 0, 1, 1]]
    written, state = torch.randint(90, (2, 3)), model.start(torch.randint(90, (2, 0)))
    _, state = model.step(written, state)
    for number, order in enumerate(orders * 3):
        order = [row % len(written) for row in order]
        new = torch.randint(90, (len(order), 1))
        written, state = torch.cat((written[order], new), 1), state.reorder(order)
        if number % 7 == 3:
            state.cache.rewind([length - 1 for length in state.cache.lengths])
            written = torch.cat((written[:, :-2], new), 1)
        if number % 5 == 4:
            assert len(state.cache.layers[0].stores[0]) >= len(order)  # moves what was not moved
        logits, state = model.step(new, state)
        expected, _ = model.step(written, model.start(written[:, :0]))
        assert_close(logits[:, -1], expected[:, -1], rtol=1e-4, atol=1e-5)
    assert len(steps) == len(orders * 3)


@torch.no_grad()
def test_other_steps_are_torchs(steps, monkeypatch):
    tokens = torch.randint(90, (1, 1))

    def step(model, read=tokens):
        model.step(read, model.start(torch.randint(90, (len(read), 3))))

    usual = prepare_for_inference(gpt())
    step(usual)
    assert len(steps) == 1
    steps.clear()
    step(prepare_for_inference(gpt(positions="alibi")))  # a bias on the scores
    step(prepare_for_inference(gpt(attention="additive")))
    step(usual, read=torch.randint(90, (1, 2)))  # two tokens at once
    step(usual, read=torch.randint(90, (module.ROWS + 1, 1)))
    with torch.autocast("cpu", torch.bfloat16):
        step(usual)
    with torch.enable_grad():
        step(usual)
    step(usual.train())
    usual.eval()
    with record_attention(usual) as maps:
        step(usual)
    assert all(len(weights) == 2 for weights in maps.values())
    exact = make_batch_invariant(prepare_for_inference(gpt(ffn_dim=128)))
    step(exact, read=torch.randint(90, (2, 1)))
    monkeypatch.setattr(loops, "instructions", lambda: loops.NONE)
    step(usual)
    assert not steps


@torch.no_grad()
def test_weights_that_change_between_texts_are_read_anew(steps):
    model, tokens = prepare_for_inference(gpt()), torch.randint(90, (1, 6))
    check_continuation(gpt(), model, tokens[:, :3], tokens[:, 3:], 1e-4)
    other = gpt()
    for parameter in other.parameters():
        parameter.add_(0.01)
    model.load_state_dict(other.state_dict())  # in place
    check_continuation(other, model, tokens[:, :3], tokens[:, 3:], 1e-4)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()  # elsewhere
    check_continuation(other, model, tokens[:, :3], tokens[:, 3:], 1e-4)
    small = quantize(model, "int8")
    check_continuation(other, prepare_for_inference(small), tokens[:, :3], tokens[:, 3:], 0.03)
    check_continuation(other, deepcopy(small), tokens[:, :3], tokens[:, 3:], 0.03)
    assert len(steps) == 15


def test_texts_are_continued_in_several_threads_as_alone():
    model = prepare_for_inference(gpt(**CONFIGURATIONS["modern"], num_layers=6))
    prompts = torch.randint(90, (6, 1, 4))

    def written(prompt):
        with torch.no_grad():
            state, token, tokens = model.start(prompt), prompt[:, -1:], []
            for _ in range(50):
                logits, state = model.step(token, state)
                token = logits[:, -1].argmax(-1, keepdim=True)
                tokens.append(int(token))
        return tokens

    alone = [written(prompt) for prompt in prompts]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(written, prompts)) == alone


@torch.no_grad()
@pytest.mark.parametrize("dtype", [None, "int8"])
def test_a_model_that_nobody_uses_any_more_is_freed(steps, dtype):
    model = gpt()
    if dtype:
        quantize(model, dtype)
    prepare_for_inference(model).step(
        torch.randint(90, (1, 1)), model.start(torch.ones(1, 3).long())
    )
    decoder = weakref.ref(model.decoder)
    del model
    gc.collect()
    assert steps and decoder() is None


@torch.no_grad()
def test_logits_that_are_not_finite_are_reported_as_such(steps):
    model = prepare_for_inference(gpt())
    state = model.start(torch.randint(90, (1, 3)))
    model.decoder.blocks[0].attention.value.bias[2] = torch.nan
    logits, _ = model.step(torch.randint(90, (1, 1)), state)
    assert steps and bool(logits.isnan().any())


@torch.no_grad()
def test_a_row_has_the_same_bits_for_any_number_of_rows_and_threads(instructions, steps):
    model = prepare_for_inference(quantize(gpt(**CONFIGURATIONS["modern"]), "int8"))
    prompt, token, threads = (
        torch.randint(90, (5, 9)),
        torch.randint(90, (5, 1)),
        torch.get_num_threads(),
    )
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            for rows in (1, 2, 5):
                states = [model.start(prompt[n : n + 1]) for n in range(rows)]  # read alone
                state = states[0]
                for other in states[1:]:
                    state = state.join(other)
                results.append(model.step(token[:rows], state)[0][0])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(result, results[0]) for result in results)
    assert steps == [1, 2, 5] * 2


@torch.no_grad()
@pytest.mark.parametrize("name", module.ACTIVATIONS)
def test_activations_are_those_of_torch_for_small_and_large_inputs(instructions, steps, name):
    """x + W_2 activation(W_1 x), where W_1 x has the numbers from -30 to 30."""
    points = torch.linspace(-30, 30, 997)
    network = FeedForward(1, len(points), ACTIVATIONS[name], bias=False)
    attention = MultiHeadAttention(1, num_heads=1)
    network.expand.weight.copy_(points[:, None])
    for parameter in attention.parameters():
        parameter.zero_()
    block = DecoderOnlyBlock(attention, network, lambda: PreNorm(nn.Identity()))
    decoder = prepare_for_inference(DecoderOnly([block], nn.Identity()).eval())
    for place in range(0, len(points), 83):
        network.contract.weight.zero_()[0, place] = 1
        state = decoder.start(1)
        for _ in range(2):  # the first token has no cache yet
            y = decoder.step(torch.ones(1, 1, 1), state)
        expected = ACTIVATIONS[name](points[place])
        assert_close(y[0, 0, 0] - 1, expected, rtol=2e-6, atol=1e-6)
    assert steps
