"""Self-attention does not know the order of its inputs.

Four word vectors go through one attention layer, and then the same four in another order. Each
step is shown for both: on the left as it is, on the right permuted. The rows are the same, in the
other order; of scores and weights the columns too. In short, f(s(x)) = s(f(x)): the layer is
permutation equivariant, it works on sets. Then positions are added, and it no longer does.

    python examples/permutation.py
"""

import math

import torch

from headway.attention import Mask, MultiHeadAttention, ScaledDot
from headway.blocks import Added, SinusoidalTable

WORDS = ["the", "quick", "brown", "fox"]
ORDER = [2, 0, 3, 1]  # the shuffle s: brown the fox quick
WIDTH, HEAD_WIDTH = 4, 3

torch.manual_seed(0)
attention = MultiHeadAttention(WIDTH, 1, kernel=ScaledDot(), head_dim=HEAD_WIDTH)
vectors = 2 * torch.randn(1, len(WORDS), WIDTH)


def steps(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return all intermediate results of self-attention, each with one row per word."""
    q = attention.query(x)[:, None]  # one head
    k, v = attention.keys_values(x)
    scores = q @ k.transpose(-1, -2) / math.sqrt(HEAD_WIDTH)
    return {
        "inputs x": x,
        "queries x W_Q": q,
        "keys x W_K": k,
        "values x W_V": v,
        "scores q k / sqrt(d)": scores,
        "weights softmax(scores)": attention.kernel.weights(q, k, Mask()),
        "outputs (weights v) W_O": attention(x, x, Mask()),
    }


def side_by_side(left: torch.Tensor, right: torch.Tensor, square: bool) -> None:
    """Print two tables with the word of each row, and of each column if they are square."""
    tables = ([WORDS, left], [[WORDS[i] for i in ORDER], right])
    if square:
        print((" " * 4).join(" " * 7 + "".join(f"{w:>7}" for w in words) for words, _ in tables))
    for i in range(len(WORDS)):
        cells = ("".join(f"{number:7.2f}" for number in rows[i]) for _, rows in tables)
        named = (f"{words[i]:>7}" for words, _ in tables)
        print((" " * 4).join(name + row for name, row in zip(named, cells, strict=True)))


def compare(plain: torch.Tensor, permuted: torch.Tensor, *, must_agree: bool) -> None:
    """Print each step for both orders, and check whether it is the same up to the permutation."""
    for (name, left), right in zip(steps(plain).items(), steps(permuted).values(), strict=True):
        left, right = left.squeeze(), right.squeeze()
        square = name.startswith(("scores", "weights"))
        expected = left[ORDER][:, ORDER] if square else left[ORDER]
        difference = float((right - expected).abs().max())
        same = difference < 1e-5
        print(f"\n{name}")
        side_by_side(left, right, square)
        verdict = "same, permuted" + (", rows and columns" if square else "")
        print(f"  {verdict if same else 'NOT the same'}; largest difference {difference:.1g}")
        assert same == must_agree, name


with torch.no_grad():
    print("WITHOUT POSITIONS: as it is, and permuted")
    compare(vectors, vectors[:, ORDER], must_agree=True)

    # PE(0) ... PE(3) are added to the words at positions 0 ... 3.
    add_positions, positions = Added(SinusoidalTable(WIDTH)), torch.arange(len(WORDS))[None]
    print("\n\nWITH SINUSOIDAL POSITIONS: as it is, and permuted")
    first, second = (add_positions(x, positions) for x in (vectors, vectors[:, ORDER]))
    compare(first, second, must_agree=False)

print("\nWithout positions attention sees a set of words; with them, a sentence.")
