"""The recurrent encoder compared with torch's bidirectional layers over packed sentences."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from headway.attention import Mask
from headway.blocks.recurrent import LastState, RecurrentEncoder

B, S, D, L = 3, 7, 6, 2
LENGTHS = torch.tensor([4, S, 1])  # not sorted


def our_name(name):
    """torch's weight_hh_l1_reverse is weight_hh_l0 of our second backward layer."""
    kind, depth = name.removesuffix("_reverse").rsplit("_l", 1)
    stack = "backwards" if name.endswith("_reverse") else "forwards"
    return f"{stack}.{depth}.layers.0.{kind}_l0"


def gradients(out, direction, x, layers):
    """Return gradients by parameter name; the name of the input's is empty."""
    leaves = {"": x, **dict(layers.named_parameters())}
    gradients_of_leaves = torch.autograd.grad(out, list(leaves.values()), direction)
    return dict(zip(leaves, gradients_of_leaves, strict=True))


def pair(cell, bidirectional):
    ours = RecurrentEncoder(cell, D, L, bidirectional).double()
    kind = nn.GRU if cell == "gru" else nn.LSTM
    width = D // 2 if bidirectional else D
    theirs = kind(D, width, L, batch_first=True, bidirectional=bidirectional).double()
    parameters = ours.state_dict()
    theirs.load_state_dict({name: parameters[our_name(name)] for name in theirs.state_dict()})
    return ours, theirs


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_real_words_states_and_gradients_equal_torchs_packed_layers(cell, bidirectional, padded):
    ours, theirs = pair(cell, bidirectional)
    lengths = LENGTHS if padded else torch.tensor([S] * B)
    keys = torch.arange(S) < lengths[:, None]
    x = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    mask = Mask(keys=keys if padded else None)
    memory = ours(x, mask)
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    states, last = theirs(packed)
    expected, _ = pad_packed_sequence(states, batch_first=True, total_length=S)
    assert_close(memory[keys], expected[keys], rtol=0, atol=1e-10)

    last = last if cell == "gru" else last[0]
    context = LastState(bidirectional)(memory, mask.keys)
    top = last.view(L, -1, *last.shape[1:])[-1]  # directions B D/2
    assert_close(context, torch.cat(list(top), dim=-1), rtol=0, atol=1e-10)

    direction = torch.randn_like(memory)[keys]
    ours_grads = gradients(memory[keys], direction, x, ours)
    expected_grads = gradients(expected[keys], direction, x, theirs)
    assert_close(ours_grads[""], expected_grads[""], rtol=0, atol=1e-10)
    for name in dict(theirs.named_parameters()):
        assert_close(ours_grads[our_name(name)], expected_grads[name], rtol=0, atol=1e-10)
