"""Ensembles: several models of one vocabulary decode together.

Sutskever et al. 2014, section 3.6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from headway.base.shapes import Float, Int, Tensor
from headway.models.contracts import Sequences, Stepper


@dataclass
class EnsembleState:
    """The decode states of all members."""

    states: list[Sequences]

    def reorder(self, rows: Sequence[int]) -> EnsembleState:
        """Return the state of sequences `rows`, in that order."""
        return EnsembleState([state.reorder(rows) for state in self.states])


class Ensemble(nn.Module):
    """A Stepper whose probabilities are the mean of its members':

    log P(y | ...) = log(1/M sum over m of P_m(y | ...)).
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        if not members:
            raise ValueError("an ensemble needs at least one model")
        self.members = nn.ModuleList(members)

    def start(self, *inputs: Tensor | None) -> EnsembleState:
        """Process the inputs once by every member."""
        return EnsembleState([member.start(*inputs) for member in self._steppers()])

    def step(
        self, tokens: Int[Tensor, "N T"], state: EnsembleState
    ) -> tuple[Float[Tensor, "N T V"], EnsembleState]:
        """Return log P of the next token after each of T new tokens, and the next state."""
        log_p, states = [], []
        for member, of_member in zip(self._steppers(), state.states, strict=True):
            logits, following = member.step(tokens, of_member)
            log_p.append(logits.float().log_softmax(-1))
            states.append(following)
        mean = torch.stack(log_p).logsumexp(0) - math.log(len(log_p))
        return mean, EnsembleState(states)

    def _steppers(self) -> list[Stepper]:
        return cast("list[Stepper]", list(self.members))
