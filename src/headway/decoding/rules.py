"""Rules that change what a model would write next: each takes logits and gives logits.

They apply one after another, in the order given; -inf marks a token that cannot come. A rule that
cuts the unlikely tokens off keeps all that are tied with the last one it keeps, so that what it
does never depends on the order in which tokens are sorted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch

from headway.errors import DataError, UsageError
from headway.shapes import Bool, Float, Tensor


@dataclass
class Writing:
    """One output so far.

    tokens: what was written, without <s>. prompt: what stood before it. item: which input it
    belongs to.
    """

    tokens: list[int] = field(default_factory=list)
    prompt: Sequence[int] = ()
    item: int = 0

    @property
    def seen(self) -> list[int]:
        """The prompt and what was written after it."""
        return [*self.prompt, *self.tokens]

    @property
    def last(self) -> int:
        """The newest token of both."""
        return self.tokens[-1] if self.tokens else self.prompt[-1]


@runtime_checkable
class Rule(Protocol):
    """Changes the logits of each row, knowing what the row has written; leaves its input as it is.

    A row's result may depend on that row alone.
    """

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]: ...


def apply_rules(
    rules: Sequence[Rule], logits: Float[Tensor, "N V"], written: Sequence[Writing]
) -> Float[Tensor, "N V"]:
    """The logits after all rules. UsageError when a row has no token left."""
    for rule in rules:
        logits = rule(logits, written)
    best = logits.amax(-1)
    if not bool(best.isfinite().all()):
        row = int((~best.isfinite()).nonzero()[0])
        after = written[row].seen[-8:]
        if best[row] == -torch.inf:
            names = ", ".join(str(rule) for rule in rules) or "no rule"
            raise UsageError(
                f"every token is forbidden after tokens {after}, by {names}",
                hint="forbid less, or let the output end sooner",
            )
        raise not_finite(f" after tokens {after}")
    return logits


def not_finite(where: str = "") -> DataError:
    """The error for logits of NaN or +inf, from which no token can be chosen."""
    return DataError(f"the model's logits{where} are not finite", hint="use an earlier copy")


@dataclass(frozen=True)
class Temperature:
    """logits / value: below 1 the likely tokens gain, above 1 the unlikely ones."""

    value: float

    def __post_init__(self) -> None:
        _check("value", self.value, 0 < self.value < math.inf, "above 0 (Likeliest() is greedy)")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        return logits / self.value


@dataclass(frozen=True)
class Likeliest:
    """Only the most likely token: what greedy search writes."""

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        best = logits.argmax(-1, keepdim=True)
        return torch.full_like(logits, -torch.inf).scatter(1, best, logits.gather(1, best))


@dataclass(frozen=True)
class TopK:
    """The `count` most likely tokens. Fan et al. 2018, section 5.4."""

    count: int

    def __post_init__(self) -> None:
        _check("count", self.count, self.count >= 1, "at least 1")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        if self.count >= logits.shape[-1]:
            return logits
        least = logits.topk(self.count, dim=-1).values[:, -1:]
        return logits.masked_fill(logits < least, -torch.inf)


@dataclass(frozen=True)
class TopP:
    """The fewest most likely tokens that hold `mass` of the probability. Holtzman et al. 2020."""

    mass: float

    def __post_init__(self) -> None:
        _check("mass", self.mass, 0 < self.mass <= 1, "above 0 and at most 1")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        if self.mass == 1:
            return logits
        probabilities = logits.softmax(-1)
        kept = _fewest(probabilities, probabilities, self.mass)
        return logits.masked_fill(~kept, -torch.inf)


@dataclass(frozen=True)
class MinP:
    """Tokens at least `share` times as likely as the likeliest. Nguyen et al. 2024."""

    share: float

    def __post_init__(self) -> None:
        _check("share", self.share, 0 <= self.share <= 1, "between 0 and 1")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        probabilities = logits.softmax(-1)
        least = self.share * probabilities.amax(-1, keepdim=True)
        return logits.masked_fill(probabilities < least, -torch.inf)


@dataclass(frozen=True)
class Typical:
    """The fewest tokens that hold `mass`, those first whose surprise is nearest to the expected.

    Ordered by |-log p - H|, H the entropy of the row. Meister et al. 2023, section 3.
    """

    mass: float

    def __post_init__(self) -> None:
        _check("mass", self.mass, 0 < self.mass <= 1, "above 0 and at most 1")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        if self.mass == 1:
            return logits
        log_p = logits.log_softmax(-1)
        probabilities = log_p.exp()
        entropy = -(probabilities * log_p).nansum(-1, keepdim=True)  # 0 log 0 = 0
        kept = _fewest(-(log_p + entropy).abs(), probabilities, self.mass)
        return logits.masked_fill(~kept, -torch.inf)


@dataclass(frozen=True)
class RepetitionPenalty:
    """Logits of tokens seen before, in prompt or output, move down by the factor `value`.

    l / value where l > 0, l * value elsewhere; 1 changes nothing. Keskar et al. 2019, section 4.1.
    """

    value: float

    def __post_init__(self) -> None:
        _check("value", self.value, 0 < self.value < math.inf, "above 0")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        seen = torch.zeros_like(logits, dtype=torch.bool)
        for row, writing in enumerate(written):
            seen[row, writing.seen] = True
        lower = torch.where(logits > 0, logits / self.value, logits * self.value)
        return torch.where(seen, lower, logits)


@dataclass(frozen=True)
class FrequencyPenalty:
    """l - value * (how often the token was written in this output)."""

    value: float

    def __post_init__(self) -> None:
        _check("value", self.value, math.isfinite(self.value), "a finite number")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        return logits - self.value * _counts(logits, written)


@dataclass(frozen=True)
class PresencePenalty:
    """l - value for every token that was written in this output."""

    value: float

    def __post_init__(self) -> None:
        _check("value", self.value, math.isfinite(self.value), "a finite number")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        return logits - self.value * _counts(logits, written).clamp(max=1)


@dataclass(frozen=True)
class NoRepeat:
    """No run of `size` tokens comes twice, the prompt included. Paulus et al. 2018, section 2.5."""

    size: int

    def __post_init__(self) -> None:
        _check("size", self.size, self.size >= 1, "at least 1")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        return _without(logits, [self._banned(writing.seen) for writing in written])

    def _banned(self, seen: list[int]) -> set[int]:
        before = self.size - 1  # tokens of the run that stand already
        if len(seen) < self.size:
            return set()
        last = seen[len(seen) - before :]
        return {seen[i + before] for i in range(len(seen) - before) if seen[i : i + before] == last}


@dataclass(frozen=True)
class Bias:
    """l + values[token]. -inf forbids a token."""

    values: Mapping[int, float]

    def __post_init__(self) -> None:
        for token, value in self.values.items():
            _check(f"values[{token}]", value, value < math.inf, "a finite number or -inf")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        _check_inside(self.values, logits)
        bias = torch.zeros_like(logits[0])
        bias[list(self.values)] = bias.new_tensor(list(self.values.values()))
        return logits + bias


@dataclass(frozen=True)
class Within:
    """Only the first `size` tokens: a model's vocabulary may be padded to a round number."""

    size: int

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        behind = torch.arange(logits.shape[1], device=logits.device) >= self.size
        return logits.masked_fill(behind, -torch.inf)


@dataclass(frozen=True)
class Forbidden:
    """None of these sequences of tokens is ever completed, one begun in the prompt included."""

    words: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        _check("words", self.words, all(self.words), "sequences of at least one token")

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        for word in self.words:
            _check_inside(word, logits)
        always = [word[0] for word in self.words if len(word) == 1]
        rest = logits.clone()
        rest[:, always] = -torch.inf
        if len(always) == len(self.words):
            return rest
        return _without(rest, [self._banned(writing.seen) for writing in written])

    def _banned(self, seen: list[int]) -> set[int]:
        return {
            word[-1]
            for word in self.words
            if len(word) > 1
            and len(seen) >= len(word) - 1
            and seen[len(seen) - len(word) + 1 :] == list(word[:-1])
        }


@dataclass(frozen=True)
class Prefix:
    """Each output begins with these tokens: `tokens[i]` is the beginning of input i's outputs."""

    tokens: Sequence[Sequence[int]]

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        forced = logits.clone()
        for row, writing in enumerate(written):
            prefix, place = self.tokens[writing.item], len(writing.tokens)
            _check_inside(prefix, logits)
            if place < len(prefix):
                forced[row] = -torch.inf
                forced[row, prefix[place]] = 0.0
        return forced


@dataclass(frozen=True)
class MinLength:
    """No </s> before an output has `count` tokens."""

    count: int
    eos: int

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[Writing]
    ) -> Float[Tensor, "N V"]:
        short = [{self.eos} if len(w.tokens) < self.count else set() for w in written]
        return _without(logits, short)


def _check(name: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise ValueError(f"{name}={value} must be {wanted}")


def _check_inside(tokens: Mapping[int, float] | Sequence[int], logits: Tensor) -> None:
    size = logits.shape[-1]
    for token in tokens:
        if not 0 <= token < size:
            raise ValueError(f"{token=} is outside the vocabulary of {size}")


def _fewest(
    key: Float[Tensor, "N V"], probabilities: Float[Tensor, "N V"], mass: float
) -> Bool[Tensor, "N V"]:
    """The fewest tokens, by falling key, that hold `mass`; all that are tied with the last.

    Mostly few tokens hold it, and to find those takes less than to sort a vocabulary.
    """
    count, vocabulary = 64, key.shape[-1]
    while True:
        best = key.topk(min(count, vocabulary), dim=-1)
        held = probabilities.gather(1, best.indices).double().cumsum(-1)  # N count
        if count >= vocabulary or bool((held[:, -1] >= mass).all()):
            break
        count *= 8
    # A token stays where those before it hold too little.
    num_kept = 1 + (held[:, :-1] < mass).sum(-1, keepdim=True)
    return key >= best.values.gather(1, num_kept - 1)


def _counts(logits: Float[Tensor, "N V"], written: Sequence[Writing]) -> Float[Tensor, "N V"]:
    counts = torch.zeros_like(logits)
    for row, writing in enumerate(written):
        times = Counter(writing.tokens)
        counts[row, list(times)] = counts.new_tensor(list(times.values()))
    return counts


def _without(logits: Float[Tensor, "N V"], banned: Sequence[set[int]]) -> Float[Tensor, "N V"]:
    """The logits with each row's banned tokens at -inf."""
    rest = logits.clone()
    for row, tokens in enumerate(banned):
        rest[row, list(tokens)] = -torch.inf
    return rest
