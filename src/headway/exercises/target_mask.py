"""Exercise: which tokens of a conversation a chat model learns to write."""

import torch

from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Mistake
from headway.exercises.inputs import integers, mask


def _random(seed: int) -> tuple[Tensor, Tensor]:
    tokens = torch.tensor(integers(seed, 24, 3, 40)).view(2, 12)
    return tokens, ~mask(seed, 2, 12)  # the first token is never part of an answer


EXERCISE = Exercise(
    name="target-mask",
    equation="""
The model reads the tokens 0 ... T-2 and predicts the tokens 1 ... T-1.
target[t] = token[t + 1] if token t + 1 belongs to an answer, else -1 (the loss ignores it).""",
    shapes=("tokens: B T, conversations\nis_answer: B T, True at tokens of answers\nresult: B T-1"),
    signature="def targets_of(tokens: Tensor, is_answer: Tensor) -> Tensor:",
    body="return torch.where(is_answer[:, 1:], tokens[:, 1:], -1)",
    hints=(
        "The last token predicts nothing, so there is one target less than tokens.",
        "`tokens[:, 1:]` are the next tokens. Which part of is_answer belongs to them?",
        "`torch.where(condition, a, b)` takes a where the condition is True.",
    ),
    cases=(
        Case(
            rung="worked example",
            arguments=(
                torch.tensor([[1, 5, 9, 6, 7, 2]]),
                torch.tensor([[False, False, False, False, True, True]]),
            ),
            expected=torch.tensor([[-1, -1, -1, 7, 2]]),
            why="the answer is 7 2: token 6, the end of the question, predicts its first token",
        ),
    ),
    random=_random,
    mistakes=(
        Mistake(
            "the mask is one position late: the token that predicts an answer's first token is "
            "left out, so the model never learns to begin",
            {"is_answer[:, 1:]": "is_answer[:, :-1]"},
        ),
        Mistake(
            "each token predicts itself: the target of position t is token t + 1",
            {"is_answer[:, 1:], tokens[:, 1:]": "is_answer[:, :-1], tokens[:, :-1]"},
        ),
        Mistake(
            "the tokens of the question are learned, too",
            {"torch.where(is_answer[:, 1:], tokens[:, 1:], -1)": "tokens[:, 1:]"},
        ),
        Mistake("the label that the loss ignores is -1 here", {", -1)": ", -100)"}),
        Mistake(
            "nothing is shifted: there is one target less than tokens",
            {"is_answer[:, 1:], tokens[:, 1:]": "is_answer, tokens"},
        ),
        Mistake("the mask is inverted: answers are learned", {"(is_answer": "(~is_answer"}),
    ),
)
