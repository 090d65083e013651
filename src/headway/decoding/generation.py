"""Text in, text out: how a language model's answer is asked for, and what comes back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from headway.data.batches import padded
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
    Within,
)
from headway.decoding.sampling import (
    Reason,
    Row,
    Sampling,
    open_rows,
    sample_steps,
)
from headway.decoding.search import Limits
from headway.decoding.speculative import Draft, PromptLookup, speculative_steps
from headway.decoding.writing import Writer
from headway.errors import UsageError
from headway.models import GPT
from headway.settings import BEAMS, LENGTH, PENALTY, setting
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
    seed: int = setting(0, "sample i of prompt j is drawn from seed + i, whatever j", ge=0)
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


@dataclass(frozen=True)
class Continuation:
    """What a model wrote after a prompt.

    tokens: all that it wrote, those of a stop string included, without the end of text.
    log_probabilities: of each, in nats, by the model itself. reason: why it ended there: the model
    ended its text, a stop string came, max_tokens were written, or the model knows no more places.
    seed: with it as the only sample's, the same comes again. alternatives: at each place the
    likeliest tokens and their log-probabilities, as many as were asked for.
    """

    text: str
    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    reason: Reason
    seed: int = 0
    alternatives: tuple[tuple[tuple[int, float], ...], ...] = ()


def generate(
    model: GPT,
    tokenizer: TextTokenizer,
    prompts: Sequence[str],
    config: GenerationConfig,
    draft: Draft | None = None,
) -> list[list[Continuation]]:
    """`config.samples` continuations of each prompt, which are read and continued together.

    draft: proposes tokens, so that the model reads several at once; what comes is drawn from the
    same distribution, and at temperature 0 is the same.
    """
    if not prompts:
        return []
    ids = _begun(model, tokenizer, prompts)
    if config.beam > 1:
        if draft is not None or config.lookup:
            raise UsageError("beam search takes no draft", hint="beam=1, or no draft and lookup")
        return _beams(model, tokenizer, ids, config)
    outputs = _open(model, tokenizer, ids, config)
    for _ in _steps(model, tokenizer, outputs, config, draft or config.own_draft):
        pass
    found = [output.finished() for output in outputs]
    return [found[i : i + config.samples] for i in range(0, len(found), config.samples)]


def stream(
    model: GPT,
    tokenizer: TextTokenizer,
    prompt: str,
    config: GenerationConfig,
    draft: Draft | None = None,
) -> Iterator[str]:
    """The text of `generate` for one prompt, in pieces, as it is written."""
    if config.beam > 1 or config.samples > 1:
        raise UsageError(
            "only one output can be shown while it is written",
            hint="no beams and one sample, or generate instead of stream",
        )
    (output,) = _open(model, tokenizer, _begun(model, tokenizer, [prompt]), config)
    shown = 0
    for _ in _steps(model, tokenizer, [output], config, draft or config.own_draft):
        yield from output.pieces[shown:]
        shown = len(output.pieces)
    output.finished()
    yield from output.pieces[shown:]


class _Output:
    """The text of a row while it is written."""

    def __init__(self, row: Row, writer: Writer) -> None:
        self.row, self.writer = row, writer
        self.pieces: list[str] = []

    def grow(self) -> None:
        """Take the row's last token; a stop string ends it."""
        self._show(self.writer.feed(self.row.tokens[-1]))

    def finished(self) -> Continuation:
        self._show(self.writer.finish())
        row = self.row
        if row.reason is None:
            raise AssertionError("an output that goes on")
        return Continuation(
            "".join(self.pieces),
            tuple(row.tokens),
            tuple(row.log_probabilities),
            row.reason,
            row.seed,
            tuple(tuple(best) for best in row.alternatives),
        )

    def _show(self, piece: str) -> None:
        if piece:
            self.pieces.append(piece)
        if self.writer.stopped:
            self.row.end("stop")


def _begun(model: GPT, tokenizer: TextTokenizer, prompts: Sequence[str]) -> list[list[int]]:
    """The tokens of each prompt. UsageError for more than `LONGEST_PROMPT` of them, or than the
    context of a model that was trained on more; attention takes time that grows with their
    square."""
    found = [tokenizer.begin(prompt) for prompt in prompts]
    most = max(LONGEST_PROMPT, model.config.max_length)
    for number, ids in enumerate(found, start=1):
        if len(ids) > most:
            raise UsageError(
                f"{len(ids):,} tokens are more than the {most:,} that are read of a prompt",
                f"prompt {number}",
                "shorten it",
            )
    return found


def _open(
    model: GPT, tokenizer: TextTokenizer, ids: Sequence[Sequence[int]], config: GenerationConfig
) -> list[_Output]:
    seeds = [[config.seed + i for i in range(config.samples)] for _ in ids]
    rows = open_rows(model, ids, seeds, _sampling(model, tokenizer, config, len(ids)))
    return [_Output(row, Writer(tokenizer, row.prompt, config.stop)) for row in rows]


def _sampling(
    model: GPT, tokenizer: TextTokenizer, config: GenerationConfig, prompts: int
) -> Sampling:
    padded = model.config.vocabulary > tokenizer.size
    known: list[Rule] = [Within(tokenizer.size)] if padded else []
    return Sampling(
        eos=tokenizer.eos,
        max_tokens=config.max_tokens,
        rules=[*known, *config.rules(tokenizer, prompts)],
        alternatives=config.alternatives,
    )


def _steps(
    model: GPT,
    tokenizer: TextTokenizer,
    outputs: Sequence[_Output],
    config: GenerationConfig,
    draft: Draft | None,
) -> Iterator[None]:
    """Fill `outputs`, one token more at every step for those that are not done."""
    rows = [output.row for output in outputs]
    of_row = {id(output.row): output for output in outputs}
    sampling = _sampling(model, tokenizer, config, rows[-1].item + 1)
    steps = (
        sample_steps(model, rows, sampling)
        if draft is None
        else speculative_steps(model, rows, sampling, draft)
    )
    for grown in steps:
        for row in grown:
            of_row[id(row)].grow()
        yield


def _beams(
    model: GPT, tokenizer: TextTokenizer, ids: Sequence[Sequence[int]], config: GenerationConfig
) -> list[list[Continuation]]:
    """The best of beam search, `config.samples` of them; a stop string cuts what it finds."""
    sampling = _sampling(model, tokenizer, config, len(ids))
    opened = open_rows(model, ids, [[config.seed]] * len(ids), sampling)
    limits = Limits(
        [row[-1] for row in ids],
        tokenizer.eos,
        [row.limit for row in opened],
        sampling.rules,
        prompts=ids,
        cut=True,
    )
    tokens, keys = padded([row[:-1] for row in ids], 0)
    device = next(model.parameters()).device
    found = beam_search(
        model,
        (tokens.to(device), keys.to(device)),
        limits,
        width=config.beam,
        alpha=config.length_penalty,
        num_best=config.samples,
        groups=config.beam_groups,
        diversity=config.diversity,
    )
    return [
        [_told(model, Writer(tokenizer, row.prompt, config.stop), row, h.tokens) for h in best]
        for row, best in zip(opened, found, strict=True)
    ]


def _told(model: GPT, writer: Writer, like: Row, tokens: Sequence[int]) -> Continuation:
    """What beam search found, as if it had been written token by token."""
    row = replace(like, tokens=[], log_probabilities=[], alternatives=[], reason=None)
    output = _Output(row, writer)
    known = log_probabilities(model, row.prompt, tokens)
    for token, log_p in zip(tokens, known, strict=True):
        row.tokens.append(token)
        row.log_probabilities.append(log_p)
        output.grow()
        if row.reason is not None:
            break
    else:
        row.end(row.full if len(tokens) == row.limit else "end")
    return output.finished()


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
