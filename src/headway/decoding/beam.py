"""Beam search, as in the lecture: keep the W most probable prefixes of the output."""

from __future__ import annotations

from typing import Any

import torch

from headway.decoding.rule import PartialOutput, ruled_logits
from headway.decoding.search import BeamSettings, Hypothesis, Limits, Search


@torch.inference_mode()
def beam_search(
    model: Any,
    inputs: tuple[Any, ...],
    limits: Limits,
    settings: BeamSettings,
    *,
    num_best: int = 1,
) -> Search[list[Hypothesis]]:
    """Return the `num_best` best hypotheses of one input, best first.

        score(y_1 ... y_n) = log P(y_1 ... y_n | x) / penalty(n)

    Each step extends every live prefix by every token. Of the 2 W most probable continuations (W
    more for each further </s>), those that end are finished, and the first W others stay live. The
    search ends when no live prefix can enter the best `num_best`: its log-probability only falls,
    and the penalty of the longest output is the largest. Wu et al. 2016, section 7.

    model: a Stepper. `fast_beam_search` does this for many inputs at once, and has what is left out
    here: groups, coverage, phrases, and the search of transformers.
    """
    width, ends, (longest,) = settings.beam, list(limits.ends), limits.max_lengths
    live: list[tuple[float, list[int]]] = [(0.0, [])]  # log-probabilities and tokens of prefixes
    finished: list[Hypothesis] = []
    tokens, state = torch.tensor([limits.first_tokens]), model.start(*inputs)
    while True:
        logits, state = yield tokens, state
        length = len(live[0][1]) + 1  # of the continuations
        written = [PartialOutput(prefix, limits.prompt(0)) for _, prefix in live]
        log_p = ruled_logits(limits.rules, logits[:, -1].float(), written).log_softmax(-1)  # W V
        if is_full := length > longest:  # only </s> has room; an output that is cut has none
            of_ends = torch.zeros(()) if limits.cut else log_p[:, ends]
            log_p = torch.full_like(log_p, -torch.inf)
            log_p[:, ends] = of_ends
        totals = torch.tensor([total for total, _ in live])[:, None] + log_p
        best = totals.flatten().topk(min((1 + len(ends)) * width, totals.numel()))
        continued: list[tuple[float, int, int]] = []  # log-probability, row of the prefix, token
        for total, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            row, token = divmod(place, log_p.shape[1])
            if token in ends and total > -torch.inf:
                is_cut = limits.cut and is_full
                score = total / settings.penalty(length - is_cut)
                finished.append(Hypothesis(tuple(live[row][1]), total, score, not is_cut))
            elif total > -torch.inf:
                continued.append((total, row, token))
        continued = continued[:width]
        live = [(total, [*live[row][1], token]) for total, row, token in continued]
        if limits.cut and length == longest:
            finished += [
                Hypothesis(tuple(prefix), total, total / settings.penalty(length), finished=False)
                for total, prefix in live
            ]
            live = []
        finished = sorted(finished, key=lambda output: -output.score)[:width]
        if not live or _is_settled(finished, live[0][0], length, longest, settings, num_best):
            return finished[:num_best]
        tokens = torch.tensor([[token] for *_, token in continued])
        state = state.reorder([row for _, row, _ in continued])


def _is_settled(
    finished: list[Hypothesis],
    best_live: float,
    length: int,
    longest: int,
    settings: BeamSettings,
    num_best: int,
) -> bool:
    """Return whether no live prefix can still enter the best `num_best`: at any length or, for
    early stopping, at its present length."""
    if len(finished) >= num_best:
        bound = best_live / settings.penalty(longest + 1)
        if bound <= finished[num_best - 1].score:
            return True
    is_early = settings.early_stopping and len(finished) >= settings.beam
    return is_early and best_live / settings.penalty(length) <= finished[-1].score
