"""Recurrent networks: one word after the other, with a state that remembers (lectures 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Literal

import torch
from torch import nn

from headway.attention import Mask
from headway.blocks.cells import GRU, LSTM
from headway.blocks.dropout import Dropout
from headway.shapes import Bool, Float, Int, Tensor

Cell = Literal["gru", "lstm"]


class RecurrentLayers(nn.Module):
    """L layers of GRU or LSTM cells, each reading the one below, dropout between them.

    GRU: r, z = sigmoid(W x + U h), n = tanh(W x + r * U h), h' = (1 - z) * n + z * h (Cho et al.
    2014). LSTM: i, f, o = sigmoid(W x + U h), c' = f * c + i * tanh(W x + U h), h' = o * tanh(c')
    (Hochreiter and Schmidhuber 1997). The state of one layer is h, an LSTM's is [h, c]; all layers'
    states stand side by side in one vector of width `state_dim`.
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
        """The top layer's h after each of T inputs, and the state after the last."""
        after = []
        own = state.chunk(len(self.layers), dim=-1)
        for depth, (layer, before) in enumerate(zip(self.layers, own, strict=True)):
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
        return like.new_zeros(like.shape[0], self.state_dim)


def init_recurrent(layer: nn.RNNBase) -> None:
    """Xavier inputs, orthogonal recurrence, gate by gate; zero biases, but an LSTM forgets slowly.

    Saxe et al. 2014 (orthogonal); Jozefowicz et al. 2015 (forget bias 1).
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
    """Reads the source word by word; `bidirectional` from both ends, half the width each.

    memory[s] = [h forward, h backward] after source word s: what attention looks at. Bahdanau et
    al. 2015, section 3.2.
    """

    def __init__(
        self, cell: Cell, model_dim: int, num_layers: int, bidirectional: bool, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if bidirectional and model_dim % 2:
            raise ValueError(f"{model_dim=} must be even: each direction has half of it")
        width = model_dim // 2 if bidirectional else model_dim
        self.forwards = nn.ModuleList(
            RecurrentLayers(cell, model_dim, width, 1) for _ in range(num_layers)
        )
        self.backwards = nn.ModuleList(
            RecurrentLayers(cell, model_dim, width, 1) for _ in range(num_layers * bidirectional)
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        turned = _turning(x, mask.keys)
        pairs: Iterator[Any] = zip_longest(self.forwards, self.backwards)
        for depth, (ahead, back) in enumerate(pairs):
            x = self.dropout(x) if depth else x
            out, _ = ahead(x, ahead.zero_state(x))
            if back is not None:
                other, _ = back(_turn(x, turned), back.zero_state(x))
                out = torch.cat((out, _turn(other, turned)), dim=-1)
            x = out
        return x


def _turning(x: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None) -> Int[Tensor, "#B S"]:
    """Where each position comes from when every row is read backwards and padding stays put."""
    places = torch.arange(x.shape[1], device=x.device)[None]
    if keys is None:
        return places.flip(1)
    lengths = keys.sum(1, keepdim=True)
    return torch.where(keys, lengths - 1 - places, places)


def _turn(x: Float[Tensor, "B S D"], turned: Int[Tensor, "#B S"]) -> Float[Tensor, "B S D"]:
    return x.gather(1, turned[..., None].expand(x.shape))


class LastState(nn.Module):
    """The context c: where each direction of a recurrent encoder arrived. Sutskever et al. 2014."""

    def __init__(self, bidirectional: bool) -> None:
        super().__init__()
        self.bidirectional = bidirectional

    def forward(
        self, memory: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None
    ) -> Float[Tensor, "B D"]:
        if keys is None:
            last = memory[:, -1]
        else:
            rows = torch.arange(len(memory), device=memory.device)
            last = memory[rows, keys.sum(1) - 1]
        if not self.bidirectional:
            return last
        half = memory.shape[-1] // 2
        return torch.cat((last[:, :half], memory[:, 0, half:]), dim=-1)


class MeanState(nn.Module):
    """The context c of an encoder that has no last state: the mean over the real positions."""

    def forward(
        self, memory: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None
    ) -> Float[Tensor, "B D"]:
        if keys is None:
            return memory.mean(1)
        real = keys[..., None].to(memory.dtype)
        return (memory * real).sum(1) / real.sum(1)


class Bridge(nn.Module):
    """The decoder's first state: tanh(W c). Bahdanau et al. 2015, section A.2.2."""

    def __init__(self, context: LastState | MeanState, model_dim: int, state_dim: int) -> None:
        super().__init__()
        self.context = context
        self.project = nn.Linear(model_dim, state_dim)

    def forward(
        self, memory: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None
    ) -> Float[Tensor, "B Z"]:
        return torch.tanh(self.project(self.context(memory, keys)))
