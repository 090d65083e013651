"""Settings of text generation, and the rules that follow from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headway.decoding.rules import (
    Bias,
    Forbidden,
    FrequencyPenalty,
    Likeliest,
    MinLength,
    MinP,
    NoRepeat,
    Prefix,
    PresencePenalty,
    RepetitionPenalty,
    Rule,
    Temperature,
    TopK,
    TopP,
    Typical,
)
from headway.decoding.speculative import PromptLookup
from headway.errors import UsageError
from headway.settings import BEAMS, LENGTH, PENALTY, SEED, setting
from headway.text import TextTokenizer

LONGEST_PROMPT = 2**15  # tokens, of a model whose positions have no end


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """What is asked of a language model.

    Rules apply in this order: least length, forbidden words, n-grams, penalties (repetition,
    frequency, presence), bias; then temperature, top-k, top-p, min-p, typical; at last what the
    output must begin with, which nothing forbids. Beam search draws nothing, so it leaves out those
    from temperature to typical. A forbidden word is forbidden as its own tokens, with and without a
    space before it, with and without a capital: also at the beginning of longer words, and not
    where other tokens spell it.
    """

    max_tokens: int = setting(200, "most tokens written", gt=0, le=LENGTH)
    min_tokens: int = setting(0, "least tokens written before the end", ge=0, le=LENGTH)
    temperature: float = setting(
        0.8, "below 1 bolder, above 1 wilder; 0: always the likeliest", ge=0
    )
    top_k: int | None = setting(None, "only so many likeliest tokens", gt=0, le=LENGTH)
    top_p: float | None = setting(None, "the likeliest tokens of this probability", gt=0, le=1)
    min_p: float | None = setting(
        None, "tokens at least this share as likely as the likeliest", ge=0, le=1
    )
    typical: float | None = setting(None, "the most typical tokens of this probability", gt=0, le=1)
    repetition_penalty: float = setting(1.0, "divides the scores of tokens seen before", gt=0)
    frequency_penalty: float = setting(0.0, "taken off for each time a token was written")
    presence_penalty: float = setting(0.0, "taken off for a token that was written")
    no_repeat: int | None = setting(None, "no run of so many tokens comes twice", gt=0, le=LENGTH)
    stop: tuple[str, ...] = setting((), "text at which the output ends; it is not part of it")
    forbid: tuple[str, ...] = setting((), "words that must not be written")
    force: str = setting("", "text that the output begins with")
    bias: tuple[str, ...] = setting(
        (), "WORD=NUMBER: added to the score of a word that is one token"
    )
    beam: int = setting(1, "beams of beam search; 1: none", gt=0, le=BEAMS)
    beam_groups: int = setting(1, "groups of beams that avoid each other's words", gt=0, le=BEAMS)
    diversity: float = setting(0.5, "how much groups of beams avoid each other", ge=0)
    length_penalty: float = setting(
        1.0, "exponent of beam search's length penalty", ge=0, le=PENALTY
    )
    samples: int = setting(1, "outputs for each prompt", gt=0, le=BEAMS)
    seed: int = setting(0, "sample i of prompt j is drawn from seed + i, whatever j", ge=0, le=SEED)
    alternatives: int = setting(
        0, "so many of the likeliest tokens are told at each place", ge=0, le=BEAMS
    )

    lookup: int = setting(
        0,
        "so many tokens proposed at a time by copying from the text so far; 0: none",
        ge=0,
        le=BEAMS,
    )
    draft_tokens: int = setting(
        4, "so many tokens proposed at a time by a draft model", gt=0, le=BEAMS
    )

    def __post_init__(self) -> None:
        if not all(self.stop):
            raise ValueError("stop: a text to stop at must not be empty")
        if self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens={self.min_tokens} is more than {self.max_tokens=}")
        if self.beam % self.beam_groups:
            raise ValueError(f"beam={self.beam} must be a multiple of {self.beam_groups=}")
        if self.beam > 1 and self.samples > self.beam:
            raise ValueError(f"samples={self.samples} is more than beam={self.beam}")

    @property
    def own_draft(self) -> PromptLookup | None:
        """What proposes tokens when no draft model does."""
        return PromptLookup(count=self.lookup) if self.lookup else None

    def rules(self, tokenizer: TextTokenizer, prompts: int) -> list[Rule]:
        """The rules, for this many prompts."""
        forced = [Prefix([tokenizer.encode(self.force)] * prompts)] if self.force else []
        chosen: list[Rule] = []
        if self.min_tokens:
            chosen.append(MinLength(self.min_tokens, tokenizer.eos))
        if self.forbid:
            chosen.append(Forbidden(_spellings(tokenizer, self.forbid)))
        if self.no_repeat is not None:
            chosen.append(NoRepeat(self.no_repeat))
        if self.repetition_penalty != 1:
            chosen.append(RepetitionPenalty(self.repetition_penalty))
        if self.frequency_penalty:
            chosen.append(FrequencyPenalty(self.frequency_penalty))
        if self.presence_penalty:
            chosen.append(PresencePenalty(self.presence_penalty))
        if self.bias:
            chosen.append(Bias(_biases(tokenizer, self.bias)))
        if self.beam > 1:
            return [*chosen, *forced]
        if self.temperature == 0:
            return [*chosen, *forced, Likeliest()]
        if self.temperature != 1:
            chosen.append(Temperature(self.temperature))
        if self.top_k is not None:
            chosen.append(TopK(self.top_k))
        if self.top_p is not None:
            chosen.append(TopP(self.top_p))
        if self.min_p is not None:
            chosen.append(MinP(self.min_p))
        if self.typical is not None:
            chosen.append(Typical(self.typical))
        return [*chosen, *forced]


def _spellings(tokenizer: TextTokenizer, words: Sequence[str]) -> list[list[int]]:
    """Each word as it is and after a space, in lower case and with a capital."""
    forms = {
        form
        for word in words
        for plain in (word, word.lower(), word.capitalize())
        for form in (plain, " " + plain)
    }
    return [ids for form in sorted(forms) if (ids := tokenizer.encode(form))]


def _biases(tokenizer: TextTokenizer, entries: Sequence[str]) -> dict[int, float]:
    """{token: number} of WORD=NUMBER, for the word as it is and after a space."""
    values: dict[int, float] = {}
    for entry in entries:
        word, _, number = entry.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not word or math.isnan(value) or value == math.inf:
            raise UsageError(f"bias {entry!r}: must be WORD=NUMBER, such as banana=2.5")
        found = [tokenizer.encode(form) for form in (word, " " + word)]
        single = [ids[0] for ids in found if len(ids) == 1]
        if not single:
            raise UsageError(
                f"bias {entry!r}: {word!r} is {len(found[0])} tokens to this model, and a bias "
                "speaks of one",
                hint="one of its pieces; or forbid, which takes whole words",
            )
        values |= dict.fromkeys(single, value)
    return values
