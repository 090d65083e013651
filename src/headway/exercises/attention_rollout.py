"""Exercise: attention rollout."""

from typing import Any

import torch

from headway.attention import record_attention
from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import normal
from headway.inspection.attention_flow import rollout
from headway.inspection.render import heat_map


def _reference(weights: list[Tensor]) -> Tensor:
    return rollout(weights)[-1]


def _random(seed: int) -> tuple[list[Tensor]]:
    return ([normal(seed + 10 * i, 2, 5, 5).softmax(-1) for i in range(3)],)


def _show(model: Any, learner: Function, words: list[str]) -> str:
    """The rollout of the encoder of the tiny translator for one sentence."""
    with torch.no_grad(), record_attention(model) as maps:
        model.encode(model.ids(words))
    weights = [m[0][0] for name, m in maps.items() if name.startswith("encoder")]
    tokens = [*words, "</s>"]
    drawn = heat_map(tokens, tokens, learner(weights).tolist())
    return f"rollout of the encoder: fraction of each input word at each position\n{drawn}"


HALF = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
FIRST = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])

EXERCISE = Exercise(
    name="attention-rollout",
    equation="""
R_l = A_l R_(l-1),  R_0 = I,  A_l = 0.5 (mean over the heads of layer l) + 0.5 I
I stands for the residual connection. R_L[t, s] estimates how much of input token s is at position
t after the last layer.      (Abnar and Zuidema 2020)""",
    shapes="weights: list of L tensors H T T, first layer first\nresult: T T, R of the last layer",
    signature="def rollout(weights: list[Tensor]) -> Tensor:",
    body="""
identity = torch.eye(weights[0].shape[-1])
result = identity
for layer in weights:
    result = (0.5 * layer.mean(0) + 0.5 * identity) @ result
return result""",
    hints=(
        "`layer.mean(0)` is the mean over the heads, `torch.eye(T)` the identity.",
        "Go through the layers from the first to the last.",
        "The new layer is the left factor of the product.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=([FIRST],),
            expected=torch.tensor([[1.0, 0.0], [0.5, 0.5]]),
            why="one layer that attends to the first token: token 2 keeps half of itself",
        ),
        Case(
            rung="two layers",
            arguments=([FIRST, HALF],),
            expected=torch.tensor([[0.75, 0.25], [0.75, 0.25]]),
            why="the second layer swaps the tokens: half of each row of R_1: (1 + 0.5) / 2 = 0.75",
        ),
    ),
    random=_random,
    mistakes=(
        Mistake(
            "the residual connection is missing: A = 0.5 mean + 0.5 I",
            {"0.5 * layer.mean(0) + 0.5 * identity": "layer.mean(0)"},
        ),
        Mistake(
            "the product is in the wrong order: the later layer is the left factor",
            {"(0.5": "result @ (0.5", ") @ result": ")"},
        ),
        Mistake(
            "the identity is mixed in once at the end; it belongs to each layer",
            {
                "(0.5 * layer.mean(0) + 0.5 * identity)": "layer.mean(0)",
                "return result": "return 0.5 * result + 0.5 * identity",
            },
        ),
        Mistake("the halves are missing, so that rows do not sum to 1", {"0.5 * ": ""}),
        Mistake(
            "only the last layer is used; multiply all layers", {"in weights:": "in weights[-1:]:"}
        ),
        Mistake("the last layer is missing (off by one)", {"in weights:": "in weights[:-1]:"}),
        Mistake(
            "the layers are averaged; multiply their matrices",
            {
                "result = identity": "result = 0 * identity",
                "= (0.5": "= result + (0.5",
                "@ result": "/ len(weights)",
            },
        ),
        Mistake(
            "only the first head is used; take the mean over the heads",
            {"layer.mean(0)": "layer[0]"},
        ),
    ),
    plug=Plug(part="a view of the trained encoder", show=_show),
)
