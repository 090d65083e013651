"""Recurrent cells: h_t = f(x_t, h_(t-1)), with gates that decide what to keep and what to forget.

GRU:   r = sigmoid(W_r x + U_r h), z = sigmoid(W_z x + U_z h), n = tanh(W_n x + r * U_n h),
       h' = (1 - z) * n + z * h
LSTM:  i, f, o = sigmoid(W x + U h), g = tanh(W_g x + U_g h), c' = f * c + i * g, h' = o * tanh(c')

A gate near 1 copies its input, near 0 blocks it: z of a GRU and f of an LSTM let a state pass many
steps unchanged, so its gradient does too. Biases are left out of the equations above.

>>> import torch
>>> from headway.blocks import GRU
>>> gru = GRU(input_size=1, hidden_size=1, batch_first=True)
>>> for parameter in gru.parameters():
...     _ = parameter.data.zero_()  # all gates are sigmoid(0) = 1/2, the new value tanh(0) = 0
>>> outputs, last = gru(torch.zeros(1, 3, 1), torch.ones(1, 1, 1))  # three words, state 1
>>> outputs.flatten().tolist()  # half of the state is forgotten at each word
[0.5, 0.25, 0.125]
"""

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Tensor


class GRU(nn.GRU):
    """Gated recurrent unit, one layer; parameters and arguments are those of torch's.

    Cho et al. 2014, section 2.3, with the reset gate after the product, as in torch.
    """

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "B T E"], state: Float[Tensor, "1 B H"]
    ) -> tuple[Float[Tensor, "B T H"], Float[Tensor, "1 B H"]]:
        h = state[0]
        outputs = []
        for word in x.unbind(1):
            h = self.step(word, h)
            outputs.append(h)
        return torch.stack(outputs, dim=1), h[None]

    def step(self, x: Float[Tensor, "B E"], h: Float[Tensor, "B H"]) -> Float[Tensor, "B H"]:
        """Return the state after one word."""
        of_x = F.linear(x, self.weight_ih_l0, self.bias_ih_l0)
        of_h = F.linear(h, self.weight_hh_l0, self.bias_hh_l0)
        (x_r, x_z, x_n), (h_r, h_z, h_n) = of_x.chunk(3, dim=-1), of_h.chunk(3, dim=-1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * h_n)
        return (1 - z) * n + z * h


class LSTM(nn.LSTM):
    """Long short-term memory, one layer; parameters and arguments are those of torch's.

    Hochreiter and Schmidhuber 1997; forget gate: Gers et al. 2000.
    """

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "B T E"],
        state: tuple[Float[Tensor, "1 B H"], Float[Tensor, "1 B H"]],
    ) -> tuple[Float[Tensor, "B T H"], tuple[Float[Tensor, "1 B H"], Float[Tensor, "1 B H"]]]:
        h, c = state[0][0], state[1][0]
        outputs = []
        for word in x.unbind(1):
            h, c = self.step(word, h, c)
            outputs.append(h)
        return torch.stack(outputs, dim=1), (h[None], c[None])

    def step(
        self, x: Float[Tensor, "B E"], h: Float[Tensor, "B H"], c: Float[Tensor, "B H"]
    ) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]:
        """Return output and cell state after one word."""
        of_x = F.linear(x, self.weight_ih_l0, self.bias_ih_l0)
        of_h = F.linear(h, self.weight_hh_l0, self.bias_hh_l0)
        i, f, g, o = (of_x + of_h).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
