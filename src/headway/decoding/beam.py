"""Beam search: keep the W most likely beginnings of each output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from headway.decoding.rules import Rule, Writing, apply_rules
from headway.decoding.search import Hypothesis, Limits, length_penalty, next_log_probabilities
from headway.shapes import Float, Int, Tensor


@dataclass
class _Sentence:
    """One input while it is being written."""

    item: int
    max_length: int
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
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    """The `num_best` best hypotheses of each input, best first. `model` is a Stepper.

    Each step extends every live beginning by every token and keeps, of the 2 W likeliest, those
    that end (</s>) as finished and the first W others as live. A sentence leaves once nothing
    alive can enter its best `num_best`, which is exact: with W as large as the number of
    beginnings this is exhaustive search. Wu et al. 2016, section 7; score as `length_penalty`.
    rules change the logits before they are normalised again.
    """
    if width < 1 or not 1 <= num_best <= width:
        raise ValueError(f"{num_best=} must be between 1 and {width=}")
    device = next(model.parameters()).device
    results: list[list[Hypothesis]] = [[] for _ in limits.max_lengths]
    live = [_Sentence(i, length) for i, length in enumerate(limits.max_lengths)]
    state = model.start(*inputs)
    scores = torch.zeros(len(live), 1, device=device)  # B W: log P of each beginning
    prefixes = torch.tensor(limits.first_tokens, device=device)[:, None]  # BW t
    while live:
        logits, state = model.step(prefixes[:, -1:], state)
        if rules:
            logits = _ruled(logits, rules, live, prefixes, limits)
        log_p = next_log_probabilities(logits, limits.forbidden)
        log_p = _end_where_full(log_p, live, limits.eos, prefixes.shape[1] - 1)
        found, parents, tokens = _best_continuations(log_p, scores, 2 * width)
        rows, columns, settled = _sort_out(
            live, (found, parents, tokens), prefixes, limits.eos, (width, num_best, alpha)
        )
        for sentence in (live[i] for i in settled):
            results[sentence.item] = sentence.pool[:num_best]
        live = [sentence for i, sentence in enumerate(live) if i not in settled]
        if not live:
            break
        index = torch.tensor(rows, device=device)
        picked = torch.tensor(columns, device=device)  # flat places in the B x 2W candidates
        scores = found.flatten()[picked].masked_fill(picked < 0, -torch.inf).view(len(live), -1)
        prefixes = torch.cat((prefixes[index], tokens.flatten()[picked][:, None]), dim=1)
        if rows != list(range(logits.shape[0])):
            state = state.reorder(rows)
    return results


def _ruled(
    logits: Float[Tensor, "N T V"],
    rules: Sequence[Rule],
    live: list[_Sentence],
    prefixes: Int[Tensor, "N t"],
    limits: Limits,
) -> Float[Tensor, "N 1 V"]:
    """The last logits as the rules leave them. Dead rows, which repeat a live one, do too."""
    each = len(logits) // len(live)
    items = [sentence.item for sentence in live for _ in range(each)]
    prompts = limits.prompts or [()] * len(limits.max_lengths)
    writings = [
        Writing(row, prompts[item], item)
        for row, item in zip(prefixes[:, 1:].tolist(), items, strict=True)
    ]
    return apply_rules(rules, logits[:, -1].float(), writings)[:, None]


def _end_where_full(
    log_p: Float[Tensor, "N V"], live: list[_Sentence], eos: int, written: int
) -> Float[Tensor, "N V"]:
    """A beginning of the longest allowed length can only end."""
    full = [i for i, sentence in enumerate(live) if written >= sentence.max_length]
    if full:
        per_sentence = log_p.view(len(live), -1, log_p.shape[-1])
        endings = per_sentence[full, :, eos]
        per_sentence[full] = -torch.inf
        per_sentence[full, :, eos] = endings
    return log_p


def _best_continuations(
    log_p: Float[Tensor, "N V"], scores: Float[Tensor, "B W"], count: int
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Sums, parent beams and tokens of each sentence's best `count` continuations, best first.

    The best of each row first, then the best of those: exact, and a CPU sorts W short lists
    faster than one long one.
    """
    width, vocabulary = scores.shape[1], log_p.shape[-1]
    per_row = log_p.topk(min(count, vocabulary), dim=-1)
    sums = per_row.values.view(len(scores), width, -1) + scores[:, :, None]  # B W C'
    best = sums.flatten(1).topk(min(count, sums[0].numel()), dim=-1)
    tokens = per_row.indices.view(len(scores), -1).gather(1, best.indices)
    parents = torch.div(best.indices, sums.shape[2], rounding_mode="floor")
    return best.values, parents, tokens


def _sort_out(
    live: list[_Sentence],
    candidates: tuple[Tensor, Tensor, Tensor],
    prefixes: Int[Tensor, "N t"],
    eos: int,
    search: tuple[int, int, float],
) -> tuple[list[int], list[int], set[int]]:
    """Finish what ends, keep W others: rows to continue, their candidates, settled sentences."""
    width, num_best, alpha = search
    found, parents, tokens = (x.tolist() for x in candidates)
    per_sentence = prefixes.shape[0] // len(live)
    rows: list[int] = []
    columns: list[int] = []
    settled: set[int] = set()
    for i, sentence in enumerate(live):
        first = i * per_sentence
        going: list[int] = []
        best_live = -torch.inf
        for c, (total, parent, token) in enumerate(
            zip(found[i], parents[i], tokens[i], strict=True)
        ):
            if total == -torch.inf:
                break  # dead, and sorted: so is the rest
            if token == eos:
                written = tuple(prefixes[first + parent, 1:].tolist())
                score = total / length_penalty(len(written) + 1, alpha)
                sentence.add(Hypothesis(written, total, score), width)
            elif len(going) < width:
                best_live = max(best_live, total)
                going.append(c)
        if sentence.is_settled(best_live, num_best, alpha):
            settled.add(i)
            continue
        # Fewer than W beginnings may exist (a tiny vocabulary): the places left over are dead,
        # marked by -1, and get the sum -inf.
        num_dead = width - len(going)
        rows += [first + parents[i][c] for c in going] + [first] * num_dead
        columns += [i * len(found[i]) + c for c in going] + [-1] * num_dead
    return rows, columns, settled
