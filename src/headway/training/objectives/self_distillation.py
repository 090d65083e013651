"""An encoder learns to say of a part of an image what a slower self says of the whole: DINO."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from headway.data.multi_crop import ViewBatch
from headway.models import SelfDistilled
from headway.settings import setting
from headway.training.objectives.contract import Loss
from headway.training.state import StepReport, TrainingState


@dataclass(frozen=True, kw_only=True)
class SelfDistillationConfig:
    """How sharp the two are, and how slowly the teacher follows. Caron et al. 2021, section 3.2."""

    temperature: float = setting(0.1, "divides what the student says", gt=0)
    teacher_start: float = setting(0.04, "divides what the teacher says, at first", gt=0)
    teacher_end: float = setting(
        0.04, "and after the warm share of the steps (0.07 for large sets)", gt=0
    )
    warm: float = setting(0.3, "share of the steps between the one and the other", ge=0, le=1)
    momentum: float = setting(
        0.99,
        "of the teacher, at first; it rises to 1 by a cosine (0.996 for large batches)",
        ge=0,
        lt=1,
    )
    centre_momentum: float = setting(0.9, "of the mean of what the teacher says", ge=0, lt=1)


class SelfDistillationObjective:
    """- mean over pairs (g, v), g a global view and v another, of sum_k P_t(g)_k log P_s(v)_k.

    P_s = softmax(s / temperature); P_t is centred and sharpened (`SelfDistilled.teach`). The target
    that is counted is the image. It is an observer too: after each update the teacher follows the
    student. Caron et al. 2021, equations 2 and 3, algorithm 1.
    """

    def __init__(self, config: SelfDistillationConfig, steps: int) -> None:
        self.config, self.steps = config, steps

    def __call__(self, model: SelfDistilled, batch: ViewBatch) -> Loss:
        wanted = model.teach(batch.views[: batch.whole])
        said = [(s / self.config.temperature).log_softmax(-1) for s in model(batch.views)]
        terms = [
            -(wanted[g] * said[v]).sum()
            for g in range(len(wanted))
            for v in range(len(said))
            if v != g
        ]
        total = torch.stack(terms).mean()
        return Loss(total, total.detach(), len(batch.views[0]))

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        """The teacher follows, and its temperature rises."""
        config, done = self.config, run.step / self.steps
        momentum = 1 - (1 - config.momentum) * (1 + math.cos(math.pi * min(done, 1.0))) / 2
        model = run.model
        assert isinstance(model, SelfDistilled)
        model.follow(momentum, config.centre_momentum)
        share = min(1.0, done / config.warm) if config.warm else 1.0
        model.temperature.fill_(
            config.teacher_start + share * (config.teacher_end - config.teacher_start)
        )
