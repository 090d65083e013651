"""Exercise: the loss of sampled answers with rewards."""

import torch

from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Mistake
from headway.exercises.inputs import mask, normal
from headway.tasks.reward.objective import advantages


def _reference(log_p: Tensor, is_answer: Tensor, rewards: Tensor) -> Tensor:
    of_answers = torch.where(is_answer, log_p, 0.0).sum(-1)
    return -(advantages(rewards) * of_answers).sum() / is_answer.sum()


def _random(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    return -normal(seed, 2, 4, 6).abs(), mask(seed, 2, 4, 6), normal(seed + 10, 2, 4)


EXERCISE = Exercise(
    name="policy-gradient",
    equation="""
A[p, g] = r[p, g] - mean of r[p, :]                              the advantage in the group of p
loss    = -1/N sum over p, g of A[p, g] sum over t of log_p[p, g, t]
The sum over t is over the tokens of the answer; N is the number of tokens of all answers.""",
    shapes=(
        "log_p: P G T, log-probabilities of the tokens of G answers to P prompts\n"
        "is_answer: P G T, False at padding\nrewards: P G\nresult: one number"
    ),
    signature=("def policy_loss(log_p: Tensor, is_answer: Tensor, rewards: Tensor) -> Tensor:"),
    body="""
advantage = rewards - rewards.mean(1, keepdim=True)
log_p_of_answers = (log_p * is_answer).sum(-1)
return -(advantage * log_p_of_answers).sum() / is_answer.sum()""",
    hints=(
        "`rewards.mean(1, keepdim=True)` is the mean of each group.",
        "`log_p * is_answer` is 0 at padding.",
        "`is_answer.sum()` is N.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(
                torch.tensor([[[-1.0, -2.0], [-1.0, -4.0]]]),
                torch.tensor([[[True, True], [True, False]]]),
                torch.tensor([[1.0, 0.0]]),
            ),
            expected=torch.tensor(1 / 3),
            why="A = (0.5, -0.5); sums (-3, -1): -(0.5 * -3 - 0.5 * -1) / 3 = 1/3",
        ),
        Case(
            rung="a group without signal",
            arguments=(
                torch.tensor([[[-1.0], [-3.0]]]),
                torch.ones(1, 2, 1, dtype=torch.bool),
                torch.tensor([[1.0, 1.0]]),
            ),
            expected=torch.tensor(0.0),
            why="equal rewards have advantages of 0: nothing is learned",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            "the sign is wrong: the loss falls when answers with more reward become more probable",
            {"return -(": "return ("},
        ),
        Mistake(
            "the baseline is missing: subtract the mean of the group",
            {"rewards - rewards.mean(1, keepdim=True)": "rewards"},
        ),
        Mistake(
            "the baseline is the mean of all rewards; each group has its own",
            {"rewards.mean(1, keepdim=True)": "rewards.mean()"},
        ),
        Mistake(
            "the mean is taken over prompts; a group is a row of rewards",
            {"rewards.mean(1, keepdim=True)": "rewards.mean(0, keepdim=True)"},
        ),
        Mistake("tokens of padding are counted", {"(log_p * is_answer)": "log_p"}),
        Mistake(
            "the sum is divided by the number of answers; N is the number of their tokens",
            {"/ is_answer.sum()": "/ rewards.numel()"},
        ),
        Mistake(
            "the answers are averaged over their own tokens, so that tokens of short ones count "
            "more",
            {
                "(log_p * is_answer).sum(-1)": "(log_p * is_answer).sum(-1) / is_answer.sum(-1)",
                "/ is_answer.sum()": "/ rewards.numel()",
            },
        ),
    ),
)
