"""Recurrent networks: h_t = f(x_t, h_(t-1)), one word after the other.

The state h_t summarises the words up to t; the same cell f is applied at every step. An encoder
keeps all its states as the memory; a bidirectional one also reads from the end, so that each vector
depends on both sides of its word.

>>> import torch
>>> from headway.attention import Mask
>>> from headway.blocks import RecurrentEncoder
>>> encoder = RecurrentEncoder("gru", model_dim=4, num_layers=1, bidirectional=True)
>>> words = torch.randn(1, 3, 4)  # B S D: three words
>>> changed = words.clone()
>>> changed[0, 2] = torch.randn(4)  # another third word
>>> differs = (encoder(words, Mask()) != encoder(changed, Mask()))[0]  # S D
>>> differs[:, :2].any(-1)  # forward half: only the state after the third word depends on it
tensor([False, False,  True])
>>> differs[:, 2:].any(-1)  # backward half: all states do
tensor([True, True, True])
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Literal, cast

import torch
from torch import nn

from headway.attention import Mask
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks.cells import GRU, LSTM
from headway.blocks.dropout import Dropout

Cell = Literal["gru", "lstm"]


class RecurrentLayers(nn.Module):
    """A stack of L layers of GRU or LSTM cells, with dropout between the layers.

    Layer l reads the outputs of layer l - 1. The equations are in `blocks/cells.py`. The state of a
    GRU layer is h, that of an LSTM layer [h, c]; the states of all layers are concatenated to one
    vector of width `state_dim`, Z.
    """

    def __init__(
        self, cell: Cell, input_dim: int, hidden_dim: int, num_layers: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        kind = GRU if cell == "gru" else LSTM
        widths = [input_dim] + [hidden_dim] * (num_layers - 1)
        self.layers = nn.ModuleList(kind(width, hidden_dim, batch_first=True) for width in widths)
        self.dropout = Dropout(dropout)
        self.hidden_dim = hidden_dim
        self.parts = 1 if cell == "gru" else 2
        self.state_dim = num_layers * self.parts * hidden_dim

    def forward(
        self, x: Float[Tensor, "B T E"], state: Float[Tensor, "B Z"]
    ) -> tuple[Float[Tensor, "B T H"], Float[Tensor, "B Z"]]:
        """Return h of the top layer after each of T inputs, and the state after the last input."""
        after = []
        states = state.chunk(len(self.layers), dim=-1)
        for depth, (layer, before) in enumerate(zip(self.layers, states, strict=True)):
            x = self.dropout(x) if depth else x
            parts = [part[None].contiguous() for part in before.to(x.dtype).chunk(self.parts, -1)]
            if self.parts == 1:
                x, h = layer(x, parts[0])
                after.append(h[0])
            else:
                x, (h, c) = layer(x, (parts[0], parts[1]))
                after += [h[0], c[0]]
        return x, torch.cat(after, dim=-1)

    def zero_state(self, like: Float[Tensor, "B T E"]) -> Float[Tensor, "B Z"]:
        """Return the initial state, zeros, for a batch like `like`."""
        return like.new_zeros(like.shape[0], self.state_dim)


def init_recurrent(layer: nn.RNNBase) -> None:
    """Initialise a layer gate by gate: Xavier-uniform W, orthogonal U, zero biases.

    The forget gates of an LSTM get bias 1, so that their state is kept at first. Saxe et al. 2014
    (orthogonal); Jozefowicz et al. 2015 (forget bias 1).
    """
    for name, parameter in layer.named_parameters():
        gates = parameter.chunk(parameter.shape[0] // layer.hidden_size)
        for gate in gates:
            if name.startswith("weight_ih"):
                nn.init.xavier_uniform_(gate)
            elif name.startswith("weight_hh"):
                nn.init.orthogonal_(gate)
            else:
                nn.init.zeros_(gate)
        if name.startswith("bias_ih") and isinstance(layer, nn.LSTM):
            nn.init.ones_(gates[1])


class RecurrentEncoder(nn.Module):
    """Encodes the source word by word: memory[s] is the state after source word s.

    bidirectional: memory[s] = [h forward, h backward], each of width D/2, where the backward states
    read the source from its end. Bahdanau et al. 2015, section 3.2.
    """

    def __init__(
        self, cell: Cell, model_dim: int, num_layers: int, bidirectional: bool, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if bidirectional and model_dim % 2:
            raise ValueError(
                f"{model_dim=} must be even: each of the two directions has half of it"
            )
        width = model_dim // 2 if bidirectional else model_dim
        self.forwards = nn.ModuleList(
            RecurrentLayers(cell, model_dim, width, 1) for _ in range(num_layers)
        )
        self.backwards = nn.ModuleList(
            RecurrentLayers(cell, model_dim, width, 1) for _ in range(num_layers * bidirectional)
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        reversal = _reversal(x, mask.keys)
        pairs = cast(
            "Iterator[tuple[RecurrentLayers, RecurrentLayers | None]]",
            zip_longest(self.forwards, self.backwards),
        )
        for depth, (forward, backward) in enumerate(pairs):
            x = self.dropout(x) if depth else x
            states, _ = forward(x, forward.zero_state(x))
            if backward is not None:
                from_end, _ = backward(_reverse(x, reversal), backward.zero_state(x))
                states = torch.cat((states, _reverse(from_end, reversal)), dim=-1)
            x = states
        return x


def _reversal(x: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None) -> Int[Tensor, "#B S"]:
    """Return the indices that reverse the real tokens of each sequence and keep its padding."""
    positions = torch.arange(x.shape[1], device=x.device)[None]
    if keys is None:
        return positions.flip(1)
    lengths = keys.sum(1, keepdim=True)
    return torch.where(keys, lengths - 1 - positions, positions)


def _reverse(x: Float[Tensor, "B S D"], reversal: Int[Tensor, "#B S"]) -> Float[Tensor, "B S D"]:
    return x.gather(1, reversal[..., None].expand(x.shape))


class LastState(nn.Module):
    """The context c of a recurrent encoder: the last state of each direction.

    The backward direction ends at the first word. Sutskever et al. 2014.
    """

    def __init__(self, bidirectional: bool) -> None:
        super().__init__()
        self.bidirectional = bidirectional

    def forward(
        self, memory: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None
    ) -> Float[Tensor, "B D"]:
        if keys is None:
            last = memory[:, -1]
        else:
            rows = torch.arange(memory.shape[0], device=memory.device)
            last = memory[rows, keys.sum(1) - 1]
        if not self.bidirectional:
            return last
        half = memory.shape[-1] // 2
        return torch.cat((last[:, :half], memory[:, 0, half:]), dim=-1)


class MeanState(nn.Module):
    """The context c of an encoder without a last state: the mean over the real tokens."""

    def forward(
        self, memory: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None
    ) -> Float[Tensor, "B D"]:
        if keys is None:
            return memory.mean(1)
        real = keys[..., None].to(memory.dtype)
        return (memory * real).sum(1) / real.sum(1)


class Bridge(nn.Module):
    """The first state of the decoder: tanh(W c + b). Bahdanau et al. 2015, section A.2.2.

    context: reduces the memory to c. state_dim: the width Z of the decoder's state.
    """

    def __init__(self, context: LastState | MeanState, model_dim: int, state_dim: int) -> None:
        super().__init__()
        self.context = context
        self.project = nn.Linear(model_dim, state_dim)

    def forward(
        self, memory: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None
    ) -> Float[Tensor, "B Z"]:
        return torch.tanh(self.project(self.context(memory, keys)))
