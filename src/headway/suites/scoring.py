"""What suites ask of a language model: log-likelihoods of continuations and of texts, and greedy
generation.

Tokens are split as the Language Model Evaluation Harness splits them, so scores are the same. The
computation is not: what the choices of a row have in common is computed once, and logits only where
a token is scored.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch

from headway.base.errors import DataError, HeadwayWarning
from headway.base.shapes import Float, Tensor
from headway.bundle import TextBundle
from headway.data.padding import padded
from headway.decoding import GenerationConfig
from headway.decoding.generation import generate_from_tokens
from headway.inspection.work import Report, Work, unreported
from headway.suites.questions import Likelihood

TOKENS = 8192
"""Most tokens in a batch, unless one row has more."""
ROWS = 64
"""Most rows of a suite in a batch."""
LOGITS = 2**25
"""Most logits in memory at once."""


@dataclass(frozen=True)
class _Request:
    """tokens: the input of the model. targets: the tokens after its last positions."""

    tokens: tuple[int, ...]
    targets: tuple[int, ...]

    @property
    def begin(self) -> int:
        """The index of the first input token whose successor is scored."""
        return len(self.tokens) - len(self.targets)


class Scorer:
    """Computes likelihoods and continuations with a language model.

    context: the most tokens of an input. Longer ones lose their first tokens, with a warning.
    """

    def __init__(self, bundle: TextBundle) -> None:
        self._model, self._tokenizer = bundle.model, bundle.tokenizer
        self._device = bundle.device
        self.context = bundle.model.config.max_length
        self._truncated = 0

    def likelihoods(
        self, rows: Sequence[Sequence[tuple[str, str]]], report: Report = unreported
    ) -> list[list[Likelihood]]:
        """Return log P(continuation | context) of each pair (context, continuation) of each row.

        Raises DataError for a continuation without tokens, or one longer than the context.
        """
        lost = self._truncated
        requests = [[self._request(context, text) for context, text in row] for row in rows]
        self._warn(self._truncated - lost, sum(map(len, rows)))
        return self._computed(requests, report)

    def texts(self, texts: Sequence[str], report: Report = unreported) -> list[float]:
        """Return log P(text) in nats, of each text.

        A text of more tokens than the context is divided into windows of that length, the last of
        which is filled up with tokens before it. Each token of the text is predicted once.
        """
        windows = [list(self._windows(text)) for text in texts]
        likelihoods = self._computed([[window] for row in windows for window in row], report)
        flat = iter(likelihood.nats for (likelihood,) in likelihoods)
        return [sum(next(flat) for _ in row) for row in windows]

    def continuations(
        self, prompts: Sequence[str], max_tokens: int, report: Report = unreported
    ) -> list[str]:
        """Return the greedy continuation of each prompt, up to a line break."""
        max_tokens = min(max_tokens, max(1, self.context - 1))
        config = GenerationConfig(temperature=0.0, max_tokens=max_tokens, stop=("\n",))
        room = max(1, self.context - max_tokens)
        ids = [self._tokenizer.begin(prompt) for prompt in prompts]
        self._warn(sum(len(tokens) > room for tokens in ids), len(ids))
        ids = [tokens[-room:] for tokens in ids]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        written, work = [""] * len(ids), Work(max(1, len(ids)), report)
        size = max(1, min(ROWS, TOKENS // max(1, self.context)))
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            batch = [ids[i] for i in chosen]
            for i, (best,) in zip(
                chosen,
                generate_from_tokens(self._model, self._tokenizer, batch, config),
                strict=True,
            ):
                written[i] = best.text.split("\n")[0]
            work.done(len(chosen))
        return written

    def _request(self, context: str, continuation: str) -> _Request:
        """Split the tokens of both texts together after those of the context.

        Spaces at the end of the context belong to the continuation. An empty context is the token
        before the first of a text; if that is also the first token of the continuation, it is not
        repeated.
        """
        stripped = context.rstrip()
        before, after = stripped, context[len(stripped) :] + continuation
        if context:
            head = self._tokenizer.begin(before)
            tail = self._tokenizer.begin(before + after)[len(head) :]
        else:
            tail = self._tokenizer.encode(continuation)
            head = [self._tokenizer.bos]
            if tail[:1] == head:
                head, tail = tail[:1], tail[1:]
        if not 0 < len(tail) <= self.context:
            raise DataError(
                f"the continuation {continuation[:60]!r} has {len(tail)} tokens, but must have 1 "
                f"to {self.context}, the context of the model",
                hint="shorten the row, or use a model with a longer context",
            )
        tokens = (*head, *tail)[-(self.context + 1) :]
        self._truncated += len(head) + len(tail) > len(tokens)
        return _Request(tokens[:-1], tuple(tail))

    def _warn(self, truncated: int, prompts: int) -> None:
        """Warn of prompts that are longer than the context."""
        if truncated:
            warnings.warn(
                f"{truncated:,} of {prompts:,} prompts have more tokens than the context of the "
                f"model, {self.context:,}, and lose their beginning",
                HeadwayWarning,
                stacklevel=3,
            )

    def _windows(self, text: str) -> Iterator[_Request]:
        tokens, bos = self._tokenizer.begin(text), self._tokenizer.bos
        if tokens[0] != bos:
            tokens = [bos, *tokens]
        count, width = len(tokens) - 1, self.context  # tokens[0] is not predicted
        for begin in range(0, count, width):
            end = min(begin + width, count)
            yield _Request(
                tuple(tokens[max(0, end - width) : end]), tuple(tokens[begin + 1 : end + 1])
            )

    def _computed(
        self, rows: Sequence[Sequence[_Request]], report: Report
    ) -> list[list[Likelihood]]:
        order = sorted(range(len(rows)), key=lambda i: -_longest(rows[i]))
        results: list[list[Likelihood]] = [[] for _ in rows]
        work = Work(max(1, len(rows)), report)
        for chosen in _batches(rows, order):
            computed = self._batch([rows[i] for i in chosen])
            for i, likelihoods in zip(chosen, computed, strict=True):
                results[i] = likelihoods
            work.done(len(chosen))
        return results

    @torch.inference_mode()
    def _batch(self, rows: Sequence[Sequence[_Request]]) -> list[list[Likelihood]]:
        """Compute the rows of a batch: first what each row has in common, then the rest."""
        shared = _shared(rows)
        inputs = [list(dict.fromkeys(request.tokens for request in row)) for row in rows]
        prefixes, keys = padded(
            [row[0][:length] for row, length in zip(inputs, shared, strict=True)], 0
        )
        has_prefix = prefixes.shape[1] > 0
        state = self._model.start(
            prefixes.to(self._device), keys.to(self._device) if has_prefix else None
        )
        state = state.reorder([i for i, row in enumerate(inputs) for _ in row])
        rests = [
            tokens[length:] for row, length in zip(inputs, shared, strict=True) for tokens in row
        ]
        suffixes = padded(rests, 0)[0].to(self._device)
        embedded = self._model.embedding(suffixes, state.past)
        hidden = self._model.decoder.step(embedded, state)
        results, first = [], 0
        for row, distinct, length in zip(rows, inputs, shared, strict=True):
            indices = {tokens: first + i for i, tokens in enumerate(distinct)}
            first += len(distinct)
            results.append(
                [
                    self._likelihood(
                        hidden[indices[request.tokens], request.begin - length :][
                            : len(request.targets)
                        ],
                        request.targets,
                    )
                    for request in row
                ]
            )
        return results

    def _likelihood(self, hidden: Float[Tensor, "T D"], targets: Sequence[int]) -> Likelihood:
        """Sum the log-probabilities of T tokens, each after its hidden vector."""
        right = torch.tensor(targets, device=hidden.device)
        size = max(1, LOGITS // self._model.config.vocabulary)
        values, is_greedy = [], True
        for part, wanted in zip(torch.split(hidden, size), torch.split(right, size), strict=True):
            log_p = self._model.logits(part).float().log_softmax(-1)
            values.append(log_p.gather(1, wanted[:, None])[:, 0])
            is_greedy = is_greedy and torch.equal(log_p.argmax(-1), wanted)
        return Likelihood(float(torch.cat(values).sum()), is_greedy)


def _longest(row: Sequence[_Request]) -> int:
    return max(len(request.tokens) for request in row)


def _batches(rows: Sequence[Sequence[_Request]], order: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indices of rows in order, in batches of at most `TOKENS` tokens with padding."""
    chosen: list[int] = []
    width = count = 0
    for i in order:
        wider, more = max(width, _longest(rows[i])), count + len(rows[i])
        if chosen and (wider * more > TOKENS or len(chosen) == ROWS):
            yield chosen
            chosen, wider, more = [], _longest(rows[i]), len(rows[i])
        chosen.append(i)
        width, count = wider, more
    if chosen:
        yield chosen


def _common(sequences: Sequence[tuple[int, ...]]) -> int:
    """Return the number of tokens with which all sequences begin."""
    columns = zip(*sequences, strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


def _shared(rows: Sequence[Sequence[_Request]]) -> list[int]:
    """Return the number of tokens of each row that are computed once.

    They are the same in all requests of the row, and nothing is scored after them. So that padding
    never lies beyond the longest input of a row, where learned positions may end, a row leaves as
    many tokens for the second part as the row that needs most, if it has as many.
    """
    shared = [
        min(
            _common([request.tokens for request in row]),
            min(request.begin for request in row),
        )
        for row in rows
    ]
    rest = max(_longest(row) - length for row, length in zip(rows, shared, strict=True))
    return [
        min(length, max(0, _longest(row) - rest)) for row, length in zip(rows, shared, strict=True)
    ]
