"""Beam search, as in the lecture: keep the W most probable prefixes of the output."""

import torch

from headway.decoding.rule import PartialOutput, ruled_logits
from headway.decoding.rules import Only
from headway.decoding.search import BeamSettings, Hypothesis, Inputs, Limits, Search
from headway.models.contracts import Stepper


@torch.inference_mode()
def beam_search(
    model: Stepper,
    inputs: Inputs,
    limits: Limits,
    settings: BeamSettings,
    *,
    num_best: int = 1,
) -> Search[list[Hypothesis]]:
    """Return the `num_best` best hypotheses of one input, best first.

        score(y_1 ... y_n) = log P(y_1 ... y_n | x) / penalty(n)

    Each step extends every live prefix by every token. Of the 2 W most probable continuations,
    those that end with </s> are finished, and the first W others stay live: at most W can end.
    (With E tokens that end an output, these are the first (1 + E) W.) The search ends when no live
    prefix can enter the best `num_best`: its log-probability only falls, and the penalty of the
    longest output is the largest. Wu et al. 2016, section 7.

    `fast_beam_search` does this for many inputs at once, and has what is left out
    here: groups, coverage, phrases, and the search of transformers.
    """
    width, ends, (longest,) = settings.beam, limits.ends, limits.max_lengths
    live, finished = [Hypothesis((), 0.0, 0.0, finished=False)], list[Hypothesis]()
    tokens, state = torch.tensor([limits.first_tokens]), model.start(*inputs)
    for length in range(1, longest + 2):  # of the continuations, with </s>
        logits, state = yield tokens, state
        written = [PartialOutput(list(prefix.tokens), limits.prompt(0)) for prefix in live]
        log_p = ruled_logits(limits.rules, logits[:, -1].float(), written).log_softmax(-1)  # W V
        if length > longest:
            log_p = Only(ends)(log_p, written)
        totals = torch.tensor([prefix.log_probability for prefix in live])[:, None] + log_p
        best = totals.flatten().topk(min((1 + len(ends)) * width, totals.numel()))
        rows: list[int] = []  # of the prefixes that the live ones extend
        extended: list[Hypothesis] = []
        for total, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            row, token = divmod(index, log_p.shape[1])
            before, score = live[row].tokens, total / settings.penalty(length)
            if token in ends and total > -torch.inf:
                finished.append(Hypothesis(before, total, score))
            elif len(extended) < width and total > -torch.inf:
                extended.append(Hypothesis((*before, token), total, score, finished=False))
                rows.append(row)
        live = extended
        if limits.cut and length == longest:
            live, finished = [], finished + live
        finished = sorted(finished, key=lambda output: -output.score)[:width]
        if not live:
            break
        best_at_any_length = live[0].log_probability / settings.penalty(longest + 1)
        if len(finished) >= num_best and best_at_any_length <= finished[num_best - 1].score:
            break
        is_early = settings.early_stopping and len(finished) == width
        if is_early and live[0].score <= finished[-1].score:
            break
        tokens, state = torch.tensor([[h.tokens[-1]] for h in live]), state.reorder(rows)
    return finished[:num_best]
