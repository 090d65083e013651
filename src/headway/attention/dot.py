"""Dot-product score, unscaled: score(q, k) = q . k.

The simplest score. Its size grows with the width of the vectors, which `ScaledDot` corrects.

>>> import torch
>>> from headway.attention import Dot
>>> words = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])  # B H T K = 1 1 3 2
>>> Dot().scores(words, words)[0, 0]
tensor([[1., 0., 1.],
        [0., 1., 1.],
        [1., 1., 2.]])
"""

from headway.attention.kernel import SoftmaxKernel
from headway.base.shapes import Float, Tensor


class Dot(SoftmaxKernel):
    """softmax(Q K^T) V. Queries and keys have the same width.

    Luong et al. 2015, section 3.1, "dot". What the missing scale does: `headway lecture scaling`.
    """

    def scores(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        return q @ k.transpose(-1, -2)
