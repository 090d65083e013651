"""Drawing tokens one after another: sampling, and greedy search as its limit."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from headway.decoding.rules import Likeliest, Rule, Writing, apply_rules
from headway.shapes import Bool, Float, Int, Tensor

Steps = Generator[list["Chosen"], Collection[int] | None, None]


@dataclass(frozen=True)
class Chosen:
    """A token that was written. row: prompt x samples + sample. log_probability: by the model
    itself, in nats, whatever the rules made of it."""

    row: int
    token: int
    log_probability: float


@dataclass(frozen=True)
class Draw:
    """How each token is chosen. rules: laid over the logits, in order; with `Likeliest` among them
    nothing is left to chance. seeds: one for each row; a row's tokens depend on its own seed and
    prompt, never on the company it has."""

    rules: Sequence[Rule]
    seeds: Sequence[int]


@torch.inference_mode()
def sample(model: Any, prompts: Sequence[Sequence[int]], draw: Draw, *, samples: int = 1) -> Steps:
    """Continue prompts of any lengths together, each `samples` times. `model` is a Stepper.

    Yields the next token of every row that is still written, again and again, and ends when none
    is left: send(rows) ends those rows (at an end of text, or wherever the caller wants). A model
    with a longest length ends its rows there.
    """
    if not prompts or not all(prompts):
        raise ValueError("there must be prompts, each of at least one token")
    count = len(prompts) * samples
    if len(draw.seeds) != count:
        raise ValueError(f"{len(draw.seeds)} seeds for {count} rows")
    device = next(model.parameters()).device
    state = model.start(*padded([row[:-1] for row in prompts], device))
    if samples > 1:
        state = state.reorder([i for i in range(len(prompts)) for _ in range(samples)])
    live = list(range(count))
    written = [Writing([], prompts[row // samples], row // samples) for row in live]
    chances = [torch.Generator().manual_seed(seed) for seed in draw.seeds]
    tokens = [prompts[row // samples][-1] for row in live]
    while live:
        logits, state = model.step(torch.tensor(tokens, device=device)[:, None], state)
        own = logits[:, -1].float()
        changed = apply_rules(draw.rules, own, [written[row] for row in live])
        tokens = _drawn(changed, draw.rules, [chances[row] for row in live])
        index = torch.tensor(tokens, device=device)[:, None]
        log_p = own.gather(1, index)[:, 0] - own.logsumexp(-1)
        for row, token in zip(live, tokens, strict=True):
            written[row].tokens.append(token)
        found = zip(live, tokens, log_p.tolist(), strict=True)
        ended = set((yield [Chosen(*each) for each in found]) or ())
        longest = model.max_length
        kept = [
            place
            for place, (row, length) in enumerate(zip(live, state.lengths, strict=True))
            if row not in ended and (longest is None or length < longest)
        ]
        if len(kept) < len(live):
            state = state.reorder(kept) if kept else state
            live, tokens = [live[place] for place in kept], [tokens[place] for place in kept]


def _drawn(
    logits: Float[Tensor, "N V"], rules: Sequence[Rule], chances: Sequence[torch.Generator]
) -> list[int]:
    """A token of each row, by its own random numbers: the first whose cumulative probability
    exceeds a number between 0 and 1."""
    if any(isinstance(rule, Likeliest) for rule in rules):
        likeliest: list[int] = logits.argmax(-1).tolist()
        return likeliest
    sums = logits.double().softmax(-1).cumsum(-1)
    uniform = torch.stack([torch.rand((), generator=g, dtype=torch.float64) for g in chances])
    # below the last sum, which rounding may leave short of 1
    wanted = (uniform.to(sums.device) * sums[:, -1])[:, None]
    places: list[int] = torch.searchsorted(sums, wanted, right=True)[:, 0].tolist()
    return places


def padded(
    rows: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"] | None]:
    """Rows as one matrix, padded at the right, and which are real; None for all."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=torch.long)
    ids = ids.view(len(rows), longest).to(device)
    if all(len(row) == longest for row in rows):
        return ids, None
    lengths = torch.tensor([[len(row)] for row in rows], device=device)
    return ids, torch.arange(longest, device=device) < lengths
