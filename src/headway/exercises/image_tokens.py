"""Exercise: the patches of images in the prompt of a GPT."""

import torch

from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Mistake
from headway.exercises.inputs import integers, normal

IMAGE_TOKEN = 9


def _reference(
    tokens: Tensor, embedding: Tensor, image_token: int, patches: Tensor, weight: Tensor
) -> Tensor:
    projected = iter((patches @ weight.T).flatten(0, 1))
    rows = [
        [next(projected) if token == image_token else embedding[token] for token in row]
        for row in tokens.tolist()
    ]
    return torch.stack([torch.stack(row) for row in rows])


def _random(seed: int) -> tuple[Tensor, Tensor, int, Tensor, Tensor]:
    tokens = torch.tensor(integers(seed, 20, 0, IMAGE_TOKEN)).view(2, 10)
    for row, first in ((0, 1), (1, 3), (1, 7)):  # three images of three patches
        tokens[row, first : first + 3] = IMAGE_TOKEN
    return (
        tokens,
        normal(seed, IMAGE_TOKEN + 1, 4),
        IMAGE_TOKEN,
        normal(seed + 1, 3, 3, 4),
        normal(seed + 2, 4, 4),
    )


WORDS = torch.tensor([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]])

EXERCISE = Exercise(
    name="image-tokens",
    equation="""
e[b, t] = E[token]   if the token is a word
e[b, t] = W v        if the token is image_token; v is the next patch
The patches come image after image, and in each image in their order; the prompts of a batch take
them row by row.""",
    shapes=(
        "tokens: B T, with image_token at the places of patches\nembedding: V D, the matrix E\n"
        "image_token: the id of those places\npatches: I P E, vectors of P patches of I images\n"
        "weight: D E, the matrix W\nresult: B T D"
    ),
    signature=(
        "def embed_prompt(\n"
        "    tokens: Tensor,\n"
        "    embedding: Tensor,\n"
        "    image_token: int,\n"
        "    patches: Tensor,\n"
        "    weight: Tensor,\n"
        ") -> Tensor:"
    ),
    body="""
vectors = embedding[tokens]
places = tokens == image_token
return vectors.masked_scatter(places[..., None], patches @ weight.T)""",
    hints=(
        "`embedding[tokens]` are the vectors of words, and of no use at the places of patches.",
        "`patches @ weight.T` is W v of every patch.",
        "`masked_scatter` takes numbers in order wherever a mask is True.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(
                torch.tensor([[0, 2, 2, 1]]),
                WORDS,
                2,
                torch.tensor([[[5.0, 6.0], [7.0, 8.0]]]),
                torch.tensor([[0.0, 1.0], [2.0, 0.0]]),
            ),
            expected=torch.tensor([[[1.0, 1.0], [6.0, 10.0], [8.0, 14.0], [2.0, 2.0]]]),
            why="W = [[0, 1], [2, 0]] makes (5, 6) to (6, 10); the image is between two words",
        ),
        Case(
            rung="two images",
            arguments=(
                torch.tensor([[2, 0, 2]]),
                WORDS,
                2,
                torch.tensor([[[5.0, 6.0]], [[7.0, 8.0]]]),
                torch.eye(2),
            ),
            expected=torch.tensor([[[5.0, 6.0], [1.0, 1.0], [7.0, 8.0]]]),
            why="two images of one patch, with a word between them: the first image comes first",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake("the patches are not projected", {"patches @ weight.T": "patches"}),
        Mistake("the matrix W is transposed: W v is v @ W.T", {"weight.T": "weight"}),
        Mistake(
            "every image shows the patches of the first one",
            {"patches @ weight.T": "(patches @ weight.T)[:1].expand_as(patches)"},
        ),
        Mistake(
            "the images are in the reverse order",
            {"patches @ weight.T": "(patches @ weight.T).flip(0)"},
        ),
        Mistake(
            "the patches of an image are in the reverse order",
            {"patches @ weight.T": "(patches @ weight.T).flip(1)"},
        ),
        Mistake(
            "a patch is added to the vector of image_token, which it replaces",
            {"vectors.masked_scatter": "vectors + torch.zeros_like(vectors).masked_scatter"},
        ),
        Mistake(
            "the patches stand at the beginning of the prompts, not at their places",
            {"return": "places = places.sort(descending=True).values\nreturn"},
        ),
    ),
)
