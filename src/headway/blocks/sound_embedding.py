"""Sound embedding: x = GELU(conv_2(GELU(conv_1(m)))) + positions, for a log-mel spectrogram m.

Two convolutions over time turn the frames of a spectrogram into tokens. The second has stride 2, so
that a token stands for two frames: 30 seconds of 100 frames are 1,500 tokens.

>>> import torch
>>> from headway.blocks import SoundEmbedding
>>> embedding = SoundEmbedding(mels=8, model_dim=4, max_length=10)
>>> embedding(torch.randn(1, 8, 20)).shape  # B Y X: 8 mel bands, 20 frames -> B S D: 10 tokens
torch.Size([1, 10, 4])
"""

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.blocks.dropout import Dropout
from headway.blocks.positions import Added, LearnedTable, SinusoidalTable

KERNEL, STRIDE = 3, 2


class SoundEmbedding(nn.Module):
    """dropout(GELU(conv_2(GELU(conv_1(m)))) + P). Radford et al. 2023 (Whisper), section 2.2.

    The rows of P are the sines and cosines of `SinusoidalTable` with the layout endpoint. They are
    stored, because those of the published models are rounded otherwise, and are not trained.
    max_length: the number of rows, and the maximum number of tokens.
    """

    def __init__(self, mels: int, model_dim: int, max_length: int, dropout: float = 0.0) -> None:
        super().__init__()
        around = KERNEL // 2
        self.first = nn.Conv1d(mels, model_dim, KERNEL, padding=around)
        self.second = nn.Conv1d(model_dim, model_dim, KERNEL, stride=STRIDE, padding=around)
        self.positions = Added(LearnedTable(model_dim, max_length))
        self.dropout = Dropout(dropout)

    def init_weights(self) -> None:
        """Initialise with Xavier-uniform kernels, zero biases, and the sines and cosines."""
        for convolution in (self.first, self.second):
            nn.init.xavier_uniform_(convolution.weight)
            assert convolution.bias is not None
            nn.init.zeros_(convolution.bias)
        table = self.positions.table
        assert isinstance(table, LearnedTable)
        count, dim = table.vectors.shape
        with torch.no_grad():
            sines = SinusoidalTable(dim, "endpoint")(torch.arange(count)[None])[0]
            table.vectors.copy_(sines)

    def forward(self, frames: Float[Tensor, "B Y X"]) -> Float[Tensor, "B S D"]:
        """Embed spectrograms. Raises ValueError for more frames than there are positions."""
        most = self.positions.max_length
        if most is not None and frames.shape[2] > STRIDE * most:
            raise ValueError(
                f"the spectrogram has {frames.shape[2]} frames, but there are positions for "
                f"{STRIDE * most}: cut the sound into windows"
            )
        x = F.gelu(self.second(F.gelu(self.first(frames)))).transpose(1, 2)
        positions = torch.arange(x.shape[1], device=x.device)[None]
        return self.dropout(self.positions(x, positions))
