"""Exercise: BERT's corruption of tokens."""

import torch

from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Mistake
from headway.exercises.inputs import integers


def _random(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.tensor(integers(seed, 48, 5, 30)).view(4, 12)
    others = torch.tensor(integers(seed + 1, 48, 5, 30)).view(4, 12)
    chosen = torch.rand(4, 12, generator=generator) < 0.5
    return ids, chosen, torch.rand(4, 12, generator=generator), others, 4


EXERCISE = Exercise(
    name="masked-tokens",
    equation="""
Of the chosen tokens, those with chance < 0.8 become [MASK], those with 0.8 <= chance < 0.9 become
another token, the rest stay. All chosen tokens are predicted, the unchanged ones too.
The label of a chosen token is the token itself; the label of all others is -100 (ignored).""",
    shapes=(
        "ids: B T, tokens\nchosen: B T, bool\nchances: B T, numbers from 0 to 1\n"
        "others: B T, random tokens\nmask: id of [MASK]\n"
        "result: (inputs, labels), each B T of integers"
    ),
    signature=(
        "def corrupt(ids: Tensor, chosen: Tensor, chances: Tensor, others: Tensor, mask: int):"
    ),
    body="""
labels = torch.where(chosen, ids, -100)
inputs = torch.where(chosen & (chances < 0.8), mask, ids)
replaced = chosen & (chances >= 0.8) & (chances < 0.9)
inputs = torch.where(replaced, others, inputs)
return inputs, labels""",
    hints=(
        "`torch.where(condition, a, b)` takes a where the condition is True.",
        "Make the labels from the original ids, before anything is masked.",
        "`chosen & (chances < 0.8)`: parentheses are needed around the comparison.",
    ),
    cases=(
        Case(
            rung="worked example",
            arguments=(
                torch.tensor([[10, 11, 12, 13]]),
                torch.tensor([[True, True, True, False]]),
                torch.tensor([[0.5, 0.85, 0.95, 0.1]]),
                torch.tensor([[20, 21, 22, 23]]),
                4,
            ),
            expected=(torch.tensor([[4, 21, 12, 13]]), torch.tensor([[10, 11, 12, -100]])),
            why="chances 0.5, 0.85, 0.95: [MASK], another token, unchanged; the last is not chosen",
        ),
    ),
    random=_random,
    mistakes=(
        Mistake(
            "tokens that are not chosen have labels: theirs is -100, so that the loss ignores them",
            {"torch.where(chosen, ids, -100)": "ids"},
        ),
        Mistake(
            "the labels are made from the corrupted tokens; use the original ids",
            {"return inputs, labels": "return inputs, torch.where(chosen, inputs, -100)"},
        ),
        Mistake(
            "every chosen token becomes [MASK]; that is for 80 % of them only",
            {
                "chosen & (chances < 0.8)": "chosen",
                "torch.where(replaced, others, inputs)": "inputs",
            },
        ),
        Mistake(
            "only masked tokens have labels; replaced and unchanged ones are predicted too",
            {"torch.where(chosen,": "torch.where(chosen & (chances < 0.8),"},
        ),
        Mistake(
            "tokens that are not chosen are changed: combine the chances with `chosen`",
            {
                "torch.where(chosen & (chances < 0.8)": "torch.where((chances < 0.8)",
                "replaced = chosen & ": "replaced = ",
            },
        ),
        Mistake(
            "no chosen token stays unchanged: replaced are those with chance below 0.9",
            {" & (chances < 0.9)": ""},
        ),
        Mistake(
            "`chosen` is inverted: True means chosen",
            {"labels = ": ("chosen = ~chosen\nlabels = ")},
        ),
        Mistake(
            "tokens that are not chosen have label 0, which is a token; theirs is -100",
            {"-100": "0"},
        ),
        Mistake(
            "the chances are reversed: below 0.8 is [MASK], the next tenth another token",
            {"labels = ": ("chances = 1 - chances\nlabels = ")},
        ),
    ),
)
