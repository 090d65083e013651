"""Recurrent networks compared with their equations: layers, encoder, decoder and state."""

import math
from collections import Counter
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from headway.attention import Additive, Mask, MultiHeadAttention
from headway.blocks import (
    Attentional,
    Bridge,
    LastState,
    MeanState,
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentLayers,
    init_recurrent,
)
from headway.blocks import recurrent as source_of_recurrent

B, T, S, D, E, H = 2, 5, 7, 6, 3, 4
LENGTHS = (4, S)
KEYS = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
CELLS = ["gru", "lstm"]


def exact(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def sigmoid(x):
    return 1 / (1 + (-x).exp())


def products(layer, x, h):
    """Return W x + b and U h + b of each gate of one cell."""
    inner = layer.weight_ih_l0 @ x + layer.bias_ih_l0
    across = layer.weight_hh_l0 @ h + layer.bias_hh_l0
    gates = len(inner) // len(h)
    return inner.chunk(gates), across.chunk(gates)


def gru(layer, x, before):
    (h,) = before
    (wr, wz, wn), (ur, uz, un) = products(layer, x, h)
    r, z = sigmoid(wr + ur), sigmoid(wz + uz)
    n = torch.tanh(wn + r * un)
    return [(1 - z) * n + z * h]


def lstm(layer, x, before):
    h, c = before
    (wi, wf, wg, wo), (ui, uf, ug, uo) = products(layer, x, h)
    i, f, o = sigmoid(wi + ui), sigmoid(wf + uf), sigmoid(wo + uo)
    c = f * c + i * torch.tanh(wg + ug)
    return [o * torch.tanh(c), c]


def by_hand(layers, x, state, cell):
    """Return the top h of every step of one row, and the last state, from [T E] and [Z]."""
    states = [list(part.chunk(layers.parts)) for part in state.chunk(len(layers.layers))]
    tops = []
    for vector in x:
        for depth, layer in enumerate(layers.layers):
            states[depth] = cell(layer, vector, states[depth])
            vector = states[depth][0]
        tops.append(vector)
    return torch.stack(tops), torch.cat([part for parts in states for part in parts])


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_layers_are_their_equations(cell, depth):
    layers = RecurrentLayers(cell, E, H, depth).double()
    assert layers.state_dim == depth * H * (1 if cell == "gru" else 2)
    x, state = exact(B, T, E), exact(B, layers.state_dim)
    tops, after = layers(x, state)
    for row in range(B):
        expected, last_state = by_hand(layers, x[row], state[row], {"gru": gru, "lstm": lstm}[cell])
        assert_close(tops[row], expected, rtol=0, atol=1e-12)
        assert_close(after[row], last_state, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_layers_continue_from_a_returned_state(cell):
    layers = RecurrentLayers(cell, E, H, 2).double()
    x, state = exact(B, T, E), exact(B, layers.state_dim)
    tops, after = layers(x, state)
    early, between = layers(x[:, :2], state)
    late, last = layers(x[:, 2:], between)
    assert_close(torch.cat((early, late), dim=1), tops, rtol=0, atol=1e-14)
    assert_close(last, after, rtol=0, atol=1e-14)
    assert not layers.zero_state(x).any() and layers.zero_state(x).shape == state.shape


def test_dropout_is_between_layers_only():
    x = torch.randn(B, T, E)
    for depth, noisy in ((1, False), (2, True)):
        layers = RecurrentLayers("gru", E, H, depth, dropout=0.5)
        state = layers.zero_state(x)
        assert torch.equal(layers(x, state)[0], layers(x, state)[0]) is not noisy
        layers.eval()
        assert torch.equal(layers(x, state)[0], layers(x, state)[0])


@pytest.mark.parametrize(("kind", "gates"), [(nn.GRU, 3), (nn.LSTM, 4)])
def test_initial_weights_are_orthogonal_per_gate_with_the_forget_bias_of_an_lstm(kind, gates):
    layer = kind(E, H)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(math.nan)  # as after the meta device
    init_recurrent(layer)
    for gate in layer.weight_hh_l0.detach().chunk(gates):
        assert_close(gate @ gate.T, torch.eye(H))
    bound = math.sqrt(6 / (E + H))  # Xavier, of one gate
    widest = [float(gate.detach().abs().max()) for gate in layer.weight_ih_l0.chunk(gates)]
    assert all(bound / 2 < value <= bound for value in widest)
    biases = [float(b.sum()) for b in layer.bias_ih_l0.detach().chunk(gates)]
    assert biases == ([0, H, 0, 0] if kind is nn.LSTM else [0, 0, 0])
    assert not layer.bias_hh_l0.any()


# The encoder and its context.


def test_a_row_is_reversed_within_its_length():
    x = torch.tensor([[1.0, 2, 3, 0, 0], [4, 5, 6, 7, 8]])[..., None]
    keys = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    reversal = source_of_recurrent._reversal(x, keys)
    reversed_rows = source_of_recurrent._reverse(x, reversal)[..., 0]
    assert reversed_rows.tolist() == [[3, 2, 1, 0, 0], [8, 7, 6, 5, 4]]
    assert torch.equal(source_of_recurrent._reverse(reversed_rows[..., None], reversal), x)
    whole = source_of_recurrent._reverse(x, source_of_recurrent._reversal(x, None))[..., 0]
    assert whole.tolist() == [[0, 0, 3, 2, 1], [8, 7, 6, 5, 4]]


@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_word_affects_later_states_forward_and_earlier_states_backward(bidirectional):
    encoder, x = RecurrentEncoder("gru", D, 1, bidirectional), torch.randn(1, S, D)
    changed_input = x.clone()
    changed_input[:, 2] += 1.0
    changed = (encoder(x, Mask()) != encoder(changed_input, Mask()))[0]
    ahead = [False] * 2 + [True] * 5
    half = D // 2
    assert changed[:, :half].any(1).tolist() == ahead
    back = [True] * 3 + [False] * 4
    assert changed[:, half:].any(1).tolist() == (back if bidirectional else ahead)


def test_a_bidirectional_encoder_of_odd_width_is_refused():
    with pytest.raises(ValueError, match="model_dim=5 must be even"):
        RecurrentEncoder("gru", 5, 1, True)
    assert RecurrentEncoder("gru", 5, 1, False)(torch.randn(B, S, 5), Mask()).shape == (B, S, 5)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", CELLS)
def test_the_last_state_of_a_padded_row_is_that_of_the_row_alone(cell, bidirectional):
    encoder = RecurrentEncoder(cell, D, 2, bidirectional).double()
    context, x = LastState(bidirectional), exact(B, S, D)
    batched = context(encoder(x, Mask(keys=KEYS)), KEYS)
    for row, length in enumerate(LENGTHS):
        memory = encoder(x[row : row + 1, :length], Mask())
        assert_close(batched[row : row + 1], context(memory, None), rtol=0, atol=1e-14)
        ends = memory[0, -1]
        if bidirectional:
            ends = torch.cat((memory[0, -1, : D // 2], memory[0, 0, D // 2 :]))
        assert_close(batched[row], ends, rtol=0, atol=1e-14)


def test_the_mean_state_excludes_padding():
    memory = exact(B, S, D)
    with_padding = memory.masked_fill(~KEYS[..., None], 1e6)
    means = MeanState()(with_padding, KEYS)
    for row, length in enumerate(LENGTHS):
        assert_close(means[row], sum(memory[row, :length]) / length)
    assert_close(MeanState()(memory, None)[0], sum(memory[0]) / S)


def test_the_bridge_is_its_equation():
    bridge, memory = Bridge(MeanState(), D, 8).double(), exact(B, S, D)
    c = memory.sum(1) / S
    expected = torch.tanh(c @ bridge.project.weight.T + bridge.project.bias)
    assert_close(bridge(memory, None), expected)


# The decoder, with and without attention.


@dataclass
class Case:
    """A decoder and its inputs."""

    decoder: RecurrentDecoder
    x: torch.Tensor
    memory: torch.Tensor

    def outputs(self, memory=None, keys=None, x=None):
        x = self.x if x is None else x
        return self.decoder(x, self.memory if memory is None else memory, Mask(keys=keys))


def case(cell="gru", attends=True, feeding=False, depth=2, bidirectional=True):
    layers = RecurrentLayers(cell, 2 * D if feeding else D, D, depth)
    bridge = Bridge(LastState(bidirectional), D, layers.state_dim)
    readout = None
    if attends:
        width = D // 3
        heads = MultiHeadAttention(D, 3, kernel=Additive(3, width, width, 5))
        readout = Attentional(heads, D)
    decoder = RecurrentDecoder(layers, bridge, readout, input_feeding=feeding).double().eval()
    return Case(decoder, exact(B, T, D), exact(B, S, D))


def steps(example, sizes, keys=None):
    state = example.decoder.start(example.memory, keys)
    parts = [example.decoder.step(x, state) for x in example.x.split(sizes, dim=1)]
    return torch.cat(parts, dim=1), state


@pytest.mark.parametrize("keys", [None, KEYS], ids=["whole", "padded"])
@pytest.mark.parametrize("attends", [False, True], ids=["bottleneck", "attends"])
@pytest.mark.parametrize("cell", CELLS)
def test_the_decoder_is_its_equations(cell, attends, keys):
    example = case(cell, attends)
    layers, bridge, readout = (
        example.decoder.layers,
        example.decoder.bridge,
        example.decoder.readout,
    )
    first = bridge(example.memory, keys)
    for row in range(B):
        equations = {"gru": gru, "lstm": lstm}[cell]
        expected, _ = by_hand(layers, example.x[row], first[row], equations)
        if attends:
            length = S if keys is None else LENGTHS[row]
            query = expected[None], example.memory[row : row + 1, :length], Mask()
            context = readout.cross(*query)[0]
            both = torch.cat((context, expected), dim=-1)
            expected = torch.tanh(both @ readout.combine.weight.T + readout.combine.bias)
        assert_close(example.outputs(keys=keys)[row], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_step_by_step_decoding_equals_one_pass(cell, feeding):
    example = case(cell, feeding=feeding)
    whole = example.outputs(keys=KEYS)
    for sizes in ([1] * T, [2, 3], [T]):
        stepped, state = steps(example, sizes, KEYS)
        assert_close(stepped, whole, rtol=0, atol=1e-12)
        assert state.lengths == [T] * B


@pytest.mark.parametrize("cell", CELLS)
def test_input_feeding_concatenates_the_last_attentional_vector_with_the_next_word(cell):
    """The output of attention at t - 1, initially zeros, is concatenated with word t."""
    example = case(cell, feeding=True, depth=1)
    layers, bridge, readout = (
        example.decoder.layers,
        example.decoder.bridge,
        example.decoder.readout,
    )
    source = readout.cross.keys_values(example.memory)
    state, fed = bridge(example.memory, None), torch.zeros(B, D, dtype=torch.float64)
    outputs = []
    for t in range(T):
        states, state = layers(torch.cat((example.x[:, t], fed), dim=-1)[:, None], state)
        fed = readout(states, source, Mask())[:, 0]
        outputs.append(fed)
    assert_close(example.outputs(), torch.stack(outputs, dim=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("feeding", [True, False])
def test_another_attentional_vector_reaches_the_next_word_only_when_it_is_fed(feeding):
    example = case(feeding=feeding)
    readout, before = example.decoder.readout, example.outputs()
    calls = Counter()

    def shift_second(module, inputs, output):
        """Change the attentional vector of the second word, in a pass or in steps."""
        first = calls["words"]
        calls["words"] += output.shape[1]
        if first <= 1 < calls["words"]:
            output = output.clone()
            output[:, 1 - first] += 1.0
        return output

    with torch.no_grad():
        hook = readout.register_forward_hook(shift_second)
        after = example.outputs()
        hook.remove()
    changed = (before != after).any(-1).all(0).tolist()
    assert changed == [False, True, feeding, feeding, feeding]
    assert torch.equal(example.outputs(), before)
    with pytest.raises(ValueError, match="input_feeding=True"):
        case(attends=False, feeding=True)  # without attention there is no attentional vector


INSIDE = [0, 4, 5, 2, 1, 3, 6]  # all words except the first and the last are permuted


def only_the_context(example):
    """Check that, without attention, the decoder does not depend on memory between its ends."""
    before, after = example.outputs(), example.outputs(example.memory[:, INSIDE])
    assert torch.equal(before, after), "the decoder depends on more than the context"
    ends = example.memory.clone()
    ends[:, -1] += 1.0
    assert not torch.equal(before, example.outputs(ends))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", CELLS)
def test_without_attention_the_decoder_depends_on_the_context_only(cell, bidirectional):
    only_the_context(case(cell, attends=False, bidirectional=bidirectional))


def test_with_attention_the_output_depends_on_every_memory_vector_but_not_on_its_position():
    example = case()
    before = example.outputs()
    for position in range(1, S - 1):
        memory = example.memory.clone()
        memory[:, position] += 1.0
        assert bool((before != example.outputs(memory)).any(-1).all()), position
    assert_close(example.outputs(example.memory[:, INSIDE]), before, rtol=0, atol=1e-12)


def test_a_context_that_depends_on_further_words_is_detected(monkeypatch):
    monkeypatch.setattr(LastState, "forward", lambda self, memory, keys: memory[:, 3])
    with pytest.raises(AssertionError, match="more than the context"):
        only_the_context(case(attends=False))


def test_a_path_around_the_context_is_detected(monkeypatch):
    plain = RecurrentDecoder.forward

    def leaky(self, x, memory, memory_mask):
        return plain(self, x, memory, memory_mask) + 1e-3 * memory[:, 2:3]

    monkeypatch.setattr(RecurrentDecoder, "forward", leaky)
    with pytest.raises(AssertionError, match="more than the context"):
        only_the_context(case(attends=False))


# The state of the decoder.


@pytest.mark.parametrize("attends", [False, True])
@pytest.mark.parametrize("lengths", [[-1, 0], [T + 1, 0], [0, T + 1]])
def test_a_state_cannot_be_rewound_beyond_its_length(attends, lengths):
    _, state = steps(case(attends=attends), [T])
    wrong = next(n for n in lengths if not 0 <= n <= T)
    with pytest.raises(ValueError, match=f"a sequence of {T} tokens to {wrong}"):
        state.rewind(lengths)
    assert state.lengths == [T, T]  # the state is unchanged


def test_a_state_is_rewound_by_one_length_per_row():
    _, state = steps(case(), [T])
    with pytest.raises(ValueError, match="argument"):
        state.rewind([1])


def test_a_state_rewound_to_zero_equals_a_new_state():
    example = case("lstm", feeding=True)
    outputs, state = steps(example, [T])
    fresh = example.decoder.start(example.memory, None)
    assert torch.equal(state.rewind([0, 0]).now, fresh.now) and state.lengths == [0, 0]
    assert torch.equal(example.decoder.step(example.x, state), outputs)


def test_rows_of_different_lengths_continue_from_their_own_length():
    example = case()
    outputs, state = steps(example, [T])
    state.rewind([1, 3])
    following = torch.stack((example.x[0, 1:3], example.x[1, 3:5]))
    expected = torch.stack((outputs[0, 1:3], outputs[1, 3:5]))
    assert_close(example.decoder.step(following, state), expected, rtol=0, atol=1e-12)
    assert state.lengths == [3, 5]


@pytest.mark.parametrize("rows", [[0, B], [-1 - B]])
@pytest.mark.parametrize("attends", [False, True])
def test_a_row_that_does_not_exist_is_refused(attends, rows):
    _, state = steps(case(attends=attends), [2, 3])
    with pytest.raises(IndexError):
        state.reorder(rows)


def test_states_with_and_without_attention_are_not_joined():
    states = [steps(case(attends=attends), [T])[1] for attends in (True, False)]
    for first, second in (states, states[::-1]):
        with pytest.raises(ValueError, match="two models"):
            first.join(second)
