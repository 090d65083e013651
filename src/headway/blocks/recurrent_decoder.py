"""Recurrent decoder: s_t = f(y_(t-1), s_(t-1)) with s_0 = tanh(W c).

The decoder is a recurrent language model of the target whose first state is made from the source.
Without attention the context vector c is all it gets of the source (the bottleneck). With attention
each state is also a query to all states of the encoder.

>>> import torch
>>> from headway.attention import Mask
>>> from headway.blocks import Bridge, MeanState, RecurrentDecoder, RecurrentLayers
>>> layers = RecurrentLayers("gru", input_dim=2, hidden_dim=2, num_layers=1)
>>> decoder = RecurrentDecoder(layers, Bridge(MeanState(), 2, layers.state_dim), readout=None)
>>> words = torch.randn(1, 3, 2)  # B T D: three target words
>>> source = torch.tensor([[[3.0, 0.0], [0.0, 3.0], [0.0, 0.0]]])  # B S D: three encoder states
>>> other_source = torch.ones(1, 3, 2)  # another source with the same mean
>>> torch.equal(decoder(words, source, Mask()), decoder(words, other_source, Mask()))
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from headway.attention import KeyValueCache, KeyValues, Mask, MultiHeadAttention, Past
from headway.attention.cache import check_rewind
from headway.base.shapes import Bool, Float, Tensor
from headway.blocks.dropout import Dropout
from headway.blocks.recurrent import Bridge, RecurrentLayers
from headway.blocks.state import Memory


class Attentional(nn.Module):
    """tanh(W [attention(s, memory); s] + b) for a decoder state s.

    The query is the decoder state, keys and values are the encoder's states. Luong et al. 2015,
    section 3, equation 5, with any kernel and any number of heads.
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

    history: for each sequence the network's state before the first token and after each token, so
    that tokens can be taken back. memory: keys and values of the source; None without attention.
    """

    history: KeyValueCache
    memory: Memory | None

    @property
    def lengths(self) -> list[int]:
        """The number of tokens decoded so far in each sequence."""
        return [length - 1 for length in self.history.lengths]

    @property
    def past(self) -> Past:
        """The number of tokens of each sequence before the next step."""
        return self.lengths

    @property
    def now(self) -> Float[Tensor, "N Z"]:
        """The network's state after the last token of each sequence."""
        return self.history.last()[0][:, 0]

    def push(self, state: Float[Tensor, "N Z"]) -> None:
        """Append the state after one more token."""
        self.history.extend([[state[:, None, None]]])  # N Z -> N 1 1 Z

    def reorder(self, rows: Sequence[int]) -> RecurrentState:
        """Make sequence i the former sequence rows[i]; a row may repeat or be dropped."""
        self.history.reorder(rows)
        if self.memory is not None:
            self.memory.arrange(rows)
        return self

    def rewind(self, lengths: Sequence[int]) -> RecurrentState:
        """Take tokens back: sequence n keeps its first lengths[n]. ValueError if it has fewer."""
        check_rewind(self.lengths, lengths)
        self.history.rewind([length + 1 for length in lengths])
        return self

    def join(self, other: RecurrentState) -> RecurrentState:
        """Append the sequences of another state of the model, which is not used afterwards.

        Raises ValueError if one of the two has attention and the other has none.
        """
        if (self.memory is None) != (other.memory is None):
            raise ValueError(
                "a state with attention and one without it cannot be put together: they are of "
                "two models"
            )
        self.history.join(other.history)
        if self.memory is not None and other.memory is not None:
            self.memory.join(other.memory)
        return self


class RecurrentDecoder(nn.Module):
    """A recurrent language model of the target whose first state is computed from the source.

    layers: the recurrent network, with inputs of width D, with input feeding 2 D. bridge: makes the
    first state from the memory. readout: attention to the source; None for the bottleneck, where
    the first state is the decoder's only information about the source. input_feeding: the last
    attentional vector is concatenated with the next word, so that the decoder has information about
    past alignments (Luong et al. 2015, section 3.3); training is then sequential too.
    """

    cache_type = KeyValueCache

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
            raise ValueError(
                f"{input_feeding=} needs attention, whose output is fed back, but readout is None"
            )
        self.layers = layers
        self.bridge = bridge
        self.readout = readout
        self.input_feeding = input_feeding
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B T D"], memory: Float[Tensor, "B S D"], memory_mask: Mask
    ) -> Float[Tensor, "B T D"]:
        """Compute all target positions (teacher forcing).

        Attention is computed for all of them at once, except with input feeding.
        """
        state = self._first_state(memory, memory_mask.keys)
        source = self._keys_values(memory)
        if not self.input_feeding:
            states, _ = self.layers(x, state)
            return self._concatenate([self._attend(states, source, memory_mask)])
        outputs = []
        for token in torch.split(x, 1, dim=1):
            output, state = self._one_step(token, state, source, memory_mask)
            outputs.append(output)
        return self._concatenate(outputs)

    def start(
        self, memory: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None
    ) -> RecurrentState:
        """Return a new decode state: the first state, and the source's keys and values.

        keys: True where a source position is a real token; None if nothing is padded.
        """
        num_rows = memory.shape[0]
        source = self._keys_values(memory)
        source_memory = None if source is None else Memory([source], keys, list(range(num_rows)))
        state = RecurrentState(self.cache_type(num_rows, num_layers=1), source_memory)
        state.push(self._first_state(memory, keys))
        return state

    def step(self, x: Float[Tensor, "N T D"], state: RecurrentState) -> Float[Tensor, "N T D"]:
        """Decode T new tokens of each sequence; `state` is updated in place."""
        memory = state.memory
        source = None if memory is None else memory.layers[0]
        mask = Mask() if memory is None else memory.mask
        outputs = []
        for token in torch.split(x, 1, dim=1):
            output, next_state = self._one_step(token, state.now, source, mask)
            state.push(next_state)
            outputs.append(output)
        return self._concatenate(outputs)

    def _one_step(
        self,
        token: Float[Tensor, "N 1 D"],
        state: Float[Tensor, "N Z"],
        source: KeyValues | None,
        mask: Mask,
    ) -> tuple[Float[Tensor, "N 1 D"], Float[Tensor, "N Z"]]:
        """Return the output at one position and the next state, which input feeding extends."""
        if not self.input_feeding:
            states, next_state = self.layers(token, state)
            return self._attend(states, source, mask), next_state
        width = self.layers.state_dim
        inner, last_output = state[:, :width], state[:, width:]
        states, next_state = self.layers(torch.cat((token, last_output[:, None]), dim=-1), inner)
        output = self._attend(states, source, mask)
        return output, torch.cat((next_state, output[:, 0].to(next_state.dtype)), dim=-1)

    def _concatenate(self, outputs: list[Tensor]) -> Float[Tensor, "N T D"]:
        hidden: Tensor = self.dropout(torch.cat(outputs, dim=1))
        return hidden

    def _attend(
        self,
        states: Float[Tensor, "N T D"],
        source: KeyValues | None,
        mask: Mask,
    ) -> Float[Tensor, "N T D"]:
        if self.readout is None or source is None:
            return states
        output: Tensor = self.readout(states, source, mask)
        return output

    def _keys_values(self, memory: Float[Tensor, "B S D"]) -> KeyValues | None:
        return None if self.readout is None else self.readout.cross.keys_values(memory)

    def _first_state(
        self, memory: Float[Tensor, "B S D"], keys: Bool[Tensor, "B S"] | None
    ) -> Float[Tensor, "B Z"]:
        first: Tensor = self.bridge(memory, keys)
        if self.input_feeding:
            first = torch.cat((first, first.new_zeros(first.shape[0], memory.shape[-1])), dim=-1)
        return first
