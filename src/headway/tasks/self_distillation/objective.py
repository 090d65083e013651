"""DINO: self-supervised learning of an image encoder by self-distillation.

The student predicts from a crop the output of the teacher, a running average of the student, for
the whole image.
"""

import math
from dataclasses import dataclass

import torch

from headway.base.settings import fraction, setting
from headway.models import SelfDistilled
from headway.tasks.self_distillation.multi_crop import ViewBatch
from headway.training.objectives.contract import Loss
from headway.training.state import StepReport, TrainingState


@dataclass(frozen=True, kw_only=True)
class SelfDistillationConfig:
    """Temperatures and momenta of DINO. Caron et al. 2021, section 3.2."""

    temperature: float = setting(
        0.1, "temperature of the student's softmax; lower values are sharper", gt=0
    )
    teacher_start: float = setting(
        0.04, "temperature of the teacher's softmax at the start of training", gt=0
    )
    teacher_end: float = setting(
        0.04,
        "temperature of the teacher's softmax after the warm-up (0.07 for large data sets)",
        gt=0,
    )
    warm: float = setting(
        0.3, "fraction of the steps in which the teacher's temperature rises", ge=0, le=1
    )
    momentum: float = fraction(
        0.99,
        "momentum of the teacher's weights at the start; it rises to 1 along a cosine (0.996 for "
        "large batches)",
    )
    centre_momentum: float = fraction(
        0.9, "momentum of the running mean of the teacher's outputs, the centre"
    )


class SelfDistillationObjective:
    """DINO loss: - mean over pairs (g, v) of sum_k P_t(g)_k log P_s(v)_k.

    g is a global view and v another view of the same image. P_s = softmax(s / temperature) is the
    student's output, P_t the centred and sharpened output of the teacher (`SelfDistilled.teach`).
    Each image counts as one target. The objective is an observer too: after each update it moves
    the teacher towards the student. Caron et al. 2021, equations 2 and 3, algorithm 1.
    """

    def __init__(self, config: SelfDistillationConfig, steps: int) -> None:
        self.config, self.steps = config, steps

    def __call__(self, model: SelfDistilled, batch: ViewBatch) -> Loss:
        teacher = model.teacher_probabilities(batch.views[: batch.num_global])
        student = [(s / self.config.temperature).log_softmax(-1) for s in model(batch.views)]
        terms = [
            -(teacher[g] * student[v]).sum()
            for g in range(len(teacher))
            for v in range(len(student))
            if v != g
        ]
        total = torch.stack(terms).mean()
        return Loss(total, total.detach(), len(batch.views[0]))

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        """Update the teacher's weights and temperature."""
        config, progress = self.config, run.step / self.steps
        momentum = 1 - (1 - config.momentum) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2
        model = run.model
        assert isinstance(model, SelfDistilled)
        model.update_teacher(momentum, config.centre_momentum)
        fraction = min(1.0, progress / config.warm) if config.warm else 1.0
        model.temperature.fill_(
            config.teacher_start + fraction * (config.teacher_end - config.teacher_start)
        )
