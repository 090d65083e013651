"""Exercise: centring and sharpening of DINO's teacher."""

import torch

from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Mistake
from headway.exercises.inputs import normal


def _random(seed: int) -> tuple[Tensor, Tensor, float, float]:
    return normal(seed, 5, 4), normal(seed + 1, 4), 0.2 + 0.1 * seed, 0.9


EXERCISE = Exercise(
    name="dino-centring",
    equation="""
P = softmax((t - centre) / temperature)          the teacher's probabilities
new centre = m centre + (1 - m) mean of t over the batch
P uses the old centre. Centring prevents that one prototype wins for all images, the low
temperature (sharpening) prevents that all have the same probability.""",
    shapes=(
        "logits: B K, the teacher's logits t\ncentre: K\ntemperature, momentum (m): numbers\n"
        "result: (P, new centre): B K and K"
    ),
    signature=(
        "def centre_and_sharpen(logits: Tensor, centre: Tensor, temperature: float, "
        "momentum: float):"
    ),
    body="""
probabilities = ((logits - centre) / temperature).softmax(-1)
new = momentum * centre + (1 - momentum) * logits.mean(0)
return probabilities, new""",
    hints=(
        "Subtract the centre from each row, divide by the temperature, then softmax over K.",
        "The mean over the batch is over axis 0.",
        "The old centre has the weight m, which is near 1: the centre moves slowly.",
    ),
    cases=(
        Case(
            rung="worked example",
            arguments=(torch.tensor([[2.0, 1.0], [4.0, 1.0]]), torch.tensor([1.0, 1.0]), 1.0, 0.9),
            expected=(
                torch.tensor([[0.731059, 0.268941], [0.952574, 0.047426]]),
                torch.tensor([1.2, 1.0]),
            ),
            why="(2, 1) - (1, 1) = (1, 0): 0.73 and 0.27; centre 0.9 x 1 + 0.1 x (2 + 4)/2 = 1.2",
        ),
        Case(
            rung="sharpening",
            arguments=(torch.tensor([[2.0, 1.0]]), torch.tensor([1.0, 1.0]), 0.5, 0.9),
            why="temperature 0.5 doubles the differences: softmax(2, 0) = 0.88 and 0.12",
        ),
    ),
    random=_random,
    mistakes=(
        Mistake("the centre is not subtracted", {"(logits - centre)": "logits"}),
        Mistake(
            "the momentum is inverted: the old centre has the weight m",
            {"momentum * centre + (1 - momentum) * ": "(1 - momentum) * centre + momentum * "},
        ),
        Mistake(
            "the new centre is subtracted; P uses the old one",
            {"return probabilities, new": "return ((logits - new) / temperature).softmax(-1), new"},
        ),
        Mistake(
            "the centre is the mean of logits, not of probabilities",
            {"logits.mean(0)": "probabilities.mean(0)"},
        ),
        Mistake(
            "the centre is the mean of the logits before centring",
            {"logits.mean(0)": "(logits - centre).mean(0)"},
        ),
        Mistake(
            "the centre is subtracted after the division: subtract it first",
            {"(logits - centre) / temperature": "logits / temperature - centre"},
        ),
        Mistake(
            "the logits are multiplied by the temperature; divide by it",
            {"/ temperature": "* temperature"},
        ),
        Mistake(
            "the mean is over the prototypes; take it over the batch (axis 0)",
            {"logits.mean(0)": "logits.mean(-1, keepdim=True).expand_as(logits)[0]"},
        ),
        Mistake(
            "the softmax is over the batch; it is over the prototypes (axis -1)",
            {"softmax(-1)": "softmax(0)"},
        ),
    ),
)
