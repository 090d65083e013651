"""Beam search: keep the W most likely beginnings of each output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from headway.decoding.rules import Writing
from headway.decoding.search import Hypothesis, Limits, beam_log_probabilities, length_penalty
from headway.errors import UsageError
from headway.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class Candidate:
    """A continuation that was weighed: token after the beginning `before` of input `item`.

    log_probability: of before and token together. kept: it went on, or it ended among those weighed
    (`ends`); the others were dropped.
    """

    item: int
    before: tuple[int, ...]
    token: int
    log_probability: float
    ends: bool
    kept: bool


Observer = Callable[[Candidate], None]
"""Hears of each candidate when it was weighed, step by step and the best first."""


@dataclass(frozen=True)
class _Beam:
    """How to search. width and num_best: of each group."""

    width: int
    num_best: int
    alpha: float
    groups: int
    diversity: float
    observe: Observer | None


@dataclass(frozen=True)
class _Going:
    """A beginning that goes on: its log P, the row that it lengthens, its last token."""

    total: float
    row: int
    token: int


@dataclass
class _Sentence:
    """One input while it is being written by one group."""

    item: int
    max_length: int
    group: int = 0
    pool: list[Hypothesis] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis, width: int) -> None:
        self.pool.append(hypothesis)
        self.pool.sort(key=lambda h: -h.score)
        del self.pool[width:]

    def is_settled(self, best_live: float, num_best: int, alpha: float) -> bool:
        """No beginning still alive can enter the best `num_best`.

        A live sum only falls, and the largest penalty it can still be divided by is that of the
        longest output, so best_live / penalty(longest) bounds every score to come.
        """
        if len(self.pool) < num_best:
            return best_live == -torch.inf
        bound = best_live / length_penalty(self.max_length + 1, alpha)
        return bound <= self.pool[num_best - 1].score


@torch.inference_mode()
def beam_search(
    model: Any,
    inputs: tuple[Any, ...],
    limits: Limits,
    *,
    width: int,
    alpha: float = 1.0,
    num_best: int = 1,
    groups: int = 1,
    diversity: float = 0.0,
    observe: Observer | None = None,
) -> list[list[Hypothesis]]:
    """The `num_best` best hypotheses of each input, best first. `model` is a Stepper.

    Each step extends every live beginning by every token and keeps, of the 2 W likeliest, those
    that end (</s>) as finished and the first W others as live. A sentence leaves once nothing
    alive can enter its best `num_best`, which is exact: with W as large as the number of
    beginnings this is exhaustive search. Wu et al. 2016, section 7; score as `length_penalty`.

    groups: diverse beam search. Each group keeps W / groups beginnings, one group after the other;
    a token that n beginnings of earlier groups have chosen in the same place counts `diversity` n
    less in choosing, not in the score. The best of each group come first, by score, then the second
    best; what several groups found comes once, so there may be fewer than `num_best`. Vijayakumar
    et al. 2018, section 4, with Hamming diversity. observe: hears of every candidate.
    """
    if width < 1 or not 1 <= num_best <= width:
        raise ValueError(f"{num_best=} must be between 1 and {width=}")
    if groups < 1 or width % groups:
        raise ValueError(f"{width=} must be a multiple of {groups=}")
    size = width // groups
    beam = _Beam(size, min(num_best, size), alpha, groups, diversity, observe)
    device = next(model.parameters()).device
    sentences = [
        _Sentence(i, length, g)
        for i, length in enumerate(limits.max_lengths)
        for g in range(groups)
    ]
    live = list(sentences)
    state = model.start(*inputs)
    if groups > 1:
        state = state.reorder([sentence.item for sentence in live])
    scores = torch.zeros(len(live), 1, device=device)  # B W: log P of each beginning
    first = limits.first_tokens
    prefixes = torch.tensor([first[s.item] for s in live], device=device)[:, None]  # BW t
    while live:
        logits, state = model.step(prefixes[:, -1:], state)
        log_p = beam_log_probabilities(logits, limits.rules, _written(live, prefixes, limits))
        log_p = _end_where_full(log_p, live, limits, prefixes.shape[1] - 1)
        going = _choose(live, log_p, scores, prefixes, limits, beam)
        live = [sentence for sentence, best in zip(live, going, strict=True) if best]
        if not live:
            break
        chosen = [one for best in going for one in best]
        rows = [one.row for one in chosen]
        scores = torch.tensor([one.total for one in chosen], device=device).view(len(live), -1)
        tokens = torch.tensor([one.token for one in chosen], device=device)
        prefixes = torch.cat((prefixes[torch.tensor(rows, device=device)], tokens[:, None]), dim=1)
        if rows != list(range(logits.shape[0])):
            state = state.reorder(rows)
    return _best_of_groups(sentences, len(limits.max_lengths), num_best)


def _written(live: list[_Sentence], prefixes: Int[Tensor, "N t"], limits: Limits) -> list[Writing]:
    """Each beginning, for the rules; nothing where nobody asks."""
    if not limits.rules:
        return []
    per_sentence = prefixes.shape[0] // len(live)
    items = [sentence.item for sentence in live for _ in range(per_sentence)]
    tokens = prefixes[:, 1:].tolist()
    return [Writing(t, limits.prompt(i), i) for t, i in zip(tokens, items, strict=True)]


def _end_where_full(
    log_p: Float[Tensor, "N V"], live: list[_Sentence], limits: Limits, written: int
) -> Float[Tensor, "N V"]:
    """A beginning of the longest allowed length can only end; to be cut costs nothing."""
    full = [i for i, sentence in enumerate(live) if written >= sentence.max_length]
    if full:
        per_sentence = log_p.view(len(live), -1, log_p.shape[-1])
        endings = 0.0 if limits.cut else per_sentence[full, :, limits.eos]
        per_sentence[full] = -torch.inf
        per_sentence[full, :, limits.eos] = endings
    return log_p


def _choose(
    live: list[_Sentence],
    log_p: Float[Tensor, "N V"],
    scores: Float[Tensor, "B W"],
    prefixes: Int[Tensor, "N t"],
    limits: Limits,
    beam: _Beam,
) -> list[list[_Going]]:
    """Finish what ends; for each sentence the W beginnings that go on, none if it is settled."""
    by_sentence = log_p.view(*scores.shape, -1)
    going: list[list[_Going]] = [[] for _ in live]
    taken: dict[int, Counter[int]] = {sentence.item: Counter() for sentence in live}
    for group in range(beam.groups):
        places = [i for i, sentence in enumerate(live) if sentence.group == group]
        if not places:
            continue
        own = (
            (by_sentence, scores)
            if len(places) == len(live)
            else (
                by_sentence[places],
                scores[places],
            )
        )
        counts = [taken[live[i].item] for i in places]
        candidates = _best_continuations(*own, 2 * beam.width, _penalty(counts, log_p, beam))
        lists = [x.tolist() for x in candidates]
        for i, *found in zip(places, *lists, strict=True):
            going[i] = _sort_out(live[i], i * scores.shape[1], found, prefixes, limits, beam)
            taken[live[i].item].update(one.token for one in going[i] if one.total > -torch.inf)
    return going


def _penalty(
    counts: list[Counter[int]], log_p: Float[Tensor, "N V"], beam: _Beam
) -> Float[Tensor, "B V"] | None:
    """What the choices of earlier groups cost; None where there are none."""
    if not beam.diversity or not any(counts):
        return None
    penalty = log_p.new_zeros(len(counts), log_p.shape[-1])
    for row, times in enumerate(counts):
        penalty[row, list(times)] = penalty.new_tensor([float(n) for n in times.values()])
    return beam.diversity * penalty


def _best_continuations(
    log_p: Float[Tensor, "B W V"],
    scores: Float[Tensor, "B W"],
    count: int,
    penalty: Float[Tensor, "B V"] | None,
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Sums, parent beams and tokens of each sentence's best `count` continuations, best first.

    The best of each row first, then the best of those: exact, and a CPU sorts W short lists
    faster than one long one. `penalty` counts in choosing alone.
    """
    ranked = log_p if penalty is None else log_p - penalty[:, None]
    per_row = ranked.topk(min(count, log_p.shape[-1]), dim=-1)
    sums = per_row.values + scores[:, :, None]  # B W C'
    best = sums.flatten(1).topk(min(count, sums[0].numel()), dim=-1)
    tokens = per_row.indices.flatten(1).gather(1, best.indices)
    parents = torch.div(best.indices, sums.shape[2], rounding_mode="floor")
    totals = best.values if penalty is None else best.values + penalty.gather(1, tokens)
    return totals, parents, tokens


def _sort_out(
    sentence: _Sentence,
    first: int,
    found: list[list[Any]],
    prefixes: Int[Tensor, "N t"],
    limits: Limits,
    beam: _Beam,
) -> list[_Going]:
    """Finish what ends, keep W others. first: the first row of the sentence."""
    going: list[_Going] = []
    for total, parent, token in zip(*found, strict=True):
        if total == -torch.inf:
            break  # dead, and sorted: so is the rest
        if beam.observe is not None:
            before = tuple(prefixes[first + parent, 1:].tolist())
            ends, kept = token == limits.eos, len(going) < beam.width
            beam.observe(Candidate(sentence.item, before, token, total, ends, ends or kept))
        if token == limits.eos:
            written = tuple(prefixes[first + parent, 1:].tolist())
            cut = limits.cut and len(written) == sentence.max_length
            score = total / length_penalty(len(written) + (not cut), beam.alpha)
            sentence.add(Hypothesis(written, total, score, not cut), beam.width)
        elif len(going) < beam.width:
            going.append(_Going(total, first + parent, token))
    best_live = max((one.total for one in going), default=-torch.inf)
    if sentence.is_settled(best_live, beam.num_best, beam.alpha):
        return []
    # Fewer than W beginnings may exist (a tiny vocabulary): the places left over are dead.
    dead = _Going(-torch.inf, first, limits.eos)
    return going + [dead] * (beam.width - len(going))


def _best_of_groups(
    sentences: list[_Sentence], count: int, num_best: int
) -> list[list[Hypothesis]]:
    """The hypotheses of each input; UsageError where the rules allowed none."""
    results: list[list[Hypothesis]] = []
    for item in range(count):
        pools = [sentence.pool for sentence in sentences if sentence.item == item]
        if not any(pools):
            raise UsageError(f"no output of input {item + 1} keeps to all rules")
        distinct: dict[tuple[int, ...], Hypothesis] = {}
        for rank in range(max(map(len, pools))):
            equals = [pool[rank] for pool in pools if rank < len(pool)]
            for hypothesis in sorted(equals, key=lambda h: -h.score):
                distinct.setdefault(hypothesis.tokens, hypothesis)
        results.append(list(distinct.values())[:num_best])
    return results
