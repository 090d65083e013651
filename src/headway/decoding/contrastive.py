"""Contrastive search: a probable next token whose vector is unlike those of all tokens before it.

    x_t = argmax over v in the k most probable of
          (1 - alpha) P(v | x_<t) - alpha max over j < t of cos(h_v, h_j)

h_v is the hidden vector of v after the text so far, which the model computes for each of the k
candidates. A repeated text has nearly the same vectors, so the second term ends loops that greedy
search does not leave. Nothing is sampled. Su et al. 2022, equation 5.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.functional import normalize, pad

from headway.base.errors import UsageError
from headway.base.shapes import Bool, Float, Tensor
from headway.base.transfers import upload
from headway.blocks.decoder import Decoder
from headway.blocks.decoder_only import DecoderOnly
from headway.decoding.rule import ruled_logits
from headway.decoding.sampling import Row, Sampling, read_prompts, record

CANDIDATES = 4
"""k, if no other number is set."""


def contrastive_steps(
    model: Any, rows: Sequence[Row], sampling: Sampling, alpha: float, count: int
) -> Iterator[list[Row]]:
    """Continue all rows; yield, after each step, the rows that got a token. `model` is a Stepper.

    alpha: weight of the similarity, from 0 (greedy search) to 1. count: the number k of candidates.
    The output of a row does not depend on the other rows. Raises UsageError for a model without a
    Transformer decoder.
    """
    with _hidden_vectors(model) as hidden, torch.inference_mode():
        _leave_room(model, rows)
        live = [row for row in rows if row.reason is None]
        if not live:
            return
        search = _Search(model, hidden, live, sampling)
        while live:
            grown = search.step(live, alpha, count)
            if grown:
                yield grown
            unfinished = [i for i, row in enumerate(live) if row.reason is None]
            if len(unfinished) < len(live):
                live = [live[i] for i in unfinished]
                search.keep(unfinished)


def _leave_room(model: Any, rows: Sequence[Row]) -> None:
    """Shorten outputs by a token that would be outside of the model's context.

    Unlike in sampling, the last token of an output is an input of the model.
    """
    for row in rows:
        if model.max_length is not None and len(row.prompt) + row.limit > model.max_length:
            row.limit, row.full = row.limit - 1, "context"
            if row.limit <= 0:
                row.end("context")


@contextmanager
def _hidden_vectors(model: Any) -> Iterator[list[Tensor]]:
    """Collect the last hidden vectors (N T D) of each `start` and `step` of a model."""
    stack = getattr(model, "decoder", None)
    if not isinstance(stack, Decoder | DecoderOnly):
        raise UsageError(
            "contrastive search needs a Transformer decoder", hint="leave out --contrastive"
        )
    hidden: list[Tensor] = []

    def keep(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        hidden.append(output)

    handle = stack.norm.register_forward_hook(keep)
    try:
        yield hidden
    finally:
        handle.remove()


class _Search:
    """The state of a search: the decoder's, the logits of the next token, and all vectors so far.

    context: of length 1 each; real: which of them belong to tokens, not to padding.
    """

    def __init__(
        self, model: Any, hidden: list[Tensor], live: Sequence[Row], sampling: Sampling
    ) -> None:
        self.model, self.hidden, self.sampling = model, hidden, sampling
        self.device = next(model.parameters()).device
        self.state = read_prompts(model, live)
        lengths = [len(row.prompt) - 1 for row in live]
        context = self._context_of_prompts(live, max(lengths))
        real = torch.arange(context.shape[1]) < torch.tensor(lengths)[:, None]
        self.context: Float[Tensor, "N T D"] = context
        self.real: Bool[Tensor, "N T"] = upload(real, self.device)
        last = upload(torch.tensor([[row.last] for row in live]), self.device)
        self._advance(last)
        self._remember(self._vectors())

    def _context_of_prompts(self, live: Sequence[Row], longest: int) -> Float[Tensor, "N T D"]:
        """Return the vectors of all prompts but for their last tokens; a prompt is read once."""
        if not longest:
            width = self.model.output.weight.shape[1]
            return torch.zeros(len(live), 0, width, device=self.device)
        vectors = self._vectors()
        items = [row.item for row in live]
        first = list(dict.fromkeys(items))
        return vectors[upload(torch.tensor([first.index(i) for i in items]), self.device)]

    def _vectors(self) -> Float[Tensor, "N T D"]:
        """Return the vectors of the last `start` or `step`, of length 1, and forget them."""
        vectors = normalize(self.hidden[-1].float(), dim=-1)
        self.hidden.clear()
        return vectors

    def _advance(self, tokens: Tensor) -> None:
        logits, self.state = self.model.step(tokens, self.state)
        self.logits = logits[:, -1].float()

    def _remember(self, vectors: Float[Tensor, "N 1 D"]) -> None:
        self.context = torch.cat((self.context, vectors), dim=1)
        self.real = pad(self.real, (0, 1), value=True)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these rows, in order."""
        index = upload(torch.tensor(rows, dtype=torch.long), self.device)
        self.state = self.state.reorder(rows)
        self.logits, self.context, self.real = (
            part.index_select(0, index) for part in (self.logits, self.context, self.real)
        )

    def step(self, live: Sequence[Row], alpha: float, count: int) -> list[Row]:
        """Choose one token for each row; return the rows that got one."""
        ruled = ruled_logits(self.sampling.rules, self.logits, live)
        best = ruled.softmax(-1).topk(min(count, ruled.shape[1]), dim=-1)
        count = best.indices.shape[1]
        before, scores = self.logits, ruled
        spread = [row for row in range(len(live)) for _ in range(count)]
        self.state = self.state.reorder(spread)
        self._advance(best.indices.reshape(-1, 1))
        vectors = self._vectors()  # N k, 1, D
        candidates = vectors.view(len(live), count, -1)
        similarity = candidates @ self.context.transpose(1, 2)  # N k T
        similarity = similarity.masked_fill(~self.real[:, None], -torch.inf).amax(-1)
        value = (1 - alpha) * best.values - alpha * similarity
        value = value.masked_fill(best.values == 0, -torch.inf)  # forbidden by a rule
        choice = value.argmax(-1)
        chosen = best.indices.gather(1, choice[:, None])[:, 0]
        grown = record(live, chosen, before, self.sampling, scores)
        kept = torch.arange(len(live), device=self.device) * count + choice
        self.state = self.state.reorder(kept.tolist())
        self.logits = self.logits.index_select(0, kept)
        self._remember(vectors.index_select(0, kept))
        return grown
