"""Logit rules (logits processors): functions that change the logits before a token is chosen.

Rules apply one after another, in order; -inf forbids a token. A rule that truncates the
distribution (top-k, top-p, ...) keeps all tokens that are tied with the last one that it keeps, so
that its result does not depend on the order in which tokens are sorted.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from headway.base.errors import UsageError
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.base.transfers import upload
from headway.decoding.largest import largest
from headway.decoding.rule import Logits, PartialOutput


@dataclass(frozen=True)
class Temperature:
    """Temperature: divides the logits by `value`. Values below 1 sharpen the distribution, values
    above 1 flatten it."""

    depends_on_output: ClassVar[bool] = False
    value: float

    def __post_init__(self) -> None:
        _check("value", self.value, 0 < self.value < math.inf, "above 0 (MostProbable() is greedy)")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        return logits / self.value


@dataclass(frozen=True)
class MostProbable:
    """Greedy decoding: allows only the most probable token."""

    depends_on_output: ClassVar[bool] = False

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        best = logits.argmax(-1, keepdim=True)
        return torch.full_like(logits, -torch.inf).scatter(1, best, logits.gather(1, best))


@dataclass(frozen=True)
class TopK:
    """Top-k sampling: allows the `count` most probable tokens. Fan et al. 2018, section 5.4."""

    depends_on_output: ClassVar[bool] = False
    count: int

    def __post_init__(self) -> None:
        _check("count", self.count, self.count >= 1, "at least 1")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        if self.count >= logits.shape[-1]:
            return logits
        least = largest(logits, self.count)[0][:, -1:]
        return logits.masked_fill(logits < least, -torch.inf)


@dataclass(frozen=True)
class TopP:
    """Top-p (nucleus) sampling: allows the smallest set of most probable tokens whose total
    probability is at least `mass`. Holtzman et al. 2020."""

    depends_on_output: ClassVar[bool] = False
    mass: float

    def __post_init__(self) -> None:
        _check("mass", self.mass, 0 < self.mass <= 1, "above 0 and at most 1")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        if self.mass == 1:
            return logits
        probabilities = logits.softmax(-1)
        allowed = _fewest(probabilities, probabilities, self.mass)
        return logits.masked_fill(~allowed, -torch.inf)


@dataclass(frozen=True)
class MinP:
    """Min-p sampling: allows tokens at least `fraction` times as probable as the most probable one.
    Nguyen et al. 2024."""

    depends_on_output: ClassVar[bool] = False
    fraction: float

    def __post_init__(self) -> None:
        _check("fraction", self.fraction, 0 <= self.fraction <= 1, "between 0 and 1")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        probabilities = logits.softmax(-1)
        least = self.fraction * probabilities.amax(-1, keepdim=True)
        return logits.masked_fill(probabilities < least, -torch.inf)


@dataclass(frozen=True)
class Typical(TopP):
    """Typical sampling: allows the smallest set of tokens with total probability `mass` whose
    surprisal is closest to the entropy.

    Tokens are ordered by |-log p - H|, H the entropy of the row. Meister et al. 2023, section 3.
    """

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        if self.mass == 1:
            return logits
        log_p = logits.log_softmax(-1)
        probabilities = log_p.exp()
        entropy = -(probabilities * log_p).nansum(-1, keepdim=True)  # 0 log 0 = 0
        allowed = _fewest(-(log_p + entropy).abs(), probabilities, self.mass)
        return logits.masked_fill(~allowed, -torch.inf)


@dataclass(frozen=True)
class RepetitionPenalty:
    """Repetition penalty: lowers the logits of the tokens of prompt and output by a factor.

    l / value where l > 0, l * value elsewhere; 1 changes nothing. Keskar et al. 2019, section 4.1.
    """

    value: float

    def __post_init__(self) -> None:
        _check("value", self.value, 0 < self.value < math.inf, "above 0")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        repeated = torch.zeros_like(logits, dtype=torch.bool)
        repeated[_entries([writing.seen for writing in written], logits)] = True
        lower = torch.where(logits > 0, logits / self.value, logits * self.value)
        return torch.where(repeated, lower, logits)


@dataclass(frozen=True)
class FrequencyPenalty:
    """Frequency penalty: l - value * (number of occurrences of the token in this output)."""

    value: float

    def __post_init__(self) -> None:
        _check("value", self.value, math.isfinite(self.value), "a finite number")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        return logits - self.value * _counts(logits, written)


@dataclass(frozen=True)
class PresencePenalty:
    """Presence penalty: l - value for every token that occurs in this output."""

    value: float

    def __post_init__(self) -> None:
        _check("value", self.value, math.isfinite(self.value), "a finite number")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        return logits - self.value * _counts(logits, written).clamp(max=1)


@dataclass(frozen=True)
class NoRepeat:
    """No-repeat n-gram: no n-gram of `size` tokens occurs twice in prompt and output. Paulus et al.
    2018, section 2.5."""

    size: int

    def __post_init__(self) -> None:
        _check("size", self.size, self.size >= 1, "at least 1")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        return without(logits, [self._banned(writing.seen) for writing in written])

    def _banned(self, tokens: list[int]) -> set[int]:
        before = self.size - 1  # tokens of the n-gram before the next one
        if len(tokens) < self.size:
            return set()
        last = tokens[len(tokens) - before :]
        return {
            tokens[i + before]
            for i in range(len(tokens) - before)
            if tokens[i : i + before] == last
        }


@dataclass(frozen=True)
class Bias:
    """Logit bias: l + values[token]. -inf forbids a token."""

    depends_on_output: ClassVar[bool] = False
    values: Mapping[int, float]

    def __post_init__(self) -> None:
        for token, value in self.values.items():
            _check(f"values[{token}]", value, value < math.inf, "a finite number or -inf")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        check_inside(self.values, logits)
        bias = torch.zeros(logits.shape[-1], dtype=logits.dtype)
        bias[list(self.values)] = bias.new_tensor(list(self.values.values()))
        return logits + upload(bias, logits.device)


@dataclass(frozen=True)
class Only:
    """Allows only these tokens."""

    depends_on_output: ClassVar[bool] = False
    tokens: Sequence[int]

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        check_inside(self.tokens, logits)
        at = upload(torch.tensor(self.tokens), logits.device)
        return torch.full_like(logits, -torch.inf).index_copy(1, at, logits.index_select(1, at))


@dataclass(frozen=True)
class WithinVocabulary:
    """Allows only the first `size` tokens: the rest of a model's vocabulary may be padding."""

    depends_on_output: ClassVar[bool] = False
    size: int

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        padding = torch.arange(logits.shape[1], device=logits.device) >= self.size
        return logits.masked_fill(padding, -torch.inf)


@dataclass(frozen=True)
class Forbidden:
    """Forbids sequences of tokens. A sequence that begins in the prompt is forbidden too."""

    words: Sequence[Sequence[int]]

    @property
    def depends_on_output(self) -> bool:
        """Whether any sequence has several tokens, the first of which may have been generated."""
        return any(len(word) > 1 for word in self.words)

    def __post_init__(self) -> None:
        _check("words", self.words, all(self.words), "sequences of at least one token")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        for word in self.words:
            check_inside(word, logits)
        always = [word[0] for word in self.words if len(word) == 1]
        allowed = logits
        if always:
            at = upload(torch.tensor(always), logits.device)
            allowed = logits.index_fill(1, at, -torch.inf)
        if len(always) == len(self.words):
            return allowed
        return without(allowed, [self._banned(writing.seen) for writing in written])

    def _banned(self, tokens: list[int]) -> set[int]:
        return {
            word[-1]
            for word in self.words
            if len(word) > 1
            and len(tokens) >= len(word) - 1
            and tokens[len(tokens) - len(word) + 1 :] == list(word[:-1])
        }


@dataclass(frozen=True)
class Prefix:
    """Forces the outputs of input i to begin with `tokens[i]`."""

    tokens: Sequence[Sequence[int]]

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        next_tokens: list[list[int]] = []
        for writing in written:
            prefix, position = self.tokens[writing.item], len(writing.tokens)
            check_inside(prefix, logits)
            next_tokens.append(list(prefix[position : position + 1]))
        entries = _entries(next_tokens, logits)
        forced = logits.index_fill(0, entries[0], -torch.inf)
        forced[entries] = 0.0
        return forced


def _check(name: str, value: object, holds: bool, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name}={value} must be {expected}")


def check_inside(tokens: Mapping[int, float] | Sequence[int], logits: Tensor) -> None:
    """Raise UsageError for a token that the logits do not have."""
    size = logits.shape[-1]
    for token in tokens:
        if not 0 <= token < size:
            raise UsageError(f"{token=} is outside the vocabulary of {size}")


def _fewest(
    key: Float[Tensor, "N V"], probabilities: Float[Tensor, "N V"], mass: float
) -> Bool[Tensor, "N V"]:
    """Return the smallest set of tokens, by falling key, with total probability `mass` or more, and
    all tokens that are tied with the last.

    Usually few tokens are enough, and top-k of those is faster than to sort the vocabulary.
    """
    count, vocabulary = 64, key.shape[-1]
    if key.device.type != "cpu":
        count = vocabulary  # to sort is faster on a GPU than to wait for it
    while True:
        values, tokens = largest(key, min(count, vocabulary))
        cumulative = probabilities.gather(1, tokens).double().cumsum(-1)  # N count
        if count >= vocabulary or bool((cumulative[:, -1] >= mass).all()):
            break
        count *= 8
    # A token is kept if those before it have a total probability below the mass.
    num_kept = 1 + (cumulative[:, :-1] < mass).sum(-1, keepdim=True)
    return key >= values.gather(1, num_kept - 1)


def _counts(logits: Float[Tensor, "N V"], written: Sequence[PartialOutput]) -> Float[Tensor, "N V"]:
    return counted_tokens([Counter(writing.tokens) for writing in written], logits)


def counted_tokens(times: Sequence[Counter[int]], like: Float[Tensor, "N V"]) -> Tensor:
    """Return how often each row has each token, as a matrix of the dtype and device of `like`."""
    counts = like.new_zeros(len(times), like.shape[-1])
    values = [float(n) for row in times for n in row.values()]
    entries = _entries([list(row) for row in times], like)
    counts[entries] = upload(torch.tensor(values, dtype=like.dtype), like.device)
    return counts


def _entries(
    tokens: Sequence[Collection[int]], like: Tensor
) -> tuple[Int[Tensor, " M"], Int[Tensor, " M"]]:
    """Return the index of entries of a matrix: row n has those of tokens[n]."""
    rows = [n for n, of_row in enumerate(tokens) for _ in of_row]
    columns = [token for of_row in tokens for token in of_row]
    index = upload(torch.tensor([rows, columns], dtype=torch.long), like.device)
    return index[0], index[1]


def without(logits: Float[Tensor, "N V"], banned: Sequence[set[int]]) -> Float[Tensor, "N V"]:
    """Return the logits with the banned tokens of each row at -inf."""
    allowed = logits.clone()
    allowed[_entries(banned, logits)] = -torch.inf
    return allowed
