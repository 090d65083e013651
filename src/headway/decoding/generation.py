"""Text generation with a language model: prompts in, continuations out."""

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from headway.base.errors import UsageError
from headway.base.shapes import Tensor
from headway.base.transfers import upload
from headway.data.padding import padded
from headway.decoding.contrastive import CANDIDATES, contrastive_steps
from headway.decoding.fast_beam import fast_beam_search, stream_beam
from headway.decoding.generation_config import GenerationConfig
from headway.decoding.layer_contrast import LayerContrast, layer_contrast
from headway.decoding.rule import Rule
from headway.decoding.rules import WithinVocabulary
from headway.decoding.sampling import Reason, Row, Sampling, open_rows, sample_search
from headway.decoding.search import Limits, Search, run, steps
from headway.decoding.speculative import Draft, speculative_steps
from headway.decoding.writing import TextStreamer
from headway.models import GPT
from headway.models.contracts import Stepper
from headway.text import TextTokenizer

LONGEST_PROMPT = 2**15  # maximum number of tokens for a model without a maximum length


@dataclass(frozen=True)
class Continuation:
    """The text that a model generated after a prompt.

    tokens: all generated tokens, those of a stop string included, without the end-of-text token.
    log_probabilities: of each token under the model's own distribution, in nats. reason: why the
    output ended: end-of-text token, stop string, `max_tokens`, or end of the model's context. seed:
    with this seed and one sample, the output is reproduced. alternatives: at each position the most
    probable tokens and their log-probabilities.
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
    """Return `config.samples` continuations of each prompt, generated in one batch.

    draft: proposes tokens that the model verifies in one step (speculative decoding). The output
    has the same distribution as without a draft; at temperature 0 it is the same.
    """
    if not prompts:
        return []
    ids = _encoded_prompts(model, tokenizer, prompts)
    return generate_from_tokens(model, tokenizer, ids, config, draft)


def generate_from_tokens(
    model: GPT,
    tokenizer: TextTokenizer,
    ids: Sequence[Sequence[int]],
    config: GenerationConfig,
    draft: Draft | None = None,
) -> list[list[Continuation]]:
    """Return `config.samples` continuations of each prompt, given as tokens, at least one."""
    _check_draft(config, draft)
    if config.beam > 1:
        with _stepper(model, config) as stepper:
            return run(stepper, search_by_beam(model, tokenizer, ids, config, stepper))
    outputs = open_outputs(model, tokenizer, ids, config)
    for _ in _steps(model, tokenizer, outputs, config, draft or config.own_draft):
        pass
    continuations = [output.finished() for output in outputs]
    return [
        continuations[i : i + config.samples] for i in range(0, len(continuations), config.samples)
    ]


def stream(
    model: GPT,
    tokenizer: TextTokenizer,
    prompt: str | Sequence[int],
    config: GenerationConfig,
    draft: Draft | None = None,
) -> Iterator[str]:
    """Yield the text of `generate` for one prompt, a text or its tokens, while it is generated.

    Of a beam search, the text is what all hypotheses that can still win begin with.
    """
    if config.samples > 1 or config.beam_groups > 1:
        raise UsageError(
            f"streaming shows one output, not samples={config.samples}, "
            f"beam_groups={config.beam_groups}",
            hint="set samples=1 and beam_groups=1, or call generate instead of stream",
        )
    _check_draft(config, draft)
    ids = _encoded_prompts(model, tokenizer, [prompt])
    if config.beam > 1:
        yield from _stream_beam(model, tokenizer, ids, config)
        return
    (output,) = open_outputs(model, tokenizer, ids, config)
    shown = 0
    for _ in _steps(model, tokenizer, [output], config, draft or config.own_draft):
        yield from output.parts[shown:]
        shown = len(output.parts)
    output.finished()
    yield from output.parts[shown:]


def _check_draft(config: GenerationConfig, draft: Draft | None) -> None:
    """Raise UsageError for speculative decoding with a search that a draft cannot speed up."""
    if draft is None and not config.lookup:
        return
    searches = {
        f"beam={config.beam}: beam search": config.beam > 1,
        f"contrastive={config.contrastive}: contrastive search": config.contrastive > 0,
        f"dola={config.dola}: contrasting layers": config.dola != "none",
    }
    for name, chosen in searches.items():
        if chosen:
            raise UsageError(
                f"{name} cannot be combined with a draft",
                hint="use neither a draft model nor lookup, or leave it out",
            )


class TextOutput:
    """The text of one sequence while it is generated.

    row: its tokens. parts: the texts that became certain so far, in order. stop_tokens: tokens that
    end the sequence, and whose text is left out unless the writer keeps stop strings.
    """

    def __init__(self, row: Row, writer: TextStreamer) -> None:
        self.row, self.writer = row, writer
        self.parts: list[str] = []
        self.stop_tokens: Container[int] = ()

    def grow(self) -> None:
        """Add the text of the last token; a stop string or a stop token ends the sequence."""
        token = self.row.tokens[-1]
        stops = token in self.stop_tokens
        if self.writer.keeps_stop or not stops:
            self._show(self.writer.feed(token))
        if stops:
            self.row.end("stop")

    def finished(self) -> Continuation:
        """Return the output, after its last token."""
        self._show(self.writer.finish())
        row = self.row
        if row.reason is None:
            raise AssertionError("the output is not finished")
        return Continuation(
            "".join(self.parts),
            tuple(row.tokens),
            tuple(row.log_probabilities),
            row.reason,
            row.seed,
            tuple(tuple(best) for best in row.alternatives),
        )

    def _show(self, text: str) -> None:
        if text:
            self.parts.append(text)
        if self.writer.stopped:
            self.row.end("stop")


def _encoded_prompts(
    model: GPT, tokenizer: TextTokenizer, prompts: Sequence[str | Sequence[int]]
) -> list[list[int]]:
    """Return the tokens of each prompt.

    Raises UsageError for a prompt longer than `LONGEST_PROMPT` or than the model's context,
    whichever is larger: the time of attention grows with the square of the length.
    """
    encoded = [
        tokenizer.begin(prompt) if isinstance(prompt, str) else list(prompt) for prompt in prompts
    ]
    most = max(LONGEST_PROMPT, model.config.max_length)
    for number, ids in enumerate(encoded, start=1):
        if not ids:
            raise UsageError("the prompt has no tokens", f"prompt {number}", "give at least one")
        if len(ids) > most:
            raise UsageError(
                f"the prompt has {len(ids):,} tokens, but the maximum is {most:,}",
                f"prompt {number}",
                "shorten the prompt",
            )
    return encoded


def open_outputs(
    model: GPT, tokenizer: TextTokenizer, ids: Sequence[Sequence[int]], config: GenerationConfig
) -> list[TextOutput]:
    """Return `config.samples` outputs for each prompt, which have no token yet.

    Raises UsageError for a prompt that is longer than the model's context.
    """
    seeds = [[config.seed + i for i in range(config.samples)] for _ in ids]
    rows = open_rows(model, ids, seeds, sampling_of(model, tokenizer, config, len(ids)))
    return [TextOutput(row, TextStreamer(tokenizer, row.prompt, config.stop)) for row in rows]


def sampling_of(
    model: GPT, tokenizer: TextTokenizer, config: GenerationConfig, prompts: int
) -> Sampling:
    """Return the rules and the limit that follow from the settings. prompts: their number."""
    padded = model.config.vocabulary > tokenizer.size
    limit: list[Rule] = [WithinVocabulary(tokenizer.size)] if padded else []
    return Sampling(
        eos=tokenizer.ends,
        max_tokens=config.max_tokens,
        max_length=config.max_length,
        rules=[*limit, *config.rules(tokenizer, prompts)],
        alternatives=config.alternatives,
    )


def _steps(
    model: GPT,
    tokenizer: TextTokenizer,
    outputs: Sequence[TextOutput],
    config: GenerationConfig,
    draft: Draft | None,
) -> Iterator[None]:
    """Extend the unfinished `outputs` by one token per step, until all are finished."""
    rows = [output.row for output in outputs]
    of_row = {id(output.row): output for output in outputs}
    sampling = sampling_of(model, tokenizer, config, rows[-1].item + 1)

    def show(grown: Sequence[Row]) -> None:
        for row in grown:
            of_row[id(row)].grow()

    with _stepper(model, config) as stepper:
        if draft is None and not config.contrastive:
            yield from steps(stepper, sample_search(stepper, rows, sampling, grown=show))
            return
        if draft is not None:
            lists = speculative_steps(stepper, rows, sampling, draft)
        else:
            count = config.top_k or CANDIDATES
            lists = contrastive_steps(model, rows, sampling, config.contrastive, count)
        for grown in lists:
            show(grown)
            yield


@contextmanager
def _stepper(model: GPT, config: GenerationConfig) -> Iterator[GPT | LayerContrast]:
    """Yield what the searches call: the model, or its layers contrasted (DoLa)."""
    if config.dola == "none":
        yield model
        return
    with layer_contrast(model, config.dola) as contrast:
        yield contrast


def search_by_beam(
    model: GPT,
    tokenizer: TextTokenizer,
    ids: Sequence[Sequence[int]],
    config: GenerationConfig,
    stepper: Stepper | None = None,
) -> Search[list[list[Continuation]]]:
    """Return the best `config.samples` outputs of beam search for each prompt, given as tokens, cut
    at their first stop strings. stepper: computes the steps; if None, the model."""
    opened, inputs, limits = _beam_inputs(model, tokenizer, ids, config)
    hypotheses = yield from fast_beam_search(
        model if stepper is None else stepper, inputs, limits, config, num_best=config.samples
    )
    return [
        [
            _continuation(model, TextStreamer(tokenizer, row.prompt, config.stop), row, h.tokens)
            for h in best
        ]
        for row, best in zip(opened, hypotheses, strict=True)
    ]


def _stream_beam(
    model: GPT, tokenizer: TextTokenizer, ids: Sequence[Sequence[int]], config: GenerationConfig
) -> Iterator[str]:
    """Yield the text of the best output of beam search for one prompt, as it becomes certain."""
    (row,), inputs, limits = _beam_inputs(model, tokenizer, ids, config)
    writer = TextStreamer(tokenizer, row.prompt, config.stop)
    with _stepper(model, config) as stepper:
        for tokens in stream_beam(stepper, inputs, limits, config):
            for token in tokens:
                if text := writer.feed(token):
                    yield text
                if writer.stopped:
                    return
    if text := writer.finish():
        yield text


def _beam_inputs(
    model: GPT, tokenizer: TextTokenizer, ids: Sequence[Sequence[int]], config: GenerationConfig
) -> tuple[list[Row], tuple[Tensor, Tensor], Limits]:
    """Return a row for each prompt, what `start` takes, and the limits of a beam search."""
    sampling = sampling_of(model, tokenizer, config, len(ids))
    opened = open_rows(model, ids, [[config.seed]] * len(ids), sampling)
    limits = Limits(
        [row[-1] for row in ids],
        tokenizer.ends,
        [row.limit for row in opened],
        sampling.rules,
        prompts=ids,
        cut=True,
    )
    tokens, keys = padded([row[:-1] for row in ids], 0)
    device = next(model.parameters()).device
    return opened, (upload(tokens, device), upload(keys, device)), limits


def _continuation(
    model: GPT, writer: TextStreamer, like: Row, tokens: Sequence[int]
) -> Continuation:
    """Return an output of beam search in the form of a sampled one. like: a row with its prompt."""
    row = replace(like, tokens=[], log_probabilities=[], alternatives=[], reason=None)
    output = TextOutput(row, writer)
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
    """Return log P of each of `tokens`, given the prompt and the tokens before it, in nats."""
    if not tokens:
        return []
    ids = torch.tensor([[*prompt, *tokens]], device=next(model.parameters()).device)
    log_p = model(ids[:, :-1])[0, len(prompt) - 1 :].float().log_softmax(-1)
    chosen: list[float] = log_p.gather(1, ids[0, len(prompt) :, None])[:, 0].tolist()
    return chosen
