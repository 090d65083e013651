"""Attention is soft look-up.

A dictionary has a value only for its keys. Attention has one for every query: it computes the
similarity of the query to each key (a dot product of their embeddings), turns the similarities
into weights that sum to 1 (softmax), and returns the weighted average of the values.

    python examples/soft_lookup.py
    python examples/soft_lookup.py Smythe     another name for the second table
"""

import sys
from collections.abc import Sequence

import torch

from headway.attention import Mask, ScaledDot

Vector = Sequence[float]


def look_up(
    query: Vector, keys: Sequence[Vector], values: Sequence[Vector]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights softmax(q K^T / sqrt(width)), and their product with V."""
    q, k, v = (torch.tensor(x, dtype=torch.float64) for x in ([query], keys, values))
    q, k, v = (x[None, None] for x in (q, k, v))  # one sentence, one head
    kernel = ScaledDot()
    return kernel.weights(q, k, Mask()).flatten(), kernel(q, k, v, Mask()).flatten()


def show(names: Sequence[str], values: Sequence[object], weights: torch.Tensor) -> None:
    """Print each key with its value, its weight, and a bar as long as the weight."""
    for name, value, weight in zip(names, values, weights.tolist(), strict=True):
        print(f"  {name:<8} {value!s:<8} {weight:.2f}  {'█' * round(30 * weight)}")


# ---- A dictionary of fruit ---------------------------------------------------------------------

french = {"apple": "pomme", "banana": "banane", "lemon": "citron"}
try:
    answer = french["orange"]
except KeyError as error:
    answer = f"KeyError: {error}"
print(f'"orange" in a dictionary:\n  {answer}\n')

# Embeddings by hand, so that similar words have similar vectors. Features of the English ones:
#             fruit  citrus  sour  long
embedding = {
    "apple":  (1,    0,      1,    0),
    "banana": (1,    0,      0,    2),
    "lemon":  (1,    2,      2,    0),
    "orange": (1,    2,      0,    0),
}  # fmt: skip
# The French embeddings have two dimensions: a value need not be as wide as a key.
plane = {"pomme": (2, 0), "banane": (0, 2), "citron": (-2, -1)}

keys = [embedding[word] for word in french]
values = [plane[word] for word in french.values()]
weights, answer = look_up(embedding["orange"], keys, values)

print('attention with the query "orange":')
show(list(french), list(french.values()), weights)
mix = " + ".join(f"{w:.1f} {word}" for w, word in zip(weights, french.values(), strict=True))
x, y = answer.tolist()
nearest = min(plane, key=lambda word: (plane[word][0] - x) ** 2 + (plane[word][1] - y) ** 2)
print(f"  {mix} = ({x:.2f}, {y:.2f}), nearest to {nearest}\n")

# ---- A table of room numbers -------------------------------------------------------------------

rooms = {"Smith": 200, "Summer": 201, "Smeeth": 202}
query_name = sys.argv[1] if len(sys.argv) > 1 else "Summeth"


def bigrams(name: str) -> list[str]:
    """Summer -> su um mm me er"""
    small = name.lower()
    return [small[i : i + 2] for i in range(len(small) - 1)]


# These embeddings are computed: the embedding of a name counts its pairs of letters.
all_bigrams = sorted({pair for name in [*rooms, query_name] for pair in bigrams(name)})


def embed(name: str) -> list[int]:
    return [bigrams(name).count(pair) for pair in all_bigrams]


numbers = [[number] for number in rooms.values()]
weights, answer = look_up(embed(query_name), [embed(name) for name in rooms], numbers)
print(f'attention with the query "{query_name}":')
show(list(rooms), list(rooms.values()), weights)
best = max(zip(weights.tolist(), rooms, strict=True))[1]
print(f"  room {float(answer):.2f}: no such room, but most like {best}, in {rooms[best]}")
