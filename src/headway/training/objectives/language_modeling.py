"""Language modelling: cross-entropy of the next token."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch

from headway.attention import Documents
from headway.base.shapes import Int, Tensor
from headway.base.transfers import positions_where
from headway.blocks import balance_loss, record_routing
from headway.data.padding import IGNORED
from headway.models import GPT
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import next_token_sum


class Texts(Protocol):
    """Token ids, their targets, -1 where there is none, the lengths of the documents in each
    sequence, and the number of targets; None for one document per sequence, and for targets that
    are to be counted."""

    @property
    def tokens(self) -> Int[Tensor, "B T"]: ...

    @property
    def targets(self) -> Int[Tensor, "B T"]: ...

    @property
    def lengths(self) -> Sequence[Sequence[int]] | None: ...

    @property
    def count(self) -> int | None: ...


@dataclass(frozen=True)
class TextObjective:
    """Next-token loss: -sum_t log P(x_t+1 | x_1 ... x_t), over the targets that are not -1.

    Packed documents do not attend to each other. Radford et al. 2018, equation 1. Each target adds
    the balance loss of the mixtures of experts, which counts the tokens that have a target; `nats`
    does not contain it.
    """

    def __call__(self, model: GPT, batch: Texts) -> Loss:
        documents = None
        if batch.lengths is not None:
            documents = Documents(batch.lengths, batch.tokens.device)
        experts = model.config.experts
        nothing: AbstractContextManager[dict[str, Tensor]] = nullcontext({})
        with record_routing(model) if experts.total else nothing as routing:
            hidden = model.hidden(batch.tokens, documents).flatten(0, 1)
        targets = batch.targets.flatten()
        if batch.count != len(targets):
            predicted = positions_where(targets != IGNORED, batch.count)
            hidden, targets = hidden.index_select(0, predicted), targets[predicted]
        total, nats = next_token_sum(model, hidden, targets)
        if routing:
            real = batch.targets.flatten() != IGNORED
            losses = [balance_loss(p, experts.chosen, real) for p in routing.values()]
            total = total + experts.balance * len(targets) * torch.stack(losses).mean()
        return Loss(total, nats, len(targets))
