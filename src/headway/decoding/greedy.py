"""Greedy search: the most probable token at every step."""

from __future__ import annotations

from typing import Any

import torch

from headway.decoding.rule import PartialOutput
from headway.decoding.search import Hypothesis, Limits, length_penalty, next_log_probabilities


@torch.inference_mode()
def greedy_search(
    model: Any, inputs: tuple[Any, ...], limits: Limits, alpha: float = 0.0
) -> list[Hypothesis]:
    """Return one hypothesis for each input, in order, by greedy search.

    model: a Stepper. alpha: exponent of the length penalty of the score. Finished sequences are
    removed from the batch.
    """
    state = model.start(*inputs)
    live = list(range(len(limits.max_lengths)))  # the input of each unfinished row
    written = [PartialOutput([], limits.prompt(item), item) for item in live]
    totals = [0.0] * len(live)
    finished = [False] * len(live)
    tokens = limits.first_tokens
    device = next(model.parameters()).device
    while live:
        logits, state = model.step(torch.tensor(tokens, device=device)[:, None], state)
        rows = [written[item] for item in live]
        best = next_log_probabilities(logits, limits.rules, rows).max(-1)
        tokens, continuing = [], []
        for row, (token, log_p) in enumerate(
            zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ):
            item = live[row]
            full = len(written[item].tokens) == limits.max_lengths[item]
            if token == limits.eos or not full:
                totals[item] += log_p
            finished[item] = token == limits.eos
            if not finished[item] and not full:
                written[item].tokens.append(token)
                tokens.append(token)
                continuing.append(row)
        if len(continuing) < len(live):
            state = state.reorder(continuing)
            live = [live[row] for row in continuing]
    return [
        Hypothesis(
            tuple(w.tokens), total, total / length_penalty(len(w.tokens) + done, alpha), done
        )
        for w, total, done in zip(written, totals, finished, strict=True)
    ]
