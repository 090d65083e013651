"""Exercise: a linear layer with a LoRA adapter."""

import torch
from torch import nn

from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import normal
from headway.exercises.plugging import swapped
from headway.models import Translator
from headway.transforms.lora import LoRALinear, lora


class LearnerLinear(LoRALinear):
    """A linear layer with the learner's adapter."""

    adapted: Function

    def forward(self, x: Tensor) -> Tensor:
        alpha = self.scale * len(self.lora_a)
        result: Tensor = self.adapted(x, self.weight, self.bias, self.lora_a, self.lora_b, alpha)
        return result


def _transform(model: Translator, learner: Function) -> Translator:
    with_learner = swapped(LoRALinear, LearnerLinear, "adapted")
    return with_learner(lora(model, rank=4), learner).requires_grad_(True)


def _reference(x: Tensor, w: Tensor, bias: Tensor, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    linear = nn.Linear(w.shape[1], w.shape[0])
    layer = LoRALinear(linear, len(a), alpha)
    values = {"weight": w, "bias": bias, "lora_a": a, "lora_b": b}
    return torch.func.functional_call(layer, values, (x,))  # type: ignore[no-any-return]


def _random(seed: int) -> tuple[object, ...]:
    shapes = ((2, 5, 6), (4, 6), (4,), (3, 6), (4, 3))
    return *(normal(seed + 10 * i, *shape) for i, shape in enumerate(shapes)), 16.0


X = torch.tensor([[[1.0, 2.0]]])

EXERCISE = Exercise(
    name="lora",
    equation="""
y = x W^T + bias + (alpha / r) x A^T B^T
W is frozen during fine-tuning; only A and B, of rank r, are trained.      (Hu et al. 2021)""",
    shapes=("x: B T I\nweight: O I\nbias: O\na: r I\nb: O r\nalpha: a number\nresult: B T O"),
    signature=(
        "def lora_linear(x: Tensor, weight: Tensor, bias: Tensor, a: Tensor, b: Tensor, "
        "alpha: float) -> Tensor:"
    ),
    body="""
change = (x @ a.T) @ b.T
return x @ weight.T + bias + alpha / len(a) * change""",
    hints=(
        "First the linear layer: `x @ weight.T + bias`.",
        "x A^T has r features, (x A^T) B^T has O again.",
        "r is the number of rows of a.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(
                X,
                torch.eye(2),
                torch.zeros(2),
                torch.tensor([[1.0, 1.0], [0.0, 0.0]]),
                torch.tensor([[1.0, 0.0], [2.0, 0.0]]),
                4.0,
            ),
            expected=torch.tensor([[[7.0, 14.0]]]),
            why="x A^T = (3, 0); times B^T: (3, 6); alpha / r = 2: (1, 2) + 2 (3, 6) = (7, 14)",
        ),
        Case(
            rung="start of training",
            arguments=(X, torch.eye(2), torch.ones(2), torch.ones(1, 2), torch.zeros(2, 1), 16.0),
            expected=torch.tensor([[[2.0, 3.0]]]),
            why="B is 0 at first: the output is that of the linear layer, x + 1",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake("the factor alpha / r is missing", {"alpha / len(a) * ": ""}),
        Mistake("the factor is alpha; divide it by the rank r", {"alpha / len(a)": "alpha"}),
        Mistake("only the adapter is computed; add x W^T + bias", {"x @ weight.T + bias + ": ""}),
        Mistake("the bias is not added", {" + bias": ""}),
        Mistake("the adapter is not added", {" + alpha / len(a) * change": ""}),
        Mistake(
            "alpha is divided by the input width; divide it by the rank r, the rows of a",
            {"len(a)": "x.shape[-1]"},
        ),
        Mistake("alpha is multiplied by the rank r; divide by it", {"/ len": "* len"}),
        Mistake(
            "alpha is divided by the square root of the rank; divide by the rank r itself",
            {"len(a)": "len(a) ** 0.5"},
        ),
    ),
    plug=Plug(
        part="all linear layers of attention and feed-forward, with adapters of rank 4",
        transform=_transform,
    ),
)
