"""Speculative decoding: a draft proposes several tokens, the model verifies them in one step.

The output has exactly the distribution of `sample_steps`. A proposed token x, sampled from q, is
accepted with probability min(1, p(x) / q(x)). The first rejected one is replaced by a sample from
max(p - q, 0), normalised; if all are accepted, one more token is sampled from p. Leviathan et al.
2023, section 2.3 and appendix A.1; Chen et al. 2023, algorithm 2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from headway.base.shapes import Float, Tensor
from headway.base.transfers import read, upload
from headway.data.padding import padded
from headway.decoding.rule import PartialOutput, Rule, check_choice, ruled_logits
from headway.decoding.sampling import Row, Sampling, choose, draw, read_prompts, record, uniform
from headway.models.contracts import DecodeState, LanguageStepper, Stepper


@dataclass
class Proposal:
    """Tokens proposed as the continuation of a row.

    weights: the distribution that each token was sampled from; empty if nothing was sampled.
    """

    tokens: list[int] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)


class Drafting(Protocol):
    """The state of a draft for a batch of rows."""

    def propose(self, rows: Sequence[Row], most: Sequence[int]) -> list[Proposal]:
        """Propose at most most[n] tokens after row n."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Reorder the rows: new row i is old row rows[i]."""
        ...


class Draft(Protocol):
    """Proposes tokens. count: the maximum number of tokens per proposal."""

    @property
    def count(self) -> int: ...

    def start(self, rows: Sequence[Row], rules: Sequence[Rule]) -> Drafting:
        """Start with rows that consist of their prompts. Proposals satisfy the rules."""
        ...


def speculative_steps(
    model: Stepper, rows: Sequence[Row], sampling: Sampling, draft: Draft
) -> Iterator[list[Row]]:
    """Continue all rows as `sample_steps` does, in fewer but longer steps.

    The tokens of a step are yielded one by one, so that the caller may end a row after each. The
    random numbers depend only on seed and position, so the output of a row is the same in any
    batch.
    """
    live = [row for row in rows if row.reason is None]
    if not live:
        return
    state = read_prompts(model, live)
    drafting = draft.start(live, sampling.rules)
    while live:
        # The last possible token need not be proposed: the model samples it anyway.
        most = [min(draft.count, row.limit - len(row.tokens) - 1) for row in live]
        proposals = drafting.propose(live, most)
        texts = [[*r.seen, *p.tokens] for r, p in zip(live, proposals, strict=True)]
        logits, state = read_on(model, forget(state, live), texts)
        ends = [len(p.tokens) for p in proposals]  # positions of a row's logits count from its end
        active = list(range(len(live)))
        for offset in range(max(ends) + 1):
            rows_now, offers = [live[n] for n in active], [proposals[n] for n in active]
            after = [offset - ends[n] - 1 for n in active]
            with torch.inference_mode():
                scores = logits[active, after].float()
                ruled = ruled_logits(sampling.rules, scores, rows_now)
                tokens, accepted = _verify(rows_now, ruled, offers, offset, sampling.rules)
                chosen = upload(torch.tensor(tokens), scores.device)
                grown = record(rows_now, chosen, scores, sampling, ruled)
            if grown:
                yield grown
            active = [
                n for n, k in zip(active, accepted, strict=True) if k and live[n].reason is None
            ]
            if not active:
                break
        unfinished = [n for n, row in enumerate(live) if row.reason is None]
        if len(unfinished) < len(live):
            live = [live[n] for n in unfinished]
            state = state.reorder(unfinished)
            drafting.keep(unfinished)


def _verify(
    rows: Sequence[Row],
    ruled: Float[Tensor, "N V"],
    proposals: Sequence[Proposal],
    offset: int,
    rules: Sequence[Rule],
) -> tuple[list[int], list[bool]]:
    """Return the next token of each row, and whether it is the proposed one.

    ruled: the logits after the rules. Raises UsageError if they forbid every token of a row.
    """
    chosen, largest = read(choose(ruled, rows, rules), ruled.amax(-1))
    for row, logit in zip(rows, largest, strict=True):
        check_choice(logit, rules, row)
    accepted = []
    for n, (row, proposal) in enumerate(zip(rows, proposals, strict=True)):
        if offset < len(proposal.weights):
            p = ruled[n].double().softmax(-1)
            chosen[n] = _accept_or_resample(p, proposal, offset, row)
        accepted.append(offset < len(proposal.tokens) and chosen[n] == proposal.tokens[offset])
    return chosen, accepted


def _accept_or_resample(p: Float[Tensor, " V"], proposal: Proposal, offset: int, row: Row) -> int:
    """Return the proposed token if it is accepted; else a sample from max(p - q, 0), normalised,
    which is never the proposed token."""
    token, q = proposal.tokens[offset], proposal.weights[offset]
    position = len(row.tokens)
    if len(p) != len(q):
        raise ValueError(f"the draft has a vocabulary of {len(q)} tokens, the model of {len(p)}")
    if uniform(row.seed, position, "keep") * float(q[token]) < float(p[token]):
        return token
    return int(draw((p - q).clamp(min=0)[None], [uniform(row.seed, position)]))


def forget(state: DecodeState, rows: Sequence[Row]) -> DecodeState:
    """Return the state without the rejected tokens. The last token of a row, which may not be the
    proposed one, is not in the state yet."""
    lengths = zip(state.lengths, rows, strict=True)
    return state.rewind([min(length, len(row.seen) - 1) for length, row in lengths])


@torch.inference_mode()
def read_on(
    model: Stepper, state: DecodeState, texts: Sequence[Sequence[int]]
) -> tuple[Float[Tensor, "N T V"], DecodeState]:
    """Feed the rest of each text, at least its last token, to the model; return logits and state.

    texts: all tokens of each row; the state holds the first `state.lengths` of them. Logits are
    right-aligned: those after the last token of each text are at -1. Rows with fewer new tokens
    feed some of their tokens again, so that no row is padded; only a text that is shorter than the
    step is padded, and its logits are shifted.
    """
    starts = [min(n, len(t) - 1) for n, t in zip(state.lengths, texts, strict=True)]
    width = max(len(text) - start for text, start in zip(texts, starts, strict=True))
    starts = [max(0, len(text) - width) for text in texts]
    state = state.rewind(starts)
    tokens, _ = padded([text[start:] for text, start in zip(texts, starts, strict=True)], 0)
    logits, state = model.step(upload(tokens, next(model.parameters()).device), state)
    short = [width - len(text) + start for text, start in zip(texts, starts, strict=True)]
    if any(short):
        shifted = [row.roll(n, 0) for row, n in zip(logits, short, strict=True)]
        logits = torch.stack(shifted)
    return logits, state.rewind([len(text) for text in texts])


@dataclass(frozen=True)
class ModelDraft:
    """Proposals sampled from a smaller model with the same vocabulary, with the same rules."""

    model: LanguageStepper
    count: int = 4

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"{self.count=} must be at least 1")

    def start(self, rows: Sequence[Row], rules: Sequence[Rule]) -> Drafting:
        return _ModelDrafting(self.model, rows, rules)


class _ModelDrafting:
    """Holds the decoder state of the smaller model; proposes nothing at the end of its context."""

    def __init__(self, model: LanguageStepper, rows: Sequence[Row], rules: Sequence[Rule]) -> None:
        self.model, self.rules = model, rules
        self.state: DecodeState = model.start(
            torch.zeros(len(rows), 0, dtype=torch.long, device=next(model.parameters()).device)
        )

    def keep(self, rows: Sequence[int]) -> None:
        self.state = self.state.reorder(rows)

    @torch.inference_mode()
    def propose(self, rows: Sequence[Row], most: Sequence[int]) -> list[Proposal]:
        proposals = [Proposal() for _ in rows]
        texts = [row.seen for row in rows]
        self.state = forget(self.state, rows)
        room = self.model.max_length
        for step in range(max(most)):
            fits = [room is None or len(text) <= room for text in texts]
            active = [
                n for n, m in enumerate(most) if fits[n] and len(proposals[n].tokens) == step < m
            ]
            if not active:
                break
            tops = [text if fit else text[:room] for text, fit in zip(texts, fits, strict=True)]
            logits, self.state = read_on(self.model, self.state, tops)
            self._extend(
                [rows[n] for n in active], [proposals[n] for n in active], logits[active, -1]
            )
            texts = [[*row.seen, *p.tokens] for row, p in zip(rows, proposals, strict=True)]
        return proposals

    def _extend(
        self, rows: Sequence[Row], proposals: Sequence[Proposal], logits: Float[Tensor, "N V"]
    ) -> None:
        """Extend each proposal by one token, unless the rules forbid all."""
        written = [
            PartialOutput([*row.tokens, *proposal.tokens], row.prompt, row.item)
            for row, proposal in zip(rows, proposals, strict=True)
        ]
        scores = logits.float()
        for rule in self.rules:
            scores = rule(scores, written)
        for n, (row, proposal) in enumerate(zip(rows, proposals, strict=True)):
            if bool(scores[n].amax() == -torch.inf):
                continue
            q = scores[n].double().softmax(-1)
            position = len(written[n].tokens)
            proposal.tokens.append(int(draw(q[None], [uniform(row.seed, position, "draft")])))
            proposal.weights.append(q)


@dataclass(frozen=True)
class PromptLookup:
    """Prompt lookup decoding: proposes the tokens that followed the last `ngram` tokens earlier in
    the text. Saxena 2023.

    The last earlier occurrence is used; if there is none, a shorter n-gram is searched for. With
    the same seed, the output is the same as without this draft.
    """

    ngram: int = 3
    count: int = 8

    def __post_init__(self) -> None:
        if self.ngram < 1 or self.count < 1:
            raise ValueError(f"{self.ngram=} and {self.count=} must be at least 1")

    def start(self, rows: Sequence[Row], rules: Sequence[Rule]) -> Drafting:
        return self

    def keep(self, rows: Sequence[int]) -> None:
        """Do nothing: this draft has no state."""

    def propose(self, rows: Sequence[Row], most: Sequence[int]) -> list[Proposal]:
        return [
            Proposal(self._continued(row.seen)[: max(0, m)])
            for row, m in zip(rows, most, strict=True)
        ]

    def _continued(self, tokens: list[int]) -> list[int]:
        for size in range(min(self.ngram, len(tokens) - 1), 0, -1):
            last = tokens[-size:]
            for begin in range(len(tokens) - size - 1, -1, -1):
                if tokens[begin : begin + size] == last:
                    return tokens[begin + size : begin + size + self.count]
        return []
