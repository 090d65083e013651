"""Contract of a logit rule: new logits from logits and the outputs so far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headway.base.errors import DataError, UsageError
from headway.base.shapes import Float, Tensor

Logits = Float[Tensor, "N V"]


@dataclass
class PartialOutput:
    """One output so far.

    tokens: the generated tokens, without <s>. prompt: the tokens before them. item: the index of
    the input that the output belongs to.
    """

    tokens: list[int] = field(default_factory=list)
    prompt: Sequence[int] = ()
    item: int = 0

    @property
    def seen(self) -> list[int]:
        """The tokens of prompt and output."""
        return [*self.prompt, *self.tokens]

    @property
    def last(self) -> int:
        """The last token of prompt and output."""
        return self.tokens[-1] if self.tokens else self.prompt[-1]


class Rule(Protocol):
    """Returns new logits for each row, given the output of the row so far; modifies nothing.

    The result of a row must not depend on other rows. A rule may have the attribute
    `depends_on_output`, False if it does not use `written`: then a GPU continues a search before
    the tokens that it chose are read.
    """

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits: ...


def as_ends(eos: int | Sequence[int]) -> tuple[int, ...]:
    """Return the tokens that end an output, for one or several."""
    return (eos,) if isinstance(eos, int) else tuple(eos)


def depend_on_outputs(rules: Sequence[Rule]) -> bool:
    """Return whether any rule uses the tokens generated so far."""
    return any(getattr(rule, "depends_on_output", True) for rule in rules)


def ruled_logits(
    rules: Sequence[Rule], logits: Float[Tensor, "N V"], written: Sequence[PartialOutput]
) -> Float[Tensor, "N V"]:
    """Return the logits after all rules, which may forbid every token of a row (`check_choice`)."""
    for rule in rules:
        logits = rule(logits, written)
    return logits


def check_choice(best: float, rules: Sequence[Rule], written: PartialOutput) -> None:
    """Raise UsageError if the rules forbid every token of a row, DataError if its logits are not
    finite.

    best: the largest logit of the row after the rules.
    """
    if math.isfinite(best):
        return
    after = written.seen[-8:]
    if best == -math.inf:
        names = ", ".join(str(rule) for rule in rules) or "no rule"
        raise UsageError(
            f"every token is forbidden after tokens {after}, by {names}",
            hint="relax these rules, or allow shorter outputs",
        )
    raise not_finite(f" after tokens {after}")


def not_finite(where: str = "") -> DataError:
    """Return the error for logits of NaN or +inf, from which no token can be chosen."""
    return DataError(
        f"the model's logits{where} are not finite",
        hint="the weights are damaged or training diverged: use an earlier checkpoint",
    )
