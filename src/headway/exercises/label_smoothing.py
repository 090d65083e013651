"""Exercise: cross-entropy with label smoothing."""

import torch

from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import integers, normal
from headway.training import cross_entropy_sum


def _reference(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    loss, _ = cross_entropy_sum(logits, torch.eye(logits.shape[-1]), targets, smoothing)
    return loss / len(targets)


def _random(seed: int) -> tuple[object, ...]:
    return normal(seed, 5, 7), torch.tensor(integers(seed, 5, 0, 7)), 0.1 + 0.1 * seed


def _loss(learner: Function) -> Function:
    return lambda logits, targets: learner(logits, targets, 0.1)


EXERCISE = Exercise(
    name="label-smoothing",
    equation="""
loss = mean over n of  -(1 - e) log p[n, y_n]  -  e/V sum over v of log p[n, v]
with p = softmax(logits): the true token has probability 1 - e + e/V, all others e/V.""",
    shapes="logits: N V\ntargets: N, the true tokens y\nsmoothing: e\nresult: one number",
    signature="def smoothed_loss(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:",
    body="""
log_p = logits.log_softmax(-1)
true = log_p.gather(1, targets[:, None])[:, 0]
return (-(1 - smoothing) * true - smoothing * log_p.mean(-1)).mean()""",
    hints=(
        "Begin with `logits.log_softmax(-1)`.",
        "`log_p.gather(1, targets[:, None])` picks the true token of each position.",
        "1/V times a sum over V tokens is a mean over the last axis.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(torch.tensor([[3.0, 1.0]]).log(), torch.tensor([0]), 0.0),
            expected=torch.tensor(0.2877),
            why="p = (0.75, 0.25), no smoothing: -log 0.75 = 0.2877",
        ),
        Case(
            rung="smoothing",
            arguments=(torch.tensor([[3.0, 1.0]]).log(), torch.tensor([0]), 0.2),
            expected=torch.tensor(0.3975),
            why="e = 0.2: -0.8 log 0.75 - 0.1 (log 0.75 + log 0.25) = 0.2301 + 0.1674 = 0.3975",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            "the smoothing is not used",
            {"(-(1 - smoothing) * true - smoothing * log_p.mean(-1))": "-true"},
        ),
        Mistake(
            "the losses are summed; take the mean over the N positions",
            {"log_p.mean(-1)).mean()": "log_p.mean(-1)).sum()"},
        ),
        Mistake("e is not divided by the vocabulary size V", {"log_p.mean(-1)": "log_p.sum(-1)"}),
        Mistake(
            "e is divided among the other V - 1 tokens; every token gets e/V, the true one too",
            {"log_p.mean(-1)": "(log_p.sum(-1) - true) / (log_p.shape[-1] - 1)"},
        ),
        Mistake(
            "the factor 1 - e of the true token is missing", {"-(1 - smoothing) * true": "-true"}
        ),
        Mistake(
            "the sign is wrong: a loss is minus log p",
            {"(-(1 - smoothing) * true - smoothing": "((1 - smoothing) * true + smoothing"},
        ),
        Mistake(
            "the logarithm is missing: use log_softmax, not softmax", {"log_softmax": "softmax"}
        ),
        Mistake(
            "the softmax is missing: logits are not log-probabilities",
            {"logits.log_softmax(-1)": "logits"},
        ),
        Mistake(
            "e and 1 - e are swapped: the true token has the factor 1 - e",
            {"(1 - smoothing) * true - smoothing": "smoothing * true - (1 - smoothing)"},
        ),
    ),
    plug=Plug(part="the training loss", loss=_loss),
)
