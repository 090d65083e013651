"""Draw what comes next, again and again: prompts continued together, each as if it were alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

import torch

from headway.data.batches import padded
from headway.decoding.rules import Likeliest, Rule, Writing, apply_rules
from headway.errors import UsageError
from headway.shapes import Float, Tensor

Reason = Literal["end", "stop", "length", "context"]
"""Why an output ends: the model wrote </s>, somebody called `Row.end`, it has as many tokens as
were asked for, or prompt and output together fill the context that the model was built for."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How to continue.

    eos: the token that ends an output and does not belong to it. max_tokens: most tokens of an
    output. rules: what changes the scores before a token is drawn; `Likeliest()` as the last one
    makes it greedy search. alternatives: so many of the likeliest tokens are kept at each place.
    """

    eos: int
    max_tokens: int
    rules: Sequence[Rule] = ()
    alternatives: int = 0

    def __post_init__(self) -> None:
        for name in ("max_tokens", "alternatives"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must not be negative")


@dataclass(kw_only=True)
class Row(Writing):
    """One output while it is being written, and when it is done.

    log_probabilities: of each token, natural, under the model's own distribution: before any rule.
    alternatives: at each place the likeliest tokens under it and their log-probabilities. limit:
    most tokens; full: the reason if that many are written. reason: None while it goes on.
    """

    seed: int
    limit: int
    full: Reason
    log_probabilities: list[float] = field(default_factory=list)
    alternatives: list[list[tuple[int, float]]] = field(default_factory=list)
    reason: Reason | None = None

    def __post_init__(self) -> None:
        if self.limit <= 0:
            self.reason = self.full

    def end(self, reason: Reason) -> None:
        """No token more. May be called between two steps by whoever reads along."""
        self.reason = reason


def open_rows(
    model: Any,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[Sequence[int]],
    sampling: Sampling,
) -> list[Row]:
    """A row for each seed of each prompt: as many samples of prompt i as seeds[i] has.

    Raises UsageError for a prompt that is longer than the model's context.
    """
    if len(seeds) != len(prompts):
        raise ValueError(f"seeds for {len(seeds)} prompts, but there are {len(prompts)}")
    context = model.max_length
    rows = []
    for item, (prompt, several) in enumerate(zip(prompts, seeds, strict=True)):
        if not prompt:
            raise ValueError(f"prompt {item + 1} is empty: a model reads before it writes")
        room = sampling.max_tokens if context is None else context - len(prompt)
        if room < 0:
            raise UsageError(
                f"{len(prompt)} tokens are more than the {context} that the model can read",
                f"prompt {item + 1}",
                "a shorter prompt",
            )
        limit = min(sampling.max_tokens, room + 1)  # the last token of a text is never read
        full: Reason = "length" if limit == sampling.max_tokens else "context"
        for seed in several:
            rows.append(Row(prompt=prompt, item=item, seed=seed, limit=limit, full=full))
    return rows


def sample_steps(
    model: Any, rows: Sequence[Row], sampling: Sampling, state: Any = None
) -> Iterator[list[Row]]:
    """Continue all rows; after each step, those that have got a token. `model` is a Stepper.

    A row's draws depend on its seed and its place alone, and its scores on no other row: it gets
    what it would get alone. Who reads along may `end` a row that was given; it then leaves, as
    finished rows do. Each prompt is read once, however many rows continue it. state: of a model
    that starts from something else than prompts, where it stands before the last token of each;
    a row of it for each of `rows`.
    """
    live = [row for row in rows if row.reason is None]
    if state is None:
        state = read_prompts(model, live)
    elif len(live) < len(rows):
        state = state.reorder([place for place, row in enumerate(rows) if row.reason is None])
    while live:
        grown, state = _step(model, state, live, sampling)
        if grown:
            yield grown
        kept = [place for place, row in enumerate(live) if row.reason is None]
        if len(kept) < len(live):
            live = [live[place] for place in kept]
            state = state.reorder(kept)


@torch.inference_mode()
def _step(model: Any, state: Any, live: Sequence[Row], sampling: Sampling) -> tuple[list[Row], Any]:
    """One token more for each row: those that have grown, and the state."""
    device = next(model.parameters()).device
    tokens = torch.tensor([[row.last] for row in live], device=device)
    logits, state = model.step(tokens, state)
    scores = logits[:, -1].float()
    chosen = choose(apply_rules(sampling.rules, scores, live), live, sampling.rules)
    return record(live, chosen, scores, sampling), state


def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    seeds: Sequence[Sequence[int]],
) -> list[list[Row]]:
    """For each prompt one finished row a seed, in order."""
    rows = open_rows(model, prompts, seeds, sampling)
    for _ in sample_steps(model, rows, sampling):
        pass
    return by_prompt(rows, len(prompts))


def by_prompt(rows: Sequence[Row], count: int) -> list[list[Row]]:
    """The rows of each of `count` prompts."""
    found: list[list[Row]] = [[] for _ in range(count)]
    for row in rows:
        found[row.item].append(row)
    return found


@torch.inference_mode()
def read_prompts(model: Any, rows: Sequence[Row]) -> Any:
    """The state in which each row's prompt is read but for its last token.

    Rows of one prompt stand side by side; it is read once for all of them.
    """
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row.item)]
    device = next(model.parameters()).device
    tokens, keys = padded([group[0].prompt[:-1] for group in groups], 0)
    state = model.start(tokens.to(device), None if bool(keys.all()) else keys.to(device))
    if len(groups) == len(rows):
        return state
    return state.reorder([place for place, group in enumerate(groups) for _ in group])


def choose(scores: Float[Tensor, "N V"], rows: Sequence[Row], rules: Sequence[Rule]) -> list[int]:
    """The next token of each row, drawn from softmax(scores)."""
    if rules and isinstance(rules[-1], Likeliest):
        return [int(token) for token in scores.argmax(-1)]
    numbers = [uniform(row.seed, len(row.tokens)) for row in rows]
    return draw(scores.double().softmax(-1), numbers)


def draw(weights: Float[Tensor, "N V"], numbers: Sequence[float]) -> list[int]:
    """For each row the first token up to which more than the share `number` of the weight lies.

    The inverse of the distribution function: for numbers uniform in [0, 1) token v comes with
    probability weights[v] / sum(weights).
    """
    up_to = weights.double().cumsum(-1)
    share = torch.tensor(numbers, dtype=torch.double, device=weights.device)[:, None]
    found: list[int] = torch.searchsorted(up_to, share * up_to[:, -1:], right=True)[:, 0].tolist()
    return found


def uniform(seed: int, place: int, use: str = "token") -> float:
    """A number in [0, 1), fixed by its three arguments and independent of those of others.

    52 bits of a hash, so that its product with a sum stays below the sum.
    """
    digest = hashlib.blake2b(f"{seed} {place} {use}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 12) * 2.0**-52


def record(
    rows: Sequence[Row], chosen: Sequence[int], scores: Float[Tensor, "N V"], sampling: Sampling
) -> list[Row]:
    """Write the chosen tokens into their rows; those that have grown. scores: before any rule."""
    total = scores.logsumexp(-1)
    index = torch.tensor(chosen, device=scores.device)[:, None]
    found = (scores.gather(1, index)[:, 0] - total).tolist()
    count = min(sampling.alternatives, scores.shape[1])
    best = scores.topk(count, dim=-1)
    others, theirs = best.indices.tolist(), (best.values - total[:, None]).tolist()
    grown = []
    for place, (row, token) in enumerate(zip(rows, chosen, strict=True)):
        if token == sampling.eos:
            row.end("end")
            continue
        row.tokens.append(token)
        row.log_probabilities.append(found[place])
        if count:
            row.alternatives.append(list(zip(others[place], theirs[place], strict=True)))
        if len(row.tokens) >= row.limit:
            row.end(row.full)
        grown.append(row)
    return grown
