"""Beam search: keep the W most probable prefixes of each output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product, takewhile
from typing import Any, NamedTuple

import torch

from headway.base.shapes import Bool, Float, Tensor
from headway.base.transfers import read, upload
from headway.decoding.continuations import best_continuations, united, wanted_continuations
from headway.decoding.coverage import Coverage, covered
from headway.decoding.input_search import Candidate, InputSearch, Observer, best_of_groups
from headway.decoding.phrases import Banks, Phrases
from headway.decoding.rule import PartialOutput, depend_on_outputs, not_finite
from headway.decoding.rules import counted_tokens
from headway.decoding.search import EarlyStopping, Hypothesis, Limits, beam_log_probabilities


@dataclass(frozen=True, kw_only=True)
class _Beam:
    """Settings of a search. width and num_best: per group. coverage: None without its penalty."""

    width: int
    num_best: int = 1
    alpha: float
    early_stopping: EarlyStopping = False
    groups: int = 1
    diversity: float = 0.0
    observe: Observer | None = None
    phrases: Phrases | None = None
    coverage: Coverage | None = None


class _LivePrefix(NamedTuple):
    """A prefix that is continued: its log-probability, the row that it extends, its last token."""

    total: float
    row: int
    token: int


def beam_search(
    model: Any,
    inputs: tuple[Any, ...],
    limits: Limits,
    *,
    width: int,
    alpha: float = 1.0,
    early_stopping: EarlyStopping = False,
    num_best: int = 1,
    groups: int = 1,
    diversity: float = 0.0,
    coverage: float = 0.0,
    observe: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Return the `num_best` best hypotheses of each input, best first. `model` is a Stepper.

    Each step extends every live prefix by every token. Of the 2 W most probable continuations (W
    more for each further </s>), those that end are finished, and the first W others stay live. The
    search for an input
    ends when no live prefix can enter its best `num_best`. This is exact: if W is as large as the
    number of prefixes, beam search is exhaustive search. Wu et al. 2016, section 7; for the score
    see `length_penalty`.

    early_stopping: end the search for an input also when W outputs are finished and no live prefix,
    at its present length, has a better score than the worst of them: transformers' default
    (`InputSearch.stops_early`). This takes fewer steps; a longer output with a better score may be
    missed, unless alpha is 0. With `Limits.as_transformers` it has the values of their argument.
    groups: number of groups of diverse beam search (Vijayakumar et al. 2018, section 4, with
    Hamming diversity). Each group keeps W / groups prefixes, one group after the other. If n
    prefixes of earlier groups chose a token at this position, `diversity` * n is subtracted from
    its log-probability for the choice, but not from the score. The result lists the best of each
    group by score, then the second best; duplicates are removed, so there may be fewer than
    `num_best`. coverage: weight of the coverage penalty, which is added to the score (`Coverage`).
    observe: called with every candidate. With `Phrases`, every output has them.
    """
    _check_widths(width, num_best, groups)
    size = width // groups
    with covered(model, coverage) as penalty:
        beam = _Beam(
            width=size,
            num_best=min(num_best, size),
            alpha=alpha,
            early_stopping=early_stopping,
            groups=groups,
            diversity=diversity,
            observe=observe,
            phrases=_phrases(limits),
            coverage=penalty,
        )
        searches = _searches(limits, groups)
        for _ in _steps(model, inputs, limits, beam, searches):
            pass
    return best_of_groups(searches, len(limits.max_lengths), num_best)


def stream_beam(
    model: Any,
    inputs: tuple[Any, ...],
    limits: Limits,
    *,
    width: int,
    alpha: float = 1.0,
    early_stopping: EarlyStopping = False,
    coverage: float = 0.0,
) -> Iterator[list[int]]:
    """Yield the tokens of the best hypothesis of one input, as soon as they are certain.

    A token is certain if all prefixes that can still become the best hypothesis begin with it. The
    lists, joined, are the tokens of `beam_search`. With early stopping, too: whatever can win then
    can also win in the exact search, which goes on.
    """
    _check_widths(width, 1, 1)
    (search,), shown = _searches(limits, 1), 0
    with covered(model, coverage) as penalty:
        beam = _Beam(
            width=width,
            alpha=alpha,
            early_stopping=early_stopping,
            phrases=_phrases(limits),
            coverage=penalty,
        )
        for prefixes, totals in _steps(model, inputs, limits, beam, [search]):
            certain = _certain(search, prefixes, totals, limits, alpha)
            if len(certain) > shown:
                yield certain[shown:]
                shown = len(certain)
    ((best,),) = best_of_groups([search], 1, 1)
    if len(best.tokens) > shown:
        yield list(best.tokens[shown:])


def _certain(
    search: InputSearch,
    prefixes: Sequence[list[int]],
    totals: Sequence[float],
    limits: Limits,
    alpha: float,
) -> list[int]:
    """Return what the best finished output and all prefixes that can beat it have in common."""
    longest = limits.penalty(search.max_length + 1, alpha)
    least = search.pool[0].score if search.pool else -torch.inf
    possible = [p for p, total in zip(prefixes, totals, strict=True) if total / longest > least]
    possible += [list(best.tokens) for best in search.pool[:1]]
    common = takewhile(lambda column: len(set(column)) == 1, zip(*possible, strict=False))
    return [column[0] for column in common]


def _searches(limits: Limits, groups: int) -> list[InputSearch]:
    pairs = product(enumerate(limits.max_lengths), range(groups))
    return [InputSearch(item, length, group) for (item, length), group in pairs]


@torch.inference_mode()
def _steps(
    model: Any,
    inputs: tuple[Any, ...],
    limits: Limits,
    beam: _Beam,
    searches: Sequence[InputSearch],
) -> Iterator[tuple[list[list[int]], list[float]]]:
    """Search until all `searches` are settled. Yield, after each step, the live prefixes and their
    log-probabilities."""
    rules = [rule for rule in limits.rules if rule is not beam.phrases]
    device = next(model.parameters()).device
    live = list(searches)
    state = model.start(*inputs)
    if beam.groups > 1:
        state = state.reorder([search.item for search in live])
    scores = torch.zeros(len(live), 1, device=device)  # B W: log P of each prefix
    tokens = upload(torch.tensor(limits.first_tokens)[[s.item for s in live]], device)  # BW
    prefixes: list[list[int]] = [[] for _ in live]  # BW; what was generated, without the first
    while live:
        logits, state = model.step(tokens[:, None], state)
        written = _written(live, prefixes, limits)
        log_p, is_finite = beam_log_probabilities(logits, rules, written, limits)
        if beam.phrases is not None:  # after the softmax: the tokens that may follow keep their P
            log_p = beam.phrases(log_p, written)
        log_p = _end_where_full(log_p, live, limits, len(prefixes[0]))
        continued = _choose(live, (log_p, is_finite), scores, prefixes, limits, beam)
        live = [search for search, best in zip(live, continued, strict=True) if best]
        if not live:
            return
        totals = [[prefix.total for prefix in best] for best in continued if best]
        scores = upload(torch.tensor(totals), device)
        chosen = [prefix for best in continued for prefix in best]
        rows = [prefix.row for prefix in chosen]
        tokens = upload(torch.tensor([prefix.token for prefix in chosen]), device)
        prefixes = [[*prefixes[prefix.row], prefix.token] for prefix in chosen]
        if rows != list(range(logits.shape[0])):
            state = state.reorder(rows)
            if beam.coverage is not None:
                beam.coverage.reorder(rows)
        yield prefixes, [total for of_search in totals for total in of_search]


def _check_widths(width: int, num_best: int, groups: int) -> None:
    if width < 1 or not 1 <= num_best <= width:
        raise ValueError(f"{num_best=} must be between 1 and {width=}")
    if groups < 1 or width % groups:
        raise ValueError(f"{width=} must be a multiple of {groups=}")


def _phrases(limits: Limits) -> Phrases | None:
    """Return the rule of the phrases, if any."""
    phrases = next((rule for rule in limits.rules if isinstance(rule, Phrases)), None)
    if phrases is not None and limits.cut:
        raise ValueError("outputs that must contain phrases cannot be cut at their maximum length")
    return phrases


def _written(
    live: list[InputSearch], prefixes: Sequence[list[int]], limits: Limits
) -> list[PartialOutput]:
    """Return each prefix for the rules; an empty list if no rule depends on it."""
    if not depend_on_outputs(limits.rules):
        return []
    per_sentence = len(prefixes) // len(live)
    items = [search.item for search in live for _ in range(per_sentence)]
    return [PartialOutput(t, limits.prompt(i), i) for t, i in zip(prefixes, items, strict=True)]


def _end_where_full(
    log_p: Float[Tensor, "N V"], live: list[InputSearch], limits: Limits, written: int
) -> Float[Tensor, "N V"]:
    """Force a prefix of maximum length to end; if outputs are cut, at no cost."""
    full = [i for i, search in enumerate(live) if written >= search.max_length]
    if full:
        per_sentence = log_p.view(len(live), -1, log_p.shape[-1])
        at = upload(torch.tensor(full), log_p.device)
        endings = {end: 0.0 if limits.cut else per_sentence[at, :, end] for end in limits.ends}
        per_sentence[at] = -torch.inf
        for end, log_p_of_end in endings.items():
            per_sentence[at, :, end] = log_p_of_end
    return log_p


def _choose(
    live: list[InputSearch],
    next_tokens: tuple[Float[Tensor, "N V"], Bool[Tensor, ""]],
    scores: Float[Tensor, "B W"],
    prefixes: Sequence[list[int]],
    limits: Limits,
    beam: _Beam,
) -> list[list[_LivePrefix]]:
    """Finish the outputs that end. Return the W prefixes that each search continues; an empty list
    for a search that is settled.

    next_tokens: see `beam_log_probabilities`. Raises DataError if the logits were not finite.
    """
    log_p, is_finite = next_tokens
    by_sentence = log_p.view(*scores.shape, -1)
    continued: list[list[_LivePrefix]] = [[] for _ in live]
    taken: dict[int, Counter[int]] = {search.item: Counter() for search in live}
    for group in range(beam.groups):
        indices = [i for i, search in enumerate(live) if search.group == group]
        if not indices:
            continue
        selected = by_sentence, scores
        if len(indices) < len(live):
            at = upload(torch.tensor(indices), scores.device)
            selected = by_sentence[at], scores[at]
        counts = [taken[live[i].item] for i in indices]
        count = (1 + len(limits.ends)) * beam.width
        candidates = best_continuations(*selected, count, _penalty(counts, log_p, beam))
        if beam.phrases is not None:
            wanted = [
                beam.phrases.wanted(live[i].item, prefixes[i * scores.shape[1] + w])
                for i, w in product(indices, range(scores.shape[1]))
            ]
            candidates = united(candidates, wanted_continuations(*selected, wanted))
        *lists, all_finite = read(*candidates, is_finite)
        if not all_finite:
            raise not_finite()
        for i, *best in zip(indices, *lists, strict=True):
            continued[i] = _finish_and_keep(
                live[i], i * scores.shape[1], best, prefixes, limits, beam
            )
            if beam.diversity:
                taken[live[i].item].update(
                    prefix.token for prefix in continued[i] if prefix.total > -torch.inf
                )
    return continued


def _penalty(
    counts: list[Counter[int]], log_p: Float[Tensor, "N V"], beam: _Beam
) -> Float[Tensor, "B V"] | None:
    """Return the penalty for the choices of earlier groups; None if there is none."""
    if not beam.diversity or not any(counts):
        return None
    return beam.diversity * counted_tokens(counts, log_p)


def _finish_and_keep(
    search: InputSearch,
    first: int,
    candidates: list[list[Any]],
    prefixes: Sequence[list[int]],
    limits: Limits,
    beam: _Beam,
) -> list[_LivePrefix]:
    """Finish the outputs that end, keep W other prefixes. first: the first row of the search."""
    # dropped prefixes are -inf; with phrases, one may be named twice
    distinct = {
        (parent, token): total
        for total, parent, token in zip(*candidates, strict=True)
        if total > -torch.inf
    }
    continued = _continued(search, first, distinct, prefixes, limits, beam)
    kept = {prefix[1:] for prefix in continued} if beam.observe is not None else set()
    finishing = list(distinct)[: beam.width if limits.as_transformers else None]
    for (parent, token), total in distinct.items():
        ends = token in limits.ends
        if beam.observe is not None:
            before = tuple(prefixes[first + parent])
            stays = ends or (first + parent, token) in kept
            beam.observe(Candidate(search.item, before, token, total, ends, stays))
        if ends and (parent, token) in finishing:
            written = tuple(prefixes[first + parent])
            is_cut = limits.cut and len(written) == search.max_length
            _finish(
                search, _LivePrefix(total, first + parent, token), written, is_cut, limits, beam
            )
    length = len(prefixes[first]) + 1
    if limits.cut and length == search.max_length:
        # not in a further step: it would read a token for which the model may have no position
        for prefix in continued:
            if limits.as_transformers and (prefix.row - first, prefix.token) not in finishing:
                continue
            written = (*prefixes[prefix.row], prefix.token)
            _finish(search, prefix, written, True, limits, beam)
        return []
    best_live = max((prefix.total for prefix in continued), default=-torch.inf)
    if _ends(search, best_live, length, limits, beam):
        return []
    # Fewer than W prefixes may exist (a tiny vocabulary): the remaining rows are dead.
    dead = _LivePrefix(-torch.inf, first, limits.ends[0])
    return continued + [dead] * (beam.width - len(continued))


def _finish(
    search: InputSearch,
    prefix: _LivePrefix,
    written: tuple[int, ...],
    is_cut: bool,
    limits: Limits,
    beam: _Beam,
) -> None:
    """Add a finished output. prefix: with its log-probability and the row that it comes from."""
    score = prefix.total / limits.penalty(len(written) + (not is_cut), beam.alpha)
    if beam.coverage is not None:
        score += beam.coverage.penalty(prefix.row)
    search.add(Hypothesis(written, prefix.total, score, not is_cut), beam.width)


def _ends(search: InputSearch, best_live: float, length: int, limits: Limits, beam: _Beam) -> bool:
    """Return whether a search ends. length: the present number of tokens of its live prefixes."""
    if limits.as_transformers:
        is_bounded = beam.early_stopping == "never" and beam.alpha > 0
        penalty = limits.penalty(search.max_length if is_bounded else length, beam.alpha)
        at_first = beam.early_stopping is True
        return search.ends_as_transformers(best_live, beam.width, penalty, at_first=at_first)
    longest = limits.penalty(search.max_length + 1, beam.alpha)
    if search.is_settled(best_live, beam.num_best, longest):
        return True
    if not beam.early_stopping:
        return False
    return search.stops_early(best_live, beam.width, limits.penalty(length, beam.alpha))


def _continued(
    search: InputSearch,
    first: int,
    candidates: Mapping[tuple[int, int], float],
    prefixes: Sequence[list[int]],
    limits: Limits,
    beam: _Beam,
) -> list[_LivePrefix]:
    """Return the W prefixes that stay live: the best ones, or the best ones of each bank.

    candidates: parent and token -> log-probability, best first.
    """
    live = (
        _LivePrefix(total, first + parent, token)
        for (parent, token), total in candidates.items()
        if token not in limits.ends
    )
    if beam.phrases is None:
        return list(islice(live, beam.width))
    item, phrases = search.item, beam.phrases
    ranked = [
        (phrases.progress(item, [*prefixes[prefix.row], prefix.token]), prefix) for prefix in live
    ]
    return Banks(phrases.banks(item), beam.width).keep(ranked)
