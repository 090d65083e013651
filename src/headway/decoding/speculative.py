"""A cheap draft proposes tokens; the model reads all of them in one step and keeps what it may.

What comes is distributed exactly as what `sample_steps` draws. A proposal x, drawn from q, is kept
with probability min(1, p(x) / q(x)); the first that is not is replaced by a draw from
max(p - q, 0), normalised; where all are kept, one more is drawn from p. Leviathan et al. 2023,
section 2.3 and appendix A.1; Chen et al. 2023, algorithm 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch

from headway.data.batches import padded
from headway.decoding.rules import Rule, Writing, apply_rules
from headway.decoding.sampling import (
    Row,
    Sampling,
    choose,
    draw,
    read_prompts,
    record,
    uniform,
)
from headway.shapes import Float, Tensor


@dataclass
class Proposal:
    """Tokens that may come next in a row.

    weights: for each token the distribution it was drawn from; empty where nothing was drawn.
    """

    tokens: list[int] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)


@runtime_checkable
class Drafting(Protocol):
    """A draft at work on some rows."""

    def propose(self, rows: Sequence[Row], most: Sequence[int]) -> list[Proposal]:
        """At most most[n] tokens after row n."""
        ...

    def keep(self, places: Sequence[int]) -> None:
        """Row i becomes old row places[i]."""
        ...


@runtime_checkable
class Draft(Protocol):
    """What proposes. count: most tokens at once."""

    @property
    def count(self) -> int: ...

    def start(self, rows: Sequence[Row], rules: Sequence[Rule]) -> Drafting:
        """Begin with rows that have only their prompts. A proposal keeps to the rules."""
        ...


def speculative_steps(
    model: Any, rows: Sequence[Row], sampling: Sampling, draft: Draft
) -> Iterator[list[Row]]:
    """As `sample_steps`, by fewer and longer steps of the model. `model` is a Stepper.

    After a step, its tokens are given one by one, so that who reads along may end a row after
    each. With draws that depend on seed and place alone, a row gets what it would get alone.
    """
    live = [row for row in rows if row.reason is None]
    state = read_prompts(model, live) if live else None
    drafting = draft.start(live, sampling.rules)
    while live:
        # The last token that may come need not be proposed: it is drawn anyway.
        most = [min(draft.count, row.limit - len(row.tokens) - 1) for row in live]
        proposals = drafting.propose(live, most)
        texts = [[*r.seen, *p.tokens] for r, p in zip(live, proposals, strict=True)]
        logits, state = read_on(model, forget(state, live), texts)
        ends = [len(p.tokens) for p in proposals]  # places of a row's logits count from its end
        going = list(range(len(live)))
        for place in range(max(ends) + 1):
            rows_now, offers = [live[n] for n in going], [proposals[n] for n in going]
            after = [place - ends[n] - 1 for n in going]
            with torch.inference_mode():
                scores = logits[going, after].float()
                chosen, kept = _judge(rows_now, scores, offers, place, sampling.rules)
                grown = record(rows_now, chosen, scores, sampling)
            if grown:
                yield grown
            going = [n for n, k in zip(going, kept, strict=True) if k and live[n].reason is None]
            if not going:
                break
        places = [n for n, row in enumerate(live) if row.reason is None]
        if len(places) < len(live):
            live = [live[n] for n in places]
            state = state.reorder(places)
            drafting.keep(places)


def _judge(
    rows: Sequence[Row],
    scores: Float[Tensor, "N V"],
    proposals: Sequence[Proposal],
    place: int,
    rules: Sequence[Rule],
) -> tuple[list[int], list[bool]]:
    """The next token of each row, and whether it is the proposal's."""
    ruled = apply_rules(rules, scores, rows)
    chosen = choose(ruled, rows, rules)
    kept = []
    for n, (row, proposal) in enumerate(zip(rows, proposals, strict=True)):
        if place < len(proposal.weights):
            p = ruled[n].double().softmax(-1)
            chosen[n] = _keep_or_replace(p, proposal, place, row)
        kept.append(place < len(proposal.tokens) and chosen[n] == proposal.tokens[place])
    return chosen, kept


def _keep_or_replace(p: Float[Tensor, V], proposal: Proposal, place: int, row: Row) -> int:
    """The proposed token or one drawn from what p has more than q, which is never the same."""
    token, q = proposal.tokens[place], proposal.weights[place]
    at = len(row.tokens)
    if len(p) != len(q):
        raise ValueError(f"the draft writes {len(q)} kinds of tokens, the model {len(p)}")
    if uniform(row.seed, at, "keep") * float(q[token]) < float(p[token]):
        return token
    return draw((p - q).clamp(min=0)[None], [uniform(row.seed, at)])[0]


def forget(state: Any, rows: Sequence[Row]) -> Any:
    """Take back what was not kept. A row's last token is never read yet: it may be no proposal."""
    known = zip(state.lengths, rows, strict=True)
    return state.rewind([min(length, len(row.seen) - 1) for length, row in known])


@torch.inference_mode()
def read_on(
    model: Any, state: Any, texts: Sequence[Sequence[int]]
) -> tuple[Float[Tensor, "N T V"], Any]:
    """Read each text from where its row of the state stands to its end, at least its last token.

    Logits stand at the right: those after the last token of each text at -1. Rows with less to
    read read some of their tokens again, so that no row reads past its own end; only where a text
    is too short for that it is padded, and moved.
    """
    starts = [min(n, len(t) - 1) for n, t in zip(state.lengths, texts, strict=True)]
    width = max(len(text) - start for text, start in zip(texts, starts, strict=True))
    starts = [max(0, len(text) - width) for text in texts]
    state = state.rewind(starts)
    tokens, _ = padded([text[start:] for text, start in zip(texts, starts, strict=True)], 0)
    logits, state = model.step(tokens.to(next(model.parameters()).device), state)
    short = [width - len(text) + start for text, start in zip(texts, starts, strict=True)]
    if any(short):
        shifted = [row.roll(n, 0) for row, n in zip(logits, short, strict=True)]
        logits = torch.stack(shifted)
    return logits, state.rewind([len(text) for text in texts])


@dataclass(frozen=True)
class ModelDraft:
    """Proposals drawn from a smaller model with the same vocabulary, under the same rules."""

    model: Any
    count: int = 4

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"{self.count=} must be at least 1")

    def start(self, rows: Sequence[Row], rules: Sequence[Rule]) -> Drafting:
        return _ModelDrafting(self.model, rows, rules)


class _ModelDrafting:
    """Holds what the smaller model has read. It proposes nothing where its own context ends."""

    def __init__(self, model: Any, rows: Sequence[Row], rules: Sequence[Rule]) -> None:
        self.model, self.rules = model, rules
        self.state = model.start(
            torch.zeros(len(rows), 0, dtype=torch.long, device=next(model.parameters()).device)
        )

    def keep(self, places: Sequence[int]) -> None:
        self.state = self.state.reorder(places)

    @torch.inference_mode()
    def propose(self, rows: Sequence[Row], most: Sequence[int]) -> list[Proposal]:
        found = [Proposal() for _ in rows]
        texts = [row.seen for row in rows]
        self.state = forget(self.state, rows)
        room = self.model.max_length
        for step in range(max(most)):
            fits = [room is None or len(text) <= room for text in texts]
            going = [n for n, m in enumerate(most) if fits[n] and len(found[n].tokens) == step < m]
            if not going:
                break
            tops = [text if fit else text[:room] for text, fit in zip(texts, fits, strict=True)]
            logits, self.state = read_on(self.model, self.state, tops)
            self._extend([rows[n] for n in going], [found[n] for n in going], logits[going, -1])
            texts = [[*row.seen, *p.tokens] for row, p in zip(rows, found, strict=True)]
        return found

    def _extend(
        self, rows: Sequence[Row], proposals: Sequence[Proposal], logits: Float[Tensor, "N V"]
    ) -> None:
        """One token more each, unless the rules leave none."""
        written = [
            Writing([*row.tokens, *proposal.tokens], row.prompt, row.item)
            for row, proposal in zip(rows, proposals, strict=True)
        ]
        scores = logits.float()
        for rule in self.rules:
            scores = rule(scores, written)
        for n, (row, proposal) in enumerate(zip(rows, proposals, strict=True)):
            if bool(scores[n].amax() == -torch.inf):
                continue
            q = scores[n].double().softmax(-1)
            place = len(written[n].tokens)
            proposal.tokens += draw(q[None], [uniform(row.seed, place, "draft")])
            proposal.weights.append(q)


@dataclass(frozen=True)
class PromptLookup:
    """Proposals copied from the text so far: what followed its last `ngram` tokens before.

    Of several places the last; where there is none, fewer tokens are looked for. With the same
    seed, what comes is what comes without it. Saxena 2023, prompt lookup decoding.
    """

    ngram: int = 3
    count: int = 8

    def __post_init__(self) -> None:
        if self.ngram < 1 or self.count < 1:
            raise ValueError(f"{self.ngram=} and {self.count=} must be at least 1")

    def start(self, rows: Sequence[Row], rules: Sequence[Rule]) -> Drafting:
        return self

    def keep(self, places: Sequence[int]) -> None:
        """Nothing is kept."""

    def propose(self, rows: Sequence[Row], most: Sequence[int]) -> list[Proposal]:
        return [
            Proposal(self._continued(row.seen)[: max(0, m)])
            for row, m in zip(rows, most, strict=True)
        ]

    def _continued(self, seen: list[int]) -> list[int]:
        for size in range(min(self.ngram, len(seen) - 1), 0, -1):
            last = seen[-size:]
            for begin in range(len(seen) - size - 1, -1, -1):
                if seen[begin : begin + size] == last:
                    return seen[begin + size : begin + size + self.count]
        return []
