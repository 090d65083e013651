"""Continuous batching: all that one model decodes takes its steps together.

The members of the batch join and leave between two steps: streams, the outputs of generations, own
one row of the decode state each; searches own several, and choose after each step which they keep.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, cast

import torch
from torch import nn

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
from headway.models.contracts import DecodeState, Stepper
from headway.serving.engine.jobs import Finished, Generation
from headway.serving.engine.searches import RunningSearch


class Source(Protocol):
    """What made the streams of a generation."""

    job: Generation

    def result(self) -> Finished:
        """Return what is reported when all have ended."""
        ...


@dataclass(eq=False)
class Stream:
    """One output while it is decoded.

    source: what made its first state, the same for all outputs of a job. index: its number among
    them. error: why it failed. shown_tokens, shown_parts: the numbers of tokens and of parts of the
    text that were reported.
    """

    source: Source
    index: int
    output: TextOutput
    sampling: Sampling
    error: Exception | None = None
    shown_tokens: int = 0
    shown_parts: int = 0
    rows: list[int] = field(default_factory=list)

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
    """One step that was begun: the tokens of each group of streams, the logits of each search."""

    groups: list[tuple[list[Stream], Chosen]] = field(default_factory=list)
    answers: list[tuple[RunningSearch, Float[Tensor, "N 1 V"]]] = field(default_factory=list)

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
    """All that a model decodes together, with one decode state.

    On a GPU the next step of streams is begun before the tokens of the last one are read, so that
    the GPU computes it while the CPU makes texts of them. exact: whether there is one more row
    before the others, an empty one, since two rows are the fewest that a batch-invariant model may
    decode.
    """

    def __init__(self, model: nn.Module, exact: bool = False) -> None:
        self.model, self._exact = cast("Stepper", model), exact
        self.searches: list[RunningSearch] = []
        self._owners: list[Stream | RunningSearch | None] = []  # of each row; None: the empty one
        self._state: DecodeState | None = None
        self._begun: Step | None = None
        self._device = next(model.parameters()).device
        self.forget()

    @property
    def streams(self) -> list[Stream]:
        """The streams, in the order of their rows."""
        return [owner for owner in self._owners if isinstance(owner, Stream)]

    def admit(self, owners: Sequence[Stream | RunningSearch], state: DecodeState) -> None:
        """Add the rows of a state, each with its owner; that of a stream without the last token of
        its prompt."""
        if self._state is None:
            self._state = state
        else:
            self._state = self._state.join(state)
        for owner in owners:
            owner.rows.append(len(self._owners))
            self._owners.append(owner)

    def release(self, stream: Stream) -> None:
        """Remove a stream; the last row takes its place.

        Without members there is no state, so that the next ones begin with a small graph.
        """
        (row,), last = stream.rows, self._owners.pop()
        stream.rows = []
        if last is not stream:
            assert last is not None
            last.rows[last.rows.index(len(self._owners))] = row
            self._owners[row] = last
        if self._owners:
            assert self._state is not None
            count = len(self._owners)
            self._state = self._state.reorder([count if n == row else n for n in range(count)])
        else:
            self.forget()

    def forget(self) -> None:
        """Drop the rows of all members."""
        self._owners = [None] if self._exact else []
        self._state = self._begun = None
        if self._exact:
            self._state = self.model.start(torch.zeros(1, 0, dtype=torch.long))

    def step(self) -> list[tuple[RunningSearch, Float[Tensor, "N 1 V"]]]:
        """Take one step of every member; those that joined during a step wait for its end. A stream
        that cannot go on gets an `error`. Return the logits of the searches."""
        step, self._begun = self._begun, None
        if step is None:
            self._arrange()
            last = torch.tensor([stream.row.last for stream in self.streams], dtype=torch.long)
            step = self._begin(upload(last, self._device))
        if self._runs_ahead:
            following = step.tokens_of(self.streams)
            self._begun = None if following is None else self._begin(following, unread=1)
        step.record()
        return step.answers

    @property
    def _runs_ahead(self) -> bool:
        """Whether the next step can begin before the tokens of this one are read: no stream ends
        with them for sure, and no rule and no search depends on them."""
        return (
            self._device.type in RUNS_AHEAD
            and not self.searches
            and all(
                stream.can_run_ahead and len(stream.row.tokens) + 1 < stream.row.limit
                for stream in self.streams
            )
        )

    def _arrange(self) -> None:
        """Let each search have the rows that it keeps, drop those of searches that have ended, and
        add those of new ones."""
        if not self.searches and all(isinstance(owner, Stream | None) for owner in self._owners):
            return
        new = [search for search in self.searches if search.sequences.state is not None]
        kept: list[tuple[Stream | RunningSearch | None, int]] = [(None, 0)] if self._exact else []
        for search in self.searches:
            if search not in new:
                kept += [(search, search.rows[row]) for row in search.sequences.rows]
        kept += [(stream, stream.rows[0]) for stream in self.streams]
        rows = [row for _, row in kept]
        if sorted(rows) != list(range(len(self._owners))):
            assert self._state is not None
            self._state = self._state.reorder(rows) if rows else None
            self._owners = [owner for owner, _ in kept]
            rows = list(range(len(kept)))
        for owner, _ in kept:
            if owner is not None:
                owner.rows = []
        for (owner, _), row in zip(kept, rows, strict=True):
            if owner is not None:
                owner.rows.append(row)
        for search in new:
            search.rows = []
            state, search.sequences.state = search.sequences.state, None
            assert state is not None
            self.admit([search] * len(search.tokens), state)
        for search in self.searches:
            search.sequences.rows = list(range(len(search.rows)))

    def _begin(self, tokens: Int[Tensor, " N"], unread: int = 0) -> Step:
        """Begin the step after these tokens of the streams, and those of the searches. unread:
        number of tokens that streams do not have."""
        streams, every = self.streams, tokens
        rows = [stream.rows[0] for stream in streams]
        is_mixed = len(streams) < len(self._owners)
        if is_mixed:
            parts = [tokens, *(search.tokens[:, 0] for search in self.searches)]
            of_parts = [*rows, *(row for search in self.searches for row in search.rows)]
            every = tokens.new_zeros(len(self._owners))
            every[upload(torch.tensor(of_parts), self._device)] = torch.cat(parts)
        logits, self._state = self.model.step(every[:, None], self._state)
        if self._exact:
            self._state = self._state.rewind([0, *self._state.lengths[1:]])
        step = Step(answers=[(search, self._of(logits, search.rows)) for search in self.searches])
        scores = (self._of(logits, rows) if is_mixed else logits)[:, -1].float()
        groups: dict[str, list[int]] = {}
        for row, stream in enumerate(streams):
            groups.setdefault(stream.group, []).append(row)
        for of_group in groups.values():
            chosen = self._of(scores, of_group) if len(groups) > 1 else scores
            step.groups += _chosen([streams[row] for row in of_group], chosen, unread)
        return step

    def _of(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """Return the given rows of a tensor."""
        if rows and list(rows) == list(range(rows[0], rows[0] + len(rows))):
            return x[rows[0] : rows[0] + len(rows)]
        return x.index_select(0, upload(torch.tensor(rows, dtype=torch.long), self._device))


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
