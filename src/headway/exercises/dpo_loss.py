"""Exercise: the loss of direct preference optimisation."""

import torch

from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Mistake
from headway.exercises.inputs import normal
from headway.training import PreferenceConfig, preference_losses
from headway.training.objectives.preference import AnswerPairs


def _reference(
    chosen: Tensor,
    rejected: Tensor,
    chosen_before: Tensor,
    rejected_before: Tensor,
    beta: float,
) -> Tensor:
    lengths = torch.ones(len(chosen), dtype=torch.long)  # DPO does not use them
    answers = AnswerPairs(chosen, rejected, lengths, lengths, chosen_before, rejected_before)
    return preference_losses(answers, PreferenceConfig(beta=beta)).mean()


def _random(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    chosen, rejected, chosen_before, rejected_before = -5 * normal(seed, 4, 6).abs()
    return chosen, rejected, chosen_before, rejected_before, 0.1 + 0.1 * seed


EXERCISE = Exercise(
    name="dpo-loss",
    equation="""
margin = (log p(y) - log p_before(y)) - (log p(z) - log p_before(z))
loss   = mean over the pairs of  -log sigmoid(beta margin)
y is the better (chosen) answer, z the worse (rejected) one; p_before is that before training.""",
    shapes=(
        "chosen, rejected, chosen_before, rejected_before: B, log-probabilities of whole answers\n"
        "beta: a number\nresult: one number"
    ),
    signature=(
        "def dpo_loss(\n"
        "    chosen: Tensor,\n"
        "    rejected: Tensor,\n"
        "    chosen_before: Tensor,\n"
        "    rejected_before: Tensor,\n"
        "    beta: float,\n"
        ") -> Tensor:"
    ),
    body="""
margin = (chosen - chosen_before) - (rejected - rejected_before)
return -torch.nn.functional.logsigmoid(beta * margin).mean()""",
    hints=(
        "`chosen - chosen_before` is what the better answer gained in training.",
        "The margin is what the better answer gained more than the worse one.",
        "`torch.nn.functional.logsigmoid` is exact also where sigmoid is almost 0.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(
                torch.tensor([-1.0]),
                torch.tensor([-6.0]),
                torch.tensor([-2.0]),
                torch.tensor([-4.0]),
                0.5,
            ),
            expected=torch.tensor(0.2014),
            why="margin = (-1 + 2) - (-6 + 4) = 3; -log sigmoid(1.5) = log(1 + e^-1.5) = 0.2014",
        ),
        Case(
            rung="before training",
            arguments=(
                torch.tensor([-1.0, -7.0]),
                torch.tensor([-6.0, -2.0]),
                torch.tensor([-1.0, -7.0]),
                torch.tensor([-6.0, -2.0]),
                0.1,
            ),
            expected=torch.tensor(0.6931),
            why="nothing was gained: both margins are 0, and -log sigmoid(0) = log 2 = 0.6931",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            "the sign is wrong: the loss falls when the worse answer becomes more probable",
            {"return -": "return "},
        ),
        Mistake(
            "the model before training is left out: the margin is that of the gains",
            {"(chosen - chosen_before) - (rejected - rejected_before)": "chosen - rejected"},
        ),
        Mistake("the strength beta is missing", {"beta * margin": "margin"}),
        Mistake(
            "the logarithm is missing: the loss is -log sigmoid, not -sigmoid",
            {"nn.functional.logsigmoid": "sigmoid"},
        ),
        Mistake(
            "the answers are exchanged: the better one comes first in the margin",
            {
                "(chosen - chosen_before) - (rejected - rejected_before)": (
                    "(rejected - rejected_before) - (chosen - chosen_before)"
                )
            },
        ),
        Mistake(
            "each answer is compared with the other answer before training",
            {
                "(chosen - chosen_before) - (rejected - rejected_before)": (
                    "(chosen - rejected_before) - (rejected - chosen_before)"
                )
            },
        ),
        Mistake("the losses of the pairs are added up; take their mean", {".mean()": ".sum()"}),
    ),
)
