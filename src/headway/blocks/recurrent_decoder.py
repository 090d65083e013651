"""The recurrent decoder, without attention or with any (lectures 3.2 and 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from headway.attention import KeyValues, Mask, MultiHeadAttention, TokenCache
from headway.blocks.dropout import Dropout
from headway.blocks.recurrent import Bridge, RecurrentLayers
from headway.blocks.state import Memory
from headway.shapes import Bool, Float, Tensor


class Attentional(nn.Module):
    """tanh(W [attention(s, memory); s]): the decoder state s asks, keys are the encoder's states.

    Luong et al. 2015, section 3, equation 5, with any kernel and any number of heads.
    """

    def __init__(self, cross: MultiHeadAttention, model_dim: int) -> None:
        super().__init__()
        self.cross = cross
        self.combine = nn.Linear(2 * model_dim, model_dim)

    def forward(
        self,
        states: Float[Tensor, "N T D"],
        source: KeyValues,
        mask: Mask,
    ) -> Float[Tensor, "N T D"]:
        context = self.cross(states, source, mask)
        return torch.tanh(self.combine(torch.cat((context, states), dim=-1)))


@dataclass
class RecurrentState:
    """Decode state of a recurrent decoder.

    history: for each row the network's state before the first token and after each token, so that
    tokens can be taken back. memory: None without attention.
    """

    history: TokenCache
    memory: Memory | None

    @property
    def lengths(self) -> list[int]:
        """Tokens decoded so far in each row."""
        return [length - 1 for length in self.history.lengths]

    @property
    def now(self) -> Float[Tensor, "N Z"]:
        """The network's state after each row's last token."""
        return self.history.last()[0][:, 0]

    def push(self, state: Float[Tensor, "N Z"]) -> None:
        """Remember the state after one more token."""
        self.history.extend(state[:, None, None])  # N Z -> N 1 1 Z

    def reorder(self, rows: Sequence[int]) -> RecurrentState:
        """Row i becomes old row rows[i]; rows may repeat and be dropped."""
        self.history.reorder(rows)
        if self.memory is not None:
            self.memory.arrange(rows)
        return self

    def rewind(self, lengths: Sequence[int]) -> RecurrentState:
        """Take tokens back: row n keeps its first lengths[n]."""
        for old, new in zip(self.lengths, lengths, strict=True):
            if not 0 <= new <= old:
                raise ValueError(f"cannot rewind a row of {old} tokens to {new}")
        self.history.rewind([length + 1 for length in lengths])
        return self

    @staticmethod
    def join(states: Sequence[RecurrentState]) -> RecurrentState:
        """The rows of several states of one model, in order, in one state."""
        memories = [state.memory for state in states if state.memory is not None]
        if len(memories) not in (0, len(states)):
            raise ValueError("a state without attention cannot join one with: two models")
        histories = [state.history for state in states]
        history = type(histories[0]).join(histories)
        return RecurrentState(history, Memory.join(memories) if memories else None)


class RecurrentDecoder(nn.Module):
    """A language model over target words whose first state is the source's context c.

    `readout` None is the bottleneck: all that the decoder knows of the source is c. Otherwise each
    state also attends over the source. `input_feeding`: the last attentional vector is read beside
    the next word, so that the decoder knows where it has looked (Luong et al. 2015, section 3.3);
    words must then be read one by one in training too. `layers` reads D (with feeding 2 D) wide
    inputs.
    """

    history_type: type[TokenCache] = TokenCache

    def __init__(
        self,
        layers: RecurrentLayers,
        bridge: Bridge,
        readout: Attentional | None,
        *,
        input_feeding: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if input_feeding and readout is None:
            raise ValueError(f"{input_feeding=} feeds what attention found, but there is none")
        self.layers = layers
        self.bridge = bridge
        self.readout = readout
        self.input_feeding = input_feeding
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B T D"], memory: Float[Tensor, "B S D"], memory_mask: Mask
    ) -> Float[Tensor, "B T D"]:
        """All target positions (teacher forcing); attention for all of them at once if it can."""
        first = self._first(memory, memory_mask.keys)
        attended = self._keys_values(memory)
        if not self.input_feeding:
            states, _ = self.layers(x, first)
            return self._dropped([self._read(states, attended, memory_mask)])
        outputs = []
        for token in torch.split(x, 1, dim=1):
            output, first = self._one(token, first, attended, memory_mask)
            outputs.append(output)
        return self._dropped(outputs)

    def start(
        self, memory: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None
    ) -> RecurrentState:
        """A fresh state: the context, and the source's keys and values."""
        rows = memory.shape[0]
        attended = self._keys_values(memory)
        own = None if attended is None else Memory([attended], keys, list(range(rows)))
        state = RecurrentState(self.history_type(rows), own)
        state.push(self._first(memory, keys))
        return state

    def step(self, x: Float[Tensor, "N T D"], state: RecurrentState) -> Float[Tensor, "N T D"]:
        """T new positions of each row; `state` is updated in place."""
        memory = state.memory
        attended = None if memory is None else memory.layers[0]
        mask = Mask() if memory is None else memory.mask
        outputs = []
        for token in torch.split(x, 1, dim=1):
            output, after = self._one(token, state.now, attended, mask)
            state.push(after)
            outputs.append(output)
        return self._dropped(outputs)

    def _one(
        self,
        token: Float[Tensor, "N 1 D"],
        state: Float[Tensor, "N Z"],
        attended: KeyValues | None,
        mask: Mask,
    ) -> tuple[Float[Tensor, "N 1 D"], Float[Tensor, "N Z"]]:
        """One position: its output, and the state after it (with feeding: the output too)."""
        if not self.input_feeding:
            states, after = self.layers(token, state)
            return self._read(states, attended, mask), after
        inner, fed = state[:, : self.layers.state_dim], state[:, self.layers.state_dim :]
        states, after = self.layers(torch.cat((token, fed[:, None]), dim=-1), inner)
        output = self._read(states, attended, mask)
        return output, torch.cat((after, output[:, 0].to(after.dtype)), dim=-1)

    def _dropped(self, outputs: list[Tensor]) -> Float[Tensor, "N T D"]:
        hidden: Tensor = self.dropout(torch.cat(outputs, dim=1))
        return hidden

    def _read(
        self,
        states: Float[Tensor, "N T D"],
        attended: KeyValues | None,
        mask: Mask,
    ) -> Float[Tensor, "N T D"]:
        if self.readout is None or attended is None:
            return states
        output: Tensor = self.readout(states, attended, mask)
        return output

    def _keys_values(self, memory: Float[Tensor, "B S D"]) -> KeyValues | None:
        return None if self.readout is None else self.readout.cross.keys_values(memory)

    def _first(
        self, memory: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None
    ) -> Float[Tensor, "B Z"]:
        first: Tensor = self.bridge(memory, keys)
        if self.input_feeding:
            first = torch.cat((first, first.new_zeros(len(first), memory.shape[-1])), dim=-1)
        return first
