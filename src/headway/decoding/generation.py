"""Text in, text out: how a language model's answer is asked for, and what comes back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from headway.decoding.beam import beam_search
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
from headway.decoding.sampling import Draw, padded, sample
from headway.decoding.search import Limits
from headway.decoding.writing import Writer
from headway.errors import UsageError
from headway.models import GPT
from headway.settings import setting
from headway.text import TextTokenizer

Reason = Literal["end", "stop", "length", "context"]


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """What is asked of a language model.

    Rules apply in this order: what the output must begin with, its least length, forbidden words,
    n-grams, penalties, bias; then temperature, top-k, top-p, min-p, typical.
    """

    max_tokens: int = setting(200, "most tokens written", gt=0)
    min_tokens: int = setting(0, "least tokens written before the end", ge=0)
    temperature: float = setting(
        0.8, "below 1 bolder, above 1 wilder; 0: always the likeliest", ge=0
    )
    top_k: int | None = setting(None, "only so many likeliest tokens", gt=0)
    top_p: float | None = setting(None, "the likeliest tokens of this probability", gt=0, le=1)
    min_p: float | None = setting(
        None, "tokens at least this share as likely as the likeliest", ge=0, le=1
    )
    typical: float | None = setting(None, "the most typical tokens of this probability", gt=0, le=1)
    repetition_penalty: float = setting(1.0, "divides the scores of tokens seen before", gt=0)
    frequency_penalty: float = setting(0.0, "taken off for each time a token was written")
    presence_penalty: float = setting(0.0, "taken off for a token that was written")
    no_repeat: int | None = setting(None, "no run of so many tokens comes twice", gt=0)
    stop: tuple[str, ...] = setting((), "text at which the output ends; it is not part of it")
    forbid: tuple[str, ...] = setting((), "words that must not be written")
    force: str = setting("", "text that the output begins with")
    bias: tuple[str, ...] = setting(
        (), "WORD=NUMBER: added to the score of a word that is one token"
    )
    beam: int = setting(1, "beams of beam search; 1: none", gt=0)
    length_penalty: float = setting(1.0, "exponent of beam search's length penalty", ge=0)
    samples: int = setting(1, "outputs for each prompt", gt=0)
    seed: int = setting(0, "sample i of prompt j is drawn from seed + i, whatever j", ge=0)

    def __post_init__(self) -> None:
        if not all(self.stop):
            raise ValueError("stop: a text to stop at must not be empty")
        if self.beam > 1 and self.samples > self.beam:
            raise ValueError(f"samples={self.samples} is more than beam={self.beam}")

    def rules(self, tokenizer: TextTokenizer, prompts: int) -> list[Rule]:
        """The rules, for this many prompts."""
        chosen: list[Rule] = []
        if self.force:
            chosen.append(Prefix([tokenizer.encode(self.force)] * prompts))
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
            return chosen
        if self.temperature == 0:
            return [*chosen, Likeliest()]
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
        return chosen


@dataclass(frozen=True)
class Continuation:
    """What a model wrote after a prompt.

    tokens: all that it wrote, those of a stop string included, without the end of text.
    log_probabilities: of each, in nats, by the model itself. reason: why it ended there: the model
    ended its text, a stop string came, max_tokens were written, or the model knows no more places.
    """

    text: str
    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    reason: Reason


def generate(
    model: GPT, tokenizer: TextTokenizer, prompts: Sequence[str], config: GenerationConfig
) -> list[list[Continuation]]:
    """`config.samples` continuations of each prompt, which are read and continued together."""
    if not prompts:
        return []
    ids = [tokenizer.begin(prompt) for prompt in prompts]
    check_room(model, ids)
    if config.beam > 1:
        return _beams(model, tokenizer, ids, config)
    outputs = [
        _Output(Writer(tokenizer, row, config.stop), config.max_tokens)
        for row in ids
        for _ in range(config.samples)
    ]
    for _ in _steps(model, tokenizer, ids, config, outputs):
        pass
    found = [output.finished() for output in outputs]
    return [found[i : i + config.samples] for i in range(0, len(found), config.samples)]


def stream(
    model: GPT, tokenizer: TextTokenizer, prompt: str, config: GenerationConfig
) -> Iterator[str]:
    """The text of `generate` for one prompt, in pieces, as it is written."""
    if config.beam > 1 or config.samples > 1:
        raise UsageError(
            "only one output can be shown while it is written",
            hint="no beams and one sample, or generate instead of stream",
        )
    ids = [tokenizer.begin(prompt)]
    check_room(model, ids)
    output = _Output(Writer(tokenizer, ids[0], config.stop), config.max_tokens)
    shown = 0
    for _ in _steps(model, tokenizer, ids, config, [output]):
        yield from output.pieces[shown:]
        shown = len(output.pieces)
    output.finished()
    yield from output.pieces[shown:]


def check_room(model: GPT, prompts: Sequence[Sequence[int]]) -> None:
    """UsageError for a prompt that a learned table of positions has no place for."""
    longest, room = max(map(len, prompts)), model.max_length
    if room is not None and longest > room:
        raise UsageError(
            f"the prompt has {longest:,} tokens, and the model's learned positions end at {room:,}",
            hint="shorten it, or use a model with rotary positions",
        )


class _Output:
    """One continuation while it is written."""

    def __init__(self, writer: Writer, max_tokens: int) -> None:
        self.writer, self.max_tokens = writer, max_tokens
        self.pieces: list[str] = []
        self.tokens: list[int] = []
        self.log_probabilities: list[float] = []
        self.reason: Reason = "context"  # unless something else ends it

    def add(self, token: int, log_probability: float, eos: int) -> bool:
        """Take the next token; True when it was the last."""
        if token == eos:
            self.reason = "end"
            return True
        self.tokens.append(token)
        self.log_probabilities.append(log_probability)
        if piece := self.writer.feed(token):
            self.pieces.append(piece)
        if self.writer.stopped:
            self.reason = "stop"
        elif len(self.tokens) == self.max_tokens:
            self.reason = "length"
        return self.reason != "context"

    def finished(self) -> Continuation:
        if piece := self.writer.finish():
            self.pieces.append(piece)
        if self.writer.stopped:
            self.reason = "stop"
        return Continuation(
            "".join(self.pieces), tuple(self.tokens), tuple(self.log_probabilities), self.reason
        )


def _steps(
    model: GPT,
    tokenizer: TextTokenizer,
    ids: Sequence[Sequence[int]],
    config: GenerationConfig,
    outputs: Sequence[_Output],
) -> Iterator[None]:
    """Fill `outputs`, a token each at every step."""
    rules = config.rules(tokenizer, len(ids))
    seeds = [config.seed + i for _ in ids for i in range(config.samples)]
    steps = sample(model, ids, Draw(rules, seeds), samples=config.samples)
    ended: list[int] | None = None
    while True:
        try:
            chosen = steps.send(ended)
        except StopIteration:
            return
        ended = [
            c.row for c in chosen if outputs[c.row].add(c.token, c.log_probability, tokenizer.eos)
        ]
        yield


def _beams(
    model: GPT, tokenizer: TextTokenizer, ids: Sequence[Sequence[int]], config: GenerationConfig
) -> list[list[Continuation]]:
    """The best of beam search, `config.samples` of them; a stop string cuts what it finds."""
    room = model.max_length
    longest = [
        config.max_tokens if room is None else min(config.max_tokens, room - len(row) + 1)
        for row in ids
    ]
    limits = Limits([row[-1] for row in ids], tokenizer.eos, longest, prompts=ids)
    device = next(model.parameters()).device
    found = beam_search(
        model,
        padded([row[:-1] for row in ids], device),
        limits,
        width=config.beam,
        alpha=config.length_penalty,
        num_best=config.samples,
        rules=config.rules(tokenizer, len(ids)),
    )
    results = []
    for row, best in zip(ids, found, strict=True):
        outputs = []
        for hypothesis in best:
            output = _Output(Writer(tokenizer, row, config.stop), config.max_tokens)
            tokens = [*hypothesis.tokens, tokenizer.eos]
            for token, log_p in zip(tokens, log_probabilities(model, row, tokens), strict=True):
                if output.add(token, log_p, tokenizer.eos):
                    break
            outputs.append(output.finished())
        results.append(outputs)
    return results


@torch.inference_mode()
def log_probabilities(model: GPT, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
    """log P of each of `tokens` after the prompt and those before it, in nats."""
    if not tokens:
        return []
    ids = torch.tensor([[*prompt, *tokens]], device=next(model.parameters()).device)
    log_p = model(ids[:, :-1])[0, len(prompt) - 1 :].float().log_softmax(-1)
    chosen: list[float] = log_p.gather(1, ids[0, len(prompt) :, None])[:, 0].tolist()
    return chosen


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
