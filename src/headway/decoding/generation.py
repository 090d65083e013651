"""Text in, text out: how a language model's answer is asked for, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from headway.data.batches import padded
from headway.decoding.beam import beam_search
from headway.decoding.generation_config import GenerationConfig
from headway.decoding.rules import (
    Rule,
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
from headway.decoding.speculative import Draft, speculative_steps
from headway.decoding.writing import Writer
from headway.errors import UsageError
from headway.models import GPT
from headway.text import TextTokenizer

LONGEST_PROMPT = 2**15  # tokens, of a model whose positions have no end


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
