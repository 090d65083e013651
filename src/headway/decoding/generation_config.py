"""Settings of text generation, and the logit rules that follow from them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headway.base.errors import UsageError
from headway.base.settings import BEAMS, LENGTH, SEED, count, setting, with_default
from headway.decoding import rules
from headway.decoding.length_rules import ForbiddenFirst, MinLength
from headway.decoding.rule import Rule
from headway.decoding.search import BeamSettings
from headway.decoding.speculative import PromptLookup
from headway.text import TextTokenizer

COLDEST = 1e-20
"""The lowest temperature above 0. Clients that mean 0 send numbers such as 1e-8, which are used."""


@dataclass(frozen=True, kw_only=True)
class GenerationConfig(BeamSettings):
    """Settings of text generation with a language model.

    The logit rules apply in this order: minimum length, forbidden words, no-repeat n-grams,
    penalties (repetition, frequency, presence), bias; then temperature, top-k, top-p, min-p,
    typical sampling; last the forced beginning of the output, which overrides all others. Beam
    search samples nothing, so it skips temperature, top-k, top-p, min-p and typical sampling.

    A forbidden word is a sequence of tokens: the encoding of the word with and without a space
    before it, with and without a capital letter. The same tokens are also forbidden at the
    beginning of a longer word; another tokenisation of the word is not forbidden.
    """

    max_tokens: int = count(200, "Maximum number of tokens to generate.", LENGTH)
    min_tokens: int = count(
        0, "Minimum number of tokens before the end-of-text token is allowed.", LENGTH, least=0
    )
    max_length: int | None = count(
        None,
        "Maximum number of tokens of prompt and output together. If unset, the model's context.",
        LENGTH,
    )
    min_length: int = count(
        0,
        "Minimum number of tokens of prompt and output together before the end-of-text token is "
        "allowed.",
        LENGTH,
        least=0,
    )
    temperature: float = setting(
        0.8,
        "Sampling temperature: lower values are more deterministic, higher ones more random; "
        "1 samples from the model's own distribution, 0 is greedy decoding.",
        ge=0,
    )
    top_k: int | None = count(
        None,
        "Top-k sampling: number of most probable tokens to sample from. If unset, no limit.",
        LENGTH,
    )
    top_p: float | None = setting(
        None,
        "Top-p (nucleus) sampling: total probability, 0 to 1, of the most probable tokens to "
        "sample from. If unset, 1.",
        gt=0,
        le=1,
    )
    min_p: float | None = setting(
        None,
        "Min-p sampling: minimum probability of a token as a fraction, 0 to 1, of the most "
        "probable token's. If unset, 0.",
        ge=0,
        le=1,
    )
    typical: float | None = setting(
        None,
        "Typical sampling: total probability, 0 to 1, of the tokens whose surprisal is closest "
        "to the entropy. If unset, 1.",
        gt=0,
        le=1,
    )
    repetition_penalty: float = setting(
        1.0,
        "Repetition penalty: factor above 1 that lowers the logits of all tokens of the prompt "
        "and the output; 1 is none.",
        gt=0,
    )
    frequency_penalty: float = setting(
        0.0, "Frequency penalty: subtracted from a token's logit per occurrence in the output."
    )
    presence_penalty: float = setting(
        0.0, "Presence penalty: subtracted once from the logit of every token of the output."
    )
    no_repeat: int | None = count(
        None,
        "No-repeat n-gram size: no n-gram of this many tokens occurs twice in prompt and output. "
        "If unset, n-grams may repeat.",
        LENGTH,
    )
    stop: tuple[str, ...] = setting(
        (), "Stop strings: the output ends before the first one that is generated."
    )
    forbid: tuple[str, ...] = setting((), "Words that must not be generated.")
    forbid_ids: tuple[str, ...] = setting(
        (),
        "Sequences of tokens that must not be generated, as ids separated by spaces: 5 or 7 9.",
    )
    forbid_first: tuple[int, ...] = setting((), "Ids of tokens with which no output may begin.")
    force: str = setting("", "Text that every output begins with.")
    bias: tuple[str, ...] = setting(
        (), "Logit bias as WORD=NUMBER: added to the logit of a word that is a single token."
    )
    beam: int = with_default(BeamSettings, "beam", 1)
    contrastive: float = setting(
        0.0,
        "Contrastive search: weight, 0 to 1, of the similarity between the vector of a candidate "
        "and those of all earlier tokens, against its probability; nothing is sampled, and top-k "
        "is the number of candidates (if unset, 4). 0 is no contrastive search.",
        ge=0,
        le=1,
    )
    dola: Literal["none", "low", "high"] = setting(
        "none",
        "DoLa: the last layer's prediction is contrasted with that of a layer of the lower or "
        "upper half; log-probabilities are then those of the contrasted scores.",
    )
    samples: int = count(1, "Number of outputs per prompt.", BEAMS)
    seed: int = setting(
        0, "Random seed; sample i of every prompt uses the seed + i.", ge=0, le=SEED
    )
    alternatives: int = count(
        0,
        "Number of most probable tokens to report at each position, with their probabilities.",
        BEAMS,
        least=0,
    )

    lookup: int = count(
        0,
        "Prompt lookup decoding: number of tokens proposed at a time by copying from the text so "
        "far; 0 is none.",
        BEAMS,
        least=0,
    )
    draft_tokens: int = count(
        4, "Speculative decoding: number of tokens that the draft model proposes at a time.", BEAMS
    )

    def __post_init__(self) -> None:
        if 0 < self.temperature < COLDEST:
            raise ValueError(
                f"temperature={self.temperature:g}: must be 0 (always the most probable token) or "
                f"at least {COLDEST:g}: logits that are divided by less are infinite"
            )
        if not all(self.stop):
            raise ValueError("stop: a stop string must not be empty")
        if any(token < 0 for token in self.forbid_first):
            raise ValueError(f"forbid_first={self.forbid_first}: ids must be at least 0")
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens={self.min_tokens} is more than max_tokens={self.max_tokens}"
            )
        if self.beam > 1 and self.samples > self.beam:
            raise ValueError(f"samples={self.samples} is more than beam={self.beam}")
        self.check()
        if self.contrastive and (self.beam > 1 or self.samples > 1):
            raise ValueError(
                f"contrastive={self.contrastive} gives one output without a beam, not "
                f"beam={self.beam}, samples={self.samples}"
            )
        if self.contrastive and self.dola != "none":
            raise ValueError(
                f"contrastive={self.contrastive} and dola={self.dola} exclude each other"
            )

    @property
    def own_draft(self) -> PromptLookup | None:
        """The draft that copies from the text so far; None if `lookup` is 0."""
        return PromptLookup(count=self.lookup) if self.lookup else None

    def rules(self, tokenizer: TextTokenizer, prompts: int) -> list[Rule]:
        """The logit rules that these settings ask for, in order. prompts: the number of prompts."""
        forced = [rules.Prefix([tokenizer.encode(self.force)] * prompts)] if self.force else []
        chosen: list[Rule] = []
        if self.min_tokens:
            chosen.append(MinLength(self.min_tokens, tokenizer.ends))
        if self.min_length:
            chosen.append(MinLength(self.min_length, tokenizer.ends, with_prompt=True))
        if self.forbid_ids:
            chosen.append(rules.Forbidden([_ids(entry) for entry in self.forbid_ids]))
        if self.forbid_first:
            chosen.append(ForbiddenFirst(self.forbid_first))
        if self.forbid:
            chosen.append(rules.Forbidden(_spellings(tokenizer, self.forbid)))
        if self.no_repeat is not None:
            chosen.append(rules.NoRepeat(self.no_repeat))
        if self.repetition_penalty != 1:
            chosen.append(rules.RepetitionPenalty(self.repetition_penalty))
        if self.frequency_penalty:
            chosen.append(rules.FrequencyPenalty(self.frequency_penalty))
        if self.presence_penalty:
            chosen.append(rules.PresencePenalty(self.presence_penalty))
        if self.bias:
            chosen.append(rules.Bias(_biases(tokenizer, self.bias)))
        if self.beam > 1 or self.contrastive:
            return [*chosen, *forced]
        if self.temperature == 0:
            return [*chosen, *forced, rules.MostProbable()]
        if self.temperature != 1:
            chosen.append(rules.Temperature(self.temperature))
        if self.top_k is not None:
            chosen.append(rules.TopK(self.top_k))
        if self.top_p is not None:
            chosen.append(rules.TopP(self.top_p))
        if self.min_p is not None:
            chosen.append(rules.MinP(self.min_p))
        if self.typical is not None:
            chosen.append(rules.Typical(self.typical))
        return [*chosen, *forced]


def _spellings(tokenizer: TextTokenizer, words: Sequence[str]) -> list[list[int]]:
    """The encodings of each word: as it is, in lower case and with a capital, each of them with and
    without a space before it."""
    forms = {
        form
        for word in words
        for plain in (word, word.lower(), word.capitalize())
        for form in (plain, " " + plain)
    }
    return [ids for form in sorted(forms) if (ids := tokenizer.encode(form))]


def _ids(entry: str) -> list[int]:
    """Return the ids in an entry of `forbid_ids`. Raises UsageError for anything else."""
    numbers = entry.split()
    if not numbers or not all(number.isascii() and number.isdecimal() for number in numbers):
        raise UsageError(f"forbid_ids {entry!r}: must be ids separated by spaces, such as 7 9")
    return [int(number) for number in numbers]


def _biases(tokenizer: TextTokenizer, entries: Sequence[str]) -> dict[int, float]:
    """Parse entries WORD=NUMBER to {token: number}, for the word with and without a space before
    it. Raises UsageError for a malformed entry and for a word of several tokens."""
    values: dict[int, float] = {}
    for entry in entries:
        word, _, number = entry.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not word or math.isnan(value) or value == math.inf:
            raise UsageError(f"bias {entry!r}: must be WORD=NUMBER, such as banana=2.5")
        encodings = [tokenizer.encode(form) for form in (word, " " + word)]
        single = [ids[0] for ids in encodings if len(ids) == 1]
        if not single:
            raise UsageError(
                f"bias {entry!r}: {word!r} is {len(encodings[0])} tokens in this model's "
                "vocabulary, but a bias applies to a single token",
                hint="give the bias to one of its tokens, or use forbid, which takes whole words",
            )
        values |= dict.fromkeys(single, value)
    return values
