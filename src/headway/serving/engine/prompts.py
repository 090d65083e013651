"""Prompts are read block by block, between the steps of the outputs that are decoded."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from headway.base.shapes import Float, Tensor
from headway.base.transfers import upload
from headway.blocks import DecoderState
from headway.data.padding import padded
from headway.decoding import MinLength, open_outputs, sampling_of
from headway.models import GPT, MultimodalGPT
from headway.serving.engine.continuous import Stream
from headway.serving.engine.jobs import Finished, Generation, Grown, PromptScores
from headway.serving.engine.prefix_cache import BLOCK, PrefixCache
from headway.text import TextTokenizer

NO_TOKEN = -1


class PromptReader:
    """Reads the prompt of one generation, block by block, into a decode state of one sequence.

    at_once: number of tokens that are read at once, a multiple of 64. With 64, all blocks but the
    last are those of the prefix cache, so that the state has the same bits with and without it.
    Prompts that are scored are read by 64, as their logits need memory. Raises UsageError for a
    prompt that is too long for the model.
    """

    def __init__(
        self,
        model: GPT,
        tokenizer: TextTokenizer,
        job: Generation,
        cache: PrefixCache,
        at_once: int = BLOCK,
    ) -> None:
        self.model, self.job, self._cache = model, job, cache
        self._images = job.images
        self._at_once = at_once if job.scored is None else BLOCK
        self.outputs = open_outputs(model, tokenizer, [job.prompt], job.config)
        sampling = sampling_of(model, tokenizer, job.config, 1)
        rules = (*job.rules, *sampling.rules)
        if job.config.min_tokens and job.stop_tokens:
            rules = (MinLength(job.config.min_tokens, sorted(job.stop_tokens)), *rules)
        eos = NO_TOKEN if job.ignores_eos else sampling.eos
        self.sampling = replace(sampling, rules=rules, eos=eos)
        for output in self.outputs:
            output.stop_tokens = job.stop_tokens
            output.writer.keeps_stop = job.keeps_stop
        self.state = model.start(torch.zeros(1, 0, dtype=torch.long, device=self._device))
        self._scores: list[tuple[float, tuple[tuple[int, float], ...]]] = []
        self.cached = 0
        if self._caches and job.scored is None:
            self.cached = cache.read(job.prompt, job.salt, self.state)
        self._read = self.cached

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def is_short(self) -> bool:
        """Whether nothing was read yet and the prompt has no whole block, so that it can be read
        together with others."""
        return (
            self._read == 0
            and 1 < len(self.job.prompt) <= BLOCK
            and self.job.scored is None
            and self._images is None
        )

    @property
    def _caches(self) -> bool:
        """Whether the prefix cache is used: equal tokens may stand for different images."""
        return self.job.caches and self._images is None

    @property
    def done(self) -> bool:
        """Whether only the last token of the prompt is left."""
        return self._read >= len(self.job.prompt) - 1

    def read_block(self) -> int:
        """Read the next block; return its number of tokens. A prompt with images is one block."""
        if self._images is not None:
            assert isinstance(self.model, MultimodalGPT)
            tokens = upload(torch.tensor([self.job.prompt[:-1]]), self._device)
            self.state = self.model.start(tokens, images=self._images)
            self._read = len(self.job.prompt) - 1
            return self._read
        stop = min(len(self.job.prompt) - 1, self._read + self._at_once)
        tokens = upload(torch.tensor([self.job.prompt[self._read : stop]]), self._device)
        if self.job.scored is None:
            self.model.extend(tokens, self.state)
        else:
            logits, self.state = self.model.step(tokens, self.state)
            self._score(logits[0].float(), self.job.prompt[self._read + 1 : stop + 1])
        count, self._read = stop - self._read, stop
        return count

    def _score(self, logits: Float[Tensor, "T V"], following: Sequence[int]) -> None:
        log_p = logits.log_softmax(-1)
        own = log_p.gather(1, torch.tensor(following, device=logits.device)[:, None])[:, 0].tolist()
        best = log_p.topk(min(self.job.scored or 0, log_p.shape[1]), dim=-1)
        tops = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        for value, (tokens, values) in zip(own, tops, strict=True):
            self._scores.append((value, tuple(zip(tokens, values, strict=True))))

    def finish(self) -> tuple[list[Stream], DecoderState]:
        """Return the streams that continue the prompt, and their state with a row for each.

        The reader, to which the streams refer, does not keep the state: its keys and values would
        be in memory until the last of them ends, besides those in the batch.
        """
        if self._caches:
            self._cache.write(self.job.prompt, self.job.salt, self.state, self.cached)
        state = self.state
        del self.state
        if len(self.outputs) > 1:
            state = state.reorder([0] * len(self.outputs))
        return self.streams, state

    @property
    def streams(self) -> list[Stream]:
        """The streams that continue the prompt, before their first step."""
        return [Stream(self, n, output, self.sampling) for n, output in enumerate(self.outputs)]

    def result(self) -> Finished:
        """Return what is reported when all outputs have ended."""
        continuations = [output.finished() for output in self.outputs]
        scores = PromptScores(
            tuple(value for value, _ in self._scores), tuple(best for _, best in self._scores)
        )
        return Finished(continuations, scores, self.cached)


def read_together(readers: Sequence[PromptReader]) -> tuple[list[Stream], DecoderState]:
    """Read short prompts as one batch; return the streams that continue them, and their state."""
    model, prompts = readers[0].model, [reader.job.prompt[:-1] for reader in readers]
    tokens, _ = padded(prompts, 0)
    state = model.start(upload(tokens, next(model.parameters()).device))
    state = state.rewind([len(prompt) for prompt in prompts])
    for reader in readers:
        del reader.state  # an empty one
    rows = [row for row, reader in enumerate(readers) for _ in reader.outputs]
    if len(rows) > len(readers):
        state = state.reorder(rows)
    return [stream for reader in readers for stream in reader.streams], state


def news(stream: Stream) -> Grown | None:
    """Return what happened to an output since the last call; None if nothing can be shown."""
    output, row = stream.output, stream.row
    if row.reason is not None:
        output.finished()  # the text that was held back
    text = "".join(output.parts[stream.shown_parts :])
    first = stream.shown_tokens
    if not text and row.reason is None:
        return None
    stream.shown_parts, stream.shown_tokens = len(output.parts), len(row.tokens)
    return Grown(
        stream.index,
        text,
        tuple(row.tokens[first:]),
        tuple(row.log_probabilities[first:]),
        tuple(tuple(best) for best in row.alternatives[first:]),
        row.reason,
    )
