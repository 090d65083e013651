"""Greedy search for many inputs at once: the fast twin of `greedy_search`."""

import torch

from headway.base.transfers import read, upload
from headway.decoding.rule import PartialOutput, check_choice, depend_on_outputs, ruled_logits
from headway.decoding.search import BeamSettings, Hypothesis, Inputs, Limits, Search
from headway.models.contracts import Stepper

STEPS_UNREAD = 8
"""Steps that are computed on a GPU before their tokens are read, all at once."""


BY_PROBABILITY = BeamSettings(beam=1, length_penalty=0.0)


@torch.inference_mode()
def fast_greedy_search(
    model: Stepper,
    inputs: Inputs,
    limits: Limits,
    settings: BeamSettings = BY_PROBABILITY,
) -> Search[list[Hypothesis]]:
    """Return one hypothesis for each input, in order, by greedy search.

    settings: of the length penalty of the score. Finished sequences are removed
    from the batch. On a GPU the tokens stay on the device and are read every `STEPS_UNREAD` steps,
    or after each step if a rule depends on the tokens generated so far; what is computed after the
    end of a sequence is dropped.
    """
    state = model.start(*inputs)
    live = list(range(len(limits.max_lengths)))  # the input of each unfinished row
    written = [PartialOutput([], limits.prompt(item), item) for item in live]
    totals = [0.0] * len(live)
    finished = [False] * len(live)
    device = next(model.parameters()).device
    every_step = device.type == "cpu" or depend_on_outputs(limits.rules)
    tokens = upload(torch.tensor(limits.first_tokens), device)
    ends = limits.ends
    while live:
        rows = [written[item] for item in live]
        remaining = [limits.max_lengths[w.item] + 1 - len(w.tokens) for w in rows]
        unread = []
        for _ in range(1 if every_step else min(STEPS_UNREAD, *remaining)):
            logits, state = yield tokens[:, None], state
            scores = ruled_logits(limits.rules, logits[:, -1].float(), rows)
            best = scores.log_softmax(-1).max(-1)
            tokens = best.indices
            unread.append((tokens, best.values, scores.amax(-1)))
        continuing = list(range(len(live)))
        columns = (torch.stack(column) for column in zip(*unread, strict=True))
        for choices in zip(*read(*columns), strict=True):
            for row in list(continuing):
                (token, log_p, score), item = (column[row] for column in choices), live[row]
                check_choice(score, limits.rules, written[item])
                full = len(written[item].tokens) == limits.max_lengths[item]
                if token in ends or not full:
                    totals[item] += log_p
                finished[item] = token in ends
                if finished[item] or full:
                    continuing.remove(row)
                else:
                    written[item].tokens.append(token)
                    if limits.cut and len(written[item].tokens) == limits.max_lengths[item]:
                        continuing.remove(row)
        if len(continuing) < len(live):
            state = state.reorder(continuing)
            tokens = tokens.index_select(0, upload(torch.tensor(continuing).long(), device))
            live = [live[row] for row in continuing]
    return [
        Hypothesis(tuple(w.tokens), total, total / settings.penalty(len(w.tokens) + done), done)
        for w, total, done in zip(written, totals, finished, strict=True)
    ]
