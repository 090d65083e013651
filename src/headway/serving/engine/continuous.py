"""Continuous batching: outputs are decoded together, and join and leave between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from headway.decoding import Row, Sampling, TextOutput, choose, record, ruled_logits
from headway.shapes import Float, Tensor
from headway.transfers import upload


@dataclass(eq=False)
class Stream:
    """One output while it is decoded.

    source: what made its first state, the same for all outputs of a job. index: its number among
    them. error: why it failed. shown_tokens, shown_parts: the numbers of tokens and of parts of the
    text that were reported.
    """

    source: Any
    index: int
    output: TextOutput
    sampling: Sampling
    error: Exception | None = None
    shown_tokens: int = 0
    shown_parts: int = 0

    @cached_property
    def group(self) -> str:
        """Equal for streams whose next tokens can be chosen together."""
        sampling = self.sampling
        return repr((sampling.rules, sampling.alternatives, sampling.eos))

    @property
    def row(self) -> Row:
        return self.output.row

    @property
    def live(self) -> bool:
        """Whether the output gets further tokens."""
        return self.error is None and self.row.reason is None


class ContinuousBatch:
    """The outputs that a model decodes together, one row of its decode state each.

    exact: whether there is one more row before them, an empty one, since two rows are the fewest
    that a batch-invariant model may decode.
    """

    def __init__(self, model: Any, exact: bool = False) -> None:
        self.model = model
        self.streams: list[Stream] = []
        self._empty = [[0]] if exact else []
        self._state: Any = None
        if exact:
            self._state = model.start(torch.zeros(1, 0, dtype=torch.long))

    def admit(self, streams: Sequence[Stream], state: Any) -> None:
        """Add streams; `state` has a row for each, without the last token of its prompt."""
        if self._state is None:
            self._state = state
        else:
            self._state.admit(state)
        self.streams.extend(streams)

    def release(self, stream: Stream) -> None:
        """Remove a stream; the last one takes its row."""
        row = self.streams.index(stream)
        self._state.release(len(self._empty) + row)
        self.streams[row] = self.streams[-1]
        self.streams.pop()

    def step(self) -> None:
        """Decode one token of every stream. A stream that cannot go on gets an `error`."""
        device = next(self.model.parameters()).device
        last = [*self._empty, *([stream.row.last] for stream in self.streams)]
        logits, self._state = self.model.step(upload(torch.tensor(last), device), self._state)
        if self._empty:
            self._state = self._state.rewind([0, *self._state.lengths[1:]])
        scores = logits[len(self._empty) :, -1].float()
        groups: dict[str, list[int]] = {}
        for row, stream in enumerate(self.streams):
            groups.setdefault(stream.group, []).append(row)
        for rows in groups.values():
            members = [self.streams[row] for row in rows]
            own = scores if len(groups) == 1 else scores[rows]
            try:
                _extend(members, own)
            except Exception:  # of the rules of one member, which is not known
                for n, member in enumerate(members):
                    _extend_alone(member, own[n : n + 1])


def _extend(streams: Sequence[Stream], scores: Float[Tensor, "N V"]) -> None:
    """Append the next token of streams with the same rules; nothing changes if that fails."""
    sampling, rows = streams[0].sampling, [stream.row for stream in streams]
    ruled = ruled_logits(sampling.rules, scores, rows)
    grown = record(rows, choose(ruled, rows, sampling.rules), scores, sampling, ruled)
    for row, stream in zip(rows, streams, strict=True):
        if any(row is other for other in grown):
            stream.output.grow()


def _extend_alone(stream: Stream, scores: Float[Tensor, "1 V"]) -> None:
    try:
        _extend([stream], scores)
    except Exception as error:
        stream.error = error
