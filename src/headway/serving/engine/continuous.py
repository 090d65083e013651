"""Continuous batching: outputs are decoded together, and join and leave between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import upload
from headway.decoding import (
    RUNS_AHEAD,
    Chosen,
    Row,
    Sampling,
    TextOutput,
    choose_later,
    depend_on_outputs,
)


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

    @cached_property
    def can_run_ahead(self) -> bool:
        """Whether a token can be chosen before the one before it is read."""
        return not depend_on_outputs(self.sampling.rules)

    @property
    def row(self) -> Row:
        return self.output.row

    @property
    def live(self) -> bool:
        """Whether the output gets further tokens."""
        return self.error is None and self.row.reason is None


@dataclass
class Step:
    """One step of some streams that was begun: the tokens of each group of them."""

    groups: list[tuple[list[Stream], Chosen]] = field(default_factory=list)

    def tokens_of(self, streams: Sequence[Stream]) -> Int[Tensor, " N"] | None:
        """Return the tokens of these streams on the device; None if one of them has none."""
        members = [member for of_group, _ in self.groups for member in of_group]
        row_of = {member: row for row, member in enumerate(members)}
        if not all(stream in row_of for stream in streams):
            return None
        parts = [chosen.tokens for _, chosen in self.groups]
        tokens = parts[0] if len(parts) == 1 else torch.cat(parts)
        if members == streams:
            return tokens
        rows = torch.tensor([row_of[stream] for stream in streams])
        return tokens.index_select(0, upload(rows, tokens.device))

    def record(self) -> None:
        """Append the tokens to their streams; a stream that cannot go on gets an `error`."""
        for members, chosen in self.groups:
            try:
                _record(members, chosen)
            except Exception:  # of one member, which is not known
                for n, member in enumerate(members):
                    try:
                        _record([member], chosen.of([n]))
                    except Exception as error:
                        member.error = error


class ContinuousBatch:
    """The outputs that a model decodes together, one row of its decode state each.

    On a GPU the next step is begun before the tokens of the last one are read, so that the GPU
    computes it while the CPU makes texts of them. exact: whether there is one more row before them,
    an empty one, since two rows are the fewest that a batch-invariant model may decode.
    """

    def __init__(self, model: Any, exact: bool = False) -> None:
        self.model = model
        self.streams: list[Stream] = []
        self._empty = 1 if exact else 0  # rows
        self._state: Any = None
        self._begun: Step | None = None
        self._device = next(model.parameters()).device
        if exact:
            self._state = model.start(torch.zeros(1, 0, dtype=torch.long))

    def admit(self, streams: Sequence[Stream], state: Any) -> None:
        """Add streams; `state` has a row for each, without the last token of its prompt."""
        if self._state is None:
            self._state = state
        else:
            self._state = self._state.join(state)
        self.streams.extend(streams)

    def release(self, stream: Stream) -> None:
        """Remove a stream; the last one takes its row.

        Without streams there is no state, so that the next ones begin with a small graph.
        """
        row = self.streams.index(stream)
        self.streams[row] = self.streams[-1]
        self.streams.pop()
        if self.streams or self._empty:
            last = self._empty + len(self.streams)
            rows = [last if n == self._empty + row else n for n in range(last)]
            self._state = self._state.reorder(rows)
        else:
            self._state = self._begun = None

    def step(self) -> None:
        """Decode one token of every stream; those that joined during a step wait for its end. A
        stream that cannot go on gets an `error`."""
        step, self._begun = self._begun, None
        if step is None:
            last = torch.tensor([stream.row.last for stream in self.streams])
            step = self._begin(upload(last, self._device))
        if self._runs_ahead:
            following = step.tokens_of(self.streams)
            self._begun = None if following is None else self._begin(following, unread=1)
        step.record()

    @property
    def _runs_ahead(self) -> bool:
        """Whether the next step can begin before the tokens of this one are read: no stream ends
        with them for sure, and no rule depends on them."""
        return self._device.type in RUNS_AHEAD and all(
            stream.can_run_ahead and len(stream.row.tokens) + 1 < stream.row.limit
            for stream in self.streams
        )

    def _begin(self, tokens: Int[Tensor, " N"], unread: int = 0) -> Step:
        """Begin the step after these tokens. unread: number of tokens that streams do not have."""
        if self._empty:
            tokens = torch.cat((tokens.new_zeros(1), tokens))
        logits, self._state = self.model.step(tokens[:, None], self._state)
        if self._empty:
            self._state = self._state.rewind([0, *self._state.lengths[1:]])
        scores = logits[self._empty :, -1].float()
        groups: dict[str, list[int]] = {}
        for row, stream in enumerate(self.streams):
            groups.setdefault(stream.group, []).append(row)
        step = Step()
        for rows in groups.values():
            of_group = scores
            if len(groups) > 1:
                of_group = scores.index_select(0, upload(torch.tensor(rows), scores.device))
            step.groups += _chosen([self.streams[row] for row in rows], of_group, unread)
        return step


def _chosen(
    streams: list[Stream], scores: Float[Tensor, "N V"], unread: int
) -> list[tuple[list[Stream], Chosen]]:
    """Choose the next tokens of streams with the same rules. A stream they fail gets an `error`."""
    rows, sampling = [stream.row for stream in streams], streams[0].sampling
    try:
        return [(streams, choose_later(scores, rows, sampling, unread))]
    except Exception as error:
        if len(streams) == 1:
            streams[0].error = error
            return []
        alone = [_chosen([s], scores[n : n + 1], unread) for n, s in enumerate(streams)]
        return [part for parts in alone for part in parts]


def _record(streams: Sequence[Stream], chosen: Chosen) -> None:
    """Append the chosen tokens to streams with the same rules; nothing changes if that fails."""
    rows = [stream.row for stream in streams]
    grown = {id(row) for row in chosen.record(rows, streams[0].sampling)}
    for stream in streams:
        if id(stream.row) in grown:
            stream.output.grow()
