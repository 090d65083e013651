"""Beam search for many inputs at once: the fast twin of `beam_search`, with groups, coverage,
phrases, and the search of transformers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product, takewhile
from typing import NamedTuple

import torch

from headway.base.errors import UsageError
from headway.base.shapes import Bool, Float, Tensor
from headway.base.transfers import read, upload
from headway.decoding.continuations import best_continuations, united, wanted_continuations
from headway.decoding.coverage import Coverage, covered
from headway.decoding.input_search import Candidate, InputSearch, Observer, best_of_groups
from headway.decoding.phrases import Banks, Phrases
from headway.decoding.rule import PartialOutput, depend_on_outputs, not_finite
from headway.decoding.rules import counted_tokens
from headway.decoding.search import (
    BeamSettings,
    Hypothesis,
    Inputs,
    Limits,
    Search,
    beam_log_probabilities,
    steps,
)
from headway.models.contracts import Stepper


@dataclass(frozen=True, kw_only=True)
class _Beam:
    """What stays the same during a search. width, num_best: per group. coverage: None without its
    penalty."""

    limits: Limits
    settings: BeamSettings
    width: int
    num_best: int
    observe: Observer | None
    phrases: Phrases | None
    coverage: Coverage | None


class _LivePrefix(NamedTuple):
    """A prefix that is continued: its log-probability, the row that it extends, its last token."""

    total: float
    row: int
    token: int


@torch.inference_mode()
def fast_beam_search(
    model: Stepper,
    inputs: Inputs,
    limits: Limits,
    settings: BeamSettings,
    *,
    num_best: int = 1,
    observe: Observer | None = None,
    certain: Callable[[list[int]], None] | None = None,
) -> Search[list[list[Hypothesis]]]:
    """Return the `num_best` best hypotheses of each input, best first.

    See `beam_search`. It is exact: if W is as large as the number of prefixes, beam search is
    exhaustive search. The result of an input does not depend on the other inputs.

    early_stopping: end the search for an input also when W outputs are finished and no live prefix,
    at its present length, has a better score than the worst of them: transformers' default
    (`InputSearch.stops_early`). This takes fewer steps; a longer output with a better score may be
    missed, unless the exponent of the length penalty is 0. beam_groups: number of groups of diverse
    beam search (Vijayakumar et al. 2018, section 4, with Hamming diversity). Each group keeps
    W / groups prefixes, one group after the other. If n prefixes of earlier groups chose a token at
    this position, `diversity` * n is subtracted from its log-probability for the choice, but not
    from the score. The result lists the best of each group by score, then the second best;
    duplicates are removed, so there may be fewer than `num_best`. coverage: weight of the coverage
    penalty, which is added to the score (`Coverage`); the search must be driven with this model,
    and no other search in the same steps. With `Phrases` among the rules, every output has them.

    observe: called with every candidate. certain: called after each step with the tokens with which
    all prefixes begin that can still become the best hypothesis of the only input, in one group.
    With early stopping, too, they are a beginning of the result: whatever can win then can also win
    in the exact search, which continues.
    """
    settings.check(num_best)
    searches = [
        InputSearch(item, length, group)
        for (item, length), group in product(
            enumerate(limits.max_lengths), range(settings.beam_groups)
        )
    ]
    width = settings.beam // settings.beam_groups
    with covered(model, settings.coverage) as coverage:
        beam = _Beam(
            limits=limits,
            settings=settings,
            width=width,
            num_best=min(num_best, width),
            observe=observe,
            phrases=_phrases(limits),
            coverage=coverage,
        )
        yield from _search(model, inputs, beam, searches, certain)
    outputs = best_of_groups(searches, len(limits.max_lengths), num_best)
    if certain is not None:
        certain(list(outputs[0][0].tokens))
    return outputs


def _search(
    model: Stepper,
    inputs: Inputs,
    beam: _Beam,
    searches: Sequence[InputSearch],
    certain: Callable[[list[int]], None] | None,
) -> Search[None]:
    """Search until all `searches` are settled."""
    limits, settings = beam.limits, beam.settings
    rules = [rule for rule in limits.rules if rule is not beam.phrases]
    live, state = list(searches), model.start(*inputs)
    device = next(model.parameters()).device
    if settings.beam_groups > 1:
        state = state.reorder([search.item for search in live])
    scores = torch.zeros(len(live), 1, device=device)  # B W: log P of each prefix
    tokens = upload(torch.tensor(limits.first_tokens)[[s.item for s in live]], device)  # BW
    prefixes: list[list[int]] = [[] for _ in live]  # BW; what was generated, without the first
    while live:
        logits, state = yield tokens[:, None], state
        written = _written(live, prefixes, limits)
        log_p, is_finite = beam_log_probabilities(
            logits,
            rules,
            written,
            as_transformers=settings.as_transformers,
            renormalise=limits.renormalise,
        )
        if beam.phrases is not None:  # after the softmax: the tokens that may follow keep their P
            log_p = beam.phrases(log_p, written)
        log_p = _end_where_full(log_p, live, limits, len(prefixes[0]))
        continued = _choose(live, (log_p, is_finite), scores, prefixes, beam)
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
        if certain is not None:
            certain(_certain(searches[0], prefixes, chosen, settings))


def stream_beam(
    model: Stepper, inputs: Inputs, limits: Limits, settings: BeamSettings
) -> Iterator[list[int]]:
    """Yield the tokens of the best hypothesis of one input, as soon as they are certain.

    The lists, joined, are the tokens of `fast_beam_search`. Raises UsageError for several groups,
    whose outputs are not ranked until the end.
    """
    if settings.beam_groups > 1:
        raise UsageError(
            f"streaming shows one output, not beam_groups={settings.beam_groups}",
            hint="set beam_groups=1, or do not stream",
        )
    sure: list[int] = []

    def note(tokens: list[int]) -> None:
        sure.extend(tokens[len(sure) :])

    shown = 0
    for _ in steps(model, fast_beam_search(model, inputs, limits, settings, certain=note)):
        if len(sure) > shown:
            yield sure[shown:]
            shown = len(sure)
    if len(sure) > shown:
        yield sure[shown:]


def _certain(
    search: InputSearch,
    prefixes: Sequence[list[int]],
    live: Sequence[_LivePrefix],
    settings: BeamSettings,
) -> list[int]:
    """Return what the best finished output and all prefixes that can beat it have in common."""
    longest = settings.penalty(search.max_length + 1)
    least = search.pool[0].score if search.pool else -torch.inf
    possible = [p for p, of in zip(prefixes, live, strict=True) if of.total / longest > least]
    possible += [list(best.tokens) for best in search.pool[:1]]
    common = takewhile(lambda column: len(set(column)) == 1, zip(*possible, strict=False))
    return [column[0] for column in common]


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
    for group in range(beam.settings.beam_groups):
        indices = [i for i, search in enumerate(live) if search.group == group]
        if not indices:
            continue
        selected = by_sentence, scores
        if len(indices) < len(live):
            at = upload(torch.tensor(indices), scores.device)
            selected = by_sentence[at], scores[at]
        counts = [taken[live[i].item] for i in indices]
        count = (1 + len(beam.limits.ends)) * beam.width
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
        for i, totals, parents, tokens in zip(indices, *lists, strict=True):
            best = totals, parents, tokens
            continued[i] = _finish_and_keep(live[i], i * scores.shape[1], best, prefixes, beam)
            if beam.settings.beam_groups > 1:
                taken[live[i].item].update(
                    prefix.token for prefix in continued[i] if prefix.total > -torch.inf
                )
    return continued


def _penalty(
    counts: list[Counter[int]], log_p: Float[Tensor, "N V"], beam: _Beam
) -> Float[Tensor, "B V"] | None:
    """Return the penalty for the choices of earlier groups; None if there is none."""
    if not beam.settings.diversity or not any(counts):
        return None
    return beam.settings.diversity * counted_tokens(counts, log_p)


def _finish_and_keep(
    search: InputSearch,
    first: int,
    candidates: tuple[list[float], list[int], list[int]],
    prefixes: Sequence[list[int]],
    beam: _Beam,
) -> list[_LivePrefix]:
    """Finish the outputs that end, keep W other prefixes. first: the first row of the search."""
    limits, as_transformers = beam.limits, beam.settings.as_transformers
    # dropped prefixes are -inf; with phrases, one may be named twice
    distinct = {
        (parent, token): total
        for total, parent, token in zip(*candidates, strict=True)
        if total > -torch.inf
    }
    continued = _continued(search, first, distinct, prefixes, beam)
    kept = {prefix[1:] for prefix in continued} if beam.observe is not None else set()
    finishing = list(distinct)[: beam.width if as_transformers else None]
    for (parent, token), total in distinct.items():
        ends = token in limits.ends
        if beam.observe is not None:
            before = tuple(prefixes[first + parent])
            stays = ends or (first + parent, token) in kept
            beam.observe(Candidate(search.item, before, token, total, ends, stays))
        if ends and (parent, token) in finishing:
            written = tuple(prefixes[first + parent])
            is_cut = limits.cut and len(written) == search.max_length
            _finish(search, _LivePrefix(total, first + parent, token), written, is_cut, beam)
    length = len(prefixes[first]) + 1
    if limits.cut and length == search.max_length:
        # not in a further step: it would read a token for which the model may have no position
        for prefix in continued:
            if as_transformers and (prefix.row - first, prefix.token) not in finishing:
                continue
            written = (*prefixes[prefix.row], prefix.token)
            _finish(search, prefix, written, True, beam)
        return []
    best_live = max((prefix.total for prefix in continued), default=-torch.inf)
    if _ends(search, best_live, length, beam):
        return []
    # Fewer than W prefixes may exist (a tiny vocabulary): the remaining rows are dead.
    dead = _LivePrefix(-torch.inf, first, limits.ends[0])
    return continued + [dead] * (beam.width - len(continued))


def _finish(
    search: InputSearch, prefix: _LivePrefix, written: tuple[int, ...], is_cut: bool, beam: _Beam
) -> None:
    """Add a finished output. prefix: with its log-probability and the row that it comes from."""
    score = prefix.total / beam.settings.penalty(len(written) + (not is_cut))
    if beam.coverage is not None:
        score += beam.coverage.penalty(prefix.row)
    search.add(Hypothesis(written, prefix.total, score, not is_cut), beam.width)


def _ends(search: InputSearch, best_live: float, length: int, beam: _Beam) -> bool:
    """Return whether a search ends. length: the present number of tokens of its live prefixes."""
    settings, is_early = beam.settings, beam.settings.early_stopping
    if settings.as_transformers:
        is_bounded = beam.limits.never_early and not is_early and settings.length_penalty > 0
        penalty = settings.penalty(search.max_length if is_bounded else length)
        return search.ends_as_transformers(best_live, beam.width, penalty, at_first=is_early)
    if search.is_settled(best_live, beam.num_best, settings.penalty(search.max_length + 1)):
        return True
    return is_early and search.stops_early(best_live, beam.width, settings.penalty(length))


def _continued(
    search: InputSearch,
    first: int,
    candidates: Mapping[tuple[int, int], float],
    prefixes: Sequence[list[int]],
    beam: _Beam,
) -> list[_LivePrefix]:
    """Return the W prefixes that stay live: the best ones, or the best ones of each bank.

    candidates: parent and token -> log-probability, best first.
    """
    live = (
        _LivePrefix(total, first + parent, token)
        for (parent, token), total in candidates.items()
        if token not in beam.limits.ends
    )
    if beam.phrases is None:
        return list(islice(live, beam.width))
    item, phrases = search.item, beam.phrases
    ranked = [
        (phrases.progress(item, [*prefixes[prefix.row], prefix.token]), prefix) for prefix in live
    ]
    return Banks(phrases.banks(item), beam.width).keep(ranked)
