"""What the engine is asked to do, and what it reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.base.shapes import Tensor
from headway.decoding import GenerationConfig, Reason, Rule


@dataclass(frozen=True)
class Grown:
    """An output got tokens.

    index: of the output among those of its job. text: the text that became certain, which may be
    empty. tokens, log_probabilities, alternatives: of the new tokens. reason: why the output ended;
    None while it is generated.
    """

    index: int
    text: str
    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    alternatives: tuple[tuple[tuple[int, float], ...], ...]
    reason: Reason | None

    def followed_by(self, later: Grown) -> Grown:
        """Return this event and a later one of the same output as one."""
        return Grown(
            self.index,
            self.text + later.text,
            self.tokens + later.tokens,
            self.log_probabilities + later.log_probabilities,
            self.alternatives + later.alternatives,
            later.reason,
        )


@dataclass(frozen=True)
class PromptScores:
    """For each token of a prompt after the first: its log-probability, and the most probable
    tokens with theirs."""

    log_probabilities: tuple[float, ...] = ()
    alternatives: tuple[tuple[tuple[int, float], ...], ...] = ()


@dataclass(frozen=True)
class Finished:
    """A job is done. result: `Continuation`s of a `Generation`, or what a computation returned.

    prompt: the scores of the prompt, if they were requested. cached: the number of tokens of the
    prompt that were in the prefix cache.
    """

    result: Any
    prompt: PromptScores = PromptScores()
    cached: int = 0


@dataclass(frozen=True)
class Failed:
    """A job ended with an error, which concerns no other job."""

    error: Exception


Event = Grown | Finished | Failed


class Expired(Exception):
    """A job was not done before its deadline."""


class Cancelled(Exception):
    """The client of a job is gone."""


@dataclass(kw_only=True, eq=False)
class Job:
    """A request to the engine.

    report: called with every event, from the engine's thread; it must not block. deadline: by
    `time.monotonic`; a job that is not done by then fails with `Expired`. cost: number of tokens to
    process, of input and output. cancelled: set by any thread, when no client waits for the result.
    """

    report: Callable[[Event], None]
    deadline: float
    cost: int
    cancelled: bool = False
    created: float = field(default_factory=time.monotonic)

    @property
    def ended(self) -> Exception | None:
        """Why the job must not go on; None if it may."""
        if self.cancelled:
            return Cancelled()
        return Expired() if time.monotonic() > self.deadline else None


@dataclass(kw_only=True, eq=False)
class Generation(Job):
    """Continue a prompt by sampling or greedy decoding, with `config.samples` outputs.

    scored: the number of most probable tokens to return for each token of the prompt; None if the
    prompt is not scored. caches: whether the prefix cache may be read and written. salt: prompts
    with different salts share nothing in the prefix cache. rules: apply before those of `config`.
    stop_tokens: end an output, besides the end-of-text token. ignores_eos: whether the end-of-text
    token ends no output. keeps_stop: whether outputs end with their stop string or stop token.
    images: those of a prompt that has places for them; it is read at once and is not cached.
    shown: whether `Grown` is reported, or only `Finished`.
    """

    prompt: Sequence[int]
    config: GenerationConfig
    scored: int | None = None
    caches: bool = True
    salt: str = ""
    rules: Sequence[Rule] = ()
    stop_tokens: frozenset[int] = frozenset()
    ignores_eos: bool = False
    keeps_stop: bool = False
    images: Tensor | None = None
    shown: bool = False
