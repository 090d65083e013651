"""Sampling: prompts are continued in one batch, each as if it were alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

import torch

from headway.base.errors import UsageError
from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import read_later, upload
from headway.data.padding import padded
from headway.decoding.rule import (
    PartialOutput,
    Rule,
    as_ends,
    check_choice,
    depend_on_outputs,
    ruled_logits,
)
from headway.decoding.rules import MostProbable
from headway.decoding.search import Hypothesis, Search, run
from headway.models.contracts import DecodeState, LanguageStepper, Sequences, Stepper

RUNS_AHEAD = ("cuda",)
"""Kinds of devices on which a step begins before the tokens of the one before are read, so that the
device need not wait until the CPU has seen them."""

Reason = Literal["end", "stop", "length", "context"]
"""Why an output ended. "end": the model generated </s>; "stop": the caller called `Row.end`, for
example at a stop string; "length": it has the maximum number of tokens; "context": prompt and
output fill the model's context."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Settings of sampling.

    eos: the token that ends an output and does not belong to it, or several. max_tokens: maximum
    number of tokens of an output. max_length: that of prompt and output together; None: the
    context. rules: change the logits before a token is sampled; with `MostProbable()` as the last
    rule, decoding is greedy. alternatives: number of most probable tokens to record at each
    position.
    """

    eos: int | Sequence[int]
    max_tokens: int
    max_length: int | None = None
    rules: Sequence[Rule] = ()
    alternatives: int = 0

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end an output."""
        return as_ends(self.eos)

    def longest(self, prompt: int, name: str) -> int:
        """Return the maximum number of tokens of an output after a prompt of `prompt` tokens.

        name: of the prompt, in errors. Raises UsageError for a prompt of `max_length` tokens.
        """
        if self.max_length is None:
            return self.max_tokens
        if prompt >= self.max_length:
            raise UsageError(
                f"the prompt has {prompt} tokens, and max_length={self.max_length} leaves no room "
                "for an output",
                name,
                "shorten the prompt, or set max_tokens, which replaces max_length",
            )
        return min(self.max_tokens, self.max_length - prompt)

    def __post_init__(self) -> None:
        for name in ("max_tokens", "alternatives"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must not be negative")


@dataclass(kw_only=True)
class Row(PartialOutput):
    """One output, while it is generated and after it ended.

    log_probabilities: natural log-probability of each token under the model's own distribution,
    before any rule. alternatives: at each position the most probable tokens under that
    distribution and their log-probabilities. end_log_probability: that of the token that ended the
    output, 0 if none did. limit: maximum number of tokens; full: the reason for the end if it is
    reached. reason: why the output ended; None while it is generated.
    """

    seed: int
    limit: int
    full: Reason
    log_probabilities: list[float] = field(default_factory=list)
    alternatives: list[list[tuple[int, float]]] = field(default_factory=list)
    end_log_probability: float = 0.0
    reason: Reason | None = None

    def __post_init__(self) -> None:
        if self.limit <= 0:
            self.reason = self.full

    @property
    def log_probability(self) -> float:
        """The natural logarithm of the probability of all tokens, as in `Hypothesis`: with </s> if
        it was generated."""
        return sum(self.log_probabilities) + self.end_log_probability

    def output(self, text: str, score: float | None = None) -> Hypothesis:
        """Return the output. score: the number by which it is ranked; None: `log_probability`."""
        total = self.log_probability
        ranked = total if score is None else score
        return Hypothesis(tuple(self.tokens), total, ranked, self.reason == "end", text)

    def end(self, reason: Reason) -> None:
        """End the output, between two steps."""
        self.reason = reason


def open_rows(
    model: LanguageStepper,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[Sequence[int]],
    sampling: Sampling,
) -> list[Row]:
    """Return one row for each seed of each prompt: len(seeds[i]) samples of prompt i.

    Raises UsageError for a prompt that is longer than the model's context.
    """
    if len(seeds) != len(prompts):
        raise ValueError(f"seeds for {len(seeds)} prompts, but there are {len(prompts)}")
    context = model.max_length
    rows = []
    for item, (prompt, seeds_of_prompt) in enumerate(zip(prompts, seeds, strict=True)):
        if not prompt:
            raise ValueError(f"prompt {item + 1} is empty: it must have at least one token")
        room = sampling.max_tokens if context is None else context - len(prompt)
        if room < 0:
            raise UsageError(
                f"the prompt has {len(prompt)} tokens, but the model's context is {context} tokens",
                f"prompt {item + 1}",
                "shorten the prompt",
            )
        longest = sampling.longest(len(prompt), f"prompt {item + 1}")
        # the last token of an output is not an input of the model
        limit = min(longest, room + 1)
        full: Reason = "length" if limit == longest else "context"
        for seed in seeds_of_prompt:
            rows.append(Row(prompt=prompt, item=item, seed=seed, limit=limit, full=full))
    return rows


@torch.inference_mode()
def sample_search(
    model: Stepper,
    rows: Sequence[Row],
    sampling: Sampling,
    state: Sequences | None = None,
    grown: Callable[[list[Row]], None] = lambda rows: None,
) -> Search[None]:
    """Continue all rows.

    The random numbers of a row depend only on its seed and the position, and its logits on no other
    row, so its output is the same in any batch. Each prompt is encoded once, however many rows
    continue it. state: the decoder state before the last token of each row, for a model that does
    not start from prompts alone; it has one row for each of `rows`. grown: called after each step
    with the rows that got a token. It may call `Row.end` on them; then they are removed from the
    batch, as finished rows are.
    """
    live = [row for row in rows if row.reason is None]
    if state is None:
        state = read_prompts(model, live)
    elif len(live) < len(rows):
        state = state.reorder([i for i, row in enumerate(rows) if row.reason is None])
    device = next(model.parameters()).device
    runs_ahead = device.type in RUNS_AHEAD and not depend_on_outputs(sampling.rules)
    step: Chosen | None = None
    while live:
        if step is None:
            tokens = upload(torch.tensor([row.last for row in live]), device)
            logits, state = yield tokens[:, None], state
            step = choose_later(logits[:, -1].float(), live, sampling)
        following: Chosen | None = None
        if runs_ahead and all(len(row.tokens) + 1 < row.limit for row in live):
            logits, state = yield step.tokens[:, None], state
            following = choose_later(logits[:, -1].float(), live, sampling, unread=1)
        grown(step.record(live, sampling))
        unfinished = [i for i, row in enumerate(live) if row.reason is None]
        if len(unfinished) < len(live):
            live = [live[i] for i in unfinished]
            state = state.reorder(unfinished)
            following = None if following is None else following.of(unfinished)
        step = following


@dataclass(frozen=True)
class Chosen:
    """The next tokens of some rows, which a GPU may not have computed yet.

    tokens: on the device. read: waits for the device, and returns what `record` needs.
    """

    tokens: Int[Tensor, " N"]
    read: Callable[[], list[Any]]

    @torch.inference_mode()
    def of(self, rows: Sequence[int]) -> Chosen:
        """Return the tokens of some of the rows."""
        tokens = self.tokens.index_select(0, upload(torch.tensor(rows).long(), self.tokens.device))
        return Chosen(tokens, lambda: [[column[row] for row in rows] for column in self.read()])

    def record(self, rows: Sequence[Row], sampling: Sampling) -> list[Row]:
        """Append the tokens to their rows, as the function `record` does. Rows that ended since the
        tokens were chosen are left as they are."""
        return _recorded(rows, self.read(), sampling)


def choose_later(
    scores: Float[Tensor, "N V"], rows: Sequence[Row], sampling: Sampling, unread: int = 0
) -> Chosen:
    """Choose the next token of each row without waiting for a GPU.

    scores: the logits before any rule. unread: number of tokens that the rows do not have yet.
    """
    ruled = ruled_logits(sampling.rules, scores, rows)
    chosen = choose(ruled, rows, sampling.rules, unread)
    return Chosen(chosen, _read_later(chosen, scores, sampling, ruled))


def sample(
    model: LanguageStepper,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    seeds: Sequence[Sequence[int]],
) -> list[list[Row]]:
    """Return the finished rows of each prompt, one for each of its seeds, in order."""
    rows = open_rows(model, prompts, seeds, sampling)
    run(model, sample_search(model, rows, sampling))
    return by_prompt(rows, len(prompts))


def by_prompt(rows: Sequence[Row], count: int) -> list[list[Row]]:
    """Return the rows grouped by prompt. count: the number of prompts."""
    groups: list[list[Row]] = [[] for _ in range(count)]
    for row in rows:
        groups[row.item].append(row)
    return groups


@torch.inference_mode()
def read_prompts(model: Stepper, rows: Sequence[Row]) -> DecodeState:
    """Return the decoder state after all but the last token of each row's prompt.

    Rows of one prompt must be adjacent; the prompt is encoded once for all of them.
    """
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row.item)]
    device = next(model.parameters()).device
    tokens, keys = padded([group[0].prompt[:-1] for group in groups], 0)
    keys_there = None if bool(keys.all()) else upload(keys, device)
    state: DecodeState = model.start(upload(tokens, device), keys_there)
    if len(groups) == len(rows):
        return state
    return state.reorder([i for i, group in enumerate(groups) for _ in group])


def choose(
    scores: Float[Tensor, "N V"], rows: Sequence[Row], rules: Sequence[Rule], unread: int = 0
) -> Int[Tensor, " N"]:
    """Return the next token of each row: sampled from softmax(scores), or the most probable one if
    the last rule is `MostProbable`. unread: number of tokens that the rows do not have yet."""
    if rules and isinstance(rules[-1], MostProbable):
        return scores.argmax(-1)
    numbers = [uniform(row.seed, len(row.tokens) + unread) for row in rows]
    return draw(scores.double().softmax(-1), numbers)


def draw(weights: Float[Tensor, "N V"], numbers: Sequence[float]) -> Int[Tensor, " N"]:
    """Sample one token for each row by inverse transform sampling.

    Returns the first token at which the cumulative weight exceeds the fraction `number` of the
    total. If the numbers are uniform in [0, 1), token v has probability weights[v] / sum(weights).
    """
    up_to = weights.double().cumsum(-1)
    fraction = upload(torch.tensor(numbers, dtype=torch.double), weights.device)[:, None]
    tokens = torch.searchsorted(up_to, fraction * up_to[:, -1:], right=True)[:, 0]
    # Weights of NaN are beyond the last token; they are reported when the tokens are read.
    return tokens.clamp(max=up_to.shape[1] - 1)


def uniform(seed: int, position: int, use: str = "token") -> float:
    """Return a pseudo-random number in [0, 1) that depends only on the three arguments.

    It has 52 bits of a hash, so that its product with a total is below the total.
    """
    digest = hashlib.blake2b(f"{seed} {position} {use}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 12) * 2.0**-52


def record(
    rows: Sequence[Row],
    chosen: Int[Tensor, " N"],
    scores: Float[Tensor, "N V"],
    sampling: Sampling,
    ruled: Float[Tensor, "N V"],
) -> list[Row]:
    """Append the chosen tokens to their rows; return the rows that did not end with `eos`.

    scores: the logits before any rule. ruled: the logits after the rules. Raises UsageError if the
    rules forbid every token of a row. This is the only point of a step at which a GPU is awaited.
    """
    return _recorded(rows, _read_later(chosen, scores, sampling, ruled)(), sampling)


def _read_later(
    chosen: Int[Tensor, " N"],
    scores: Float[Tensor, "N V"],
    sampling: Sampling,
    ruled: Float[Tensor, "N V"],
) -> Callable[[], list[Any]]:
    """Return a function that reads, of each row, the token, its log-probability, the largest logit
    after the rules, and the most probable tokens with their log-probabilities."""
    total = scores.logsumexp(-1)
    best = scores.topk(min(sampling.alternatives, scores.shape[1]), dim=-1)
    return read_later(
        chosen,
        scores.gather(1, chosen[:, None])[:, 0] - total,
        ruled.amax(-1),
        best.indices,
        best.values - total[:, None],
    )


def _recorded(rows: Sequence[Row], values: Sequence[Any], sampling: Sampling) -> list[Row]:
    """Append the tokens to rows that have not ended; return those that did not end with `eos`."""
    tokens, log_p, largest, top_tokens, top_log_p = values
    live = [i for i, row in enumerate(rows) if row.reason is None]
    for i in live:
        check_choice(largest[i], sampling.rules, rows[i])
    grown, ends = [], sampling.ends
    for i in live:
        row, token = rows[i], tokens[i]
        if token in ends:
            row.end_log_probability = log_p[i]
            row.end("end")
            continue
        row.tokens.append(token)
        row.log_probabilities.append(log_p[i])
        if sampling.alternatives:
            row.alternatives.append(list(zip(top_tokens[i], top_log_p[i], strict=True)))
        if len(row.tokens) >= row.limit:
            row.end(row.full)
        grown.append(row)
    return grown
