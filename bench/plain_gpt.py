"""GPT-2 as a short program writes it, compiled: the peer of `bench/gpu.py` that needs no library.

Training as in nanoGPT (Karpathy 2023): one matrix for q, k and v, torch's fused attention, all
logits at once. Generation as in gpt-fast (PyTorch 2023): keys and values in tensors of fixed size
that are written in place, and a step of fixed shapes, which CUDA graphs can replay.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.models import GPTConfig


class PlainBlock(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        width = config.model_dim
        self.num_heads = config.num_heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand = nn.Linear(width, config.ffn_dim)
        self.contract = nn.Linear(config.ffn_dim, width)

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None, at: Tensor | None) -> Tensor:
        """cache: keys and values, B H S K. at: the positions of `x`, if there is a cache."""
        rows, length, width = x.shape
        parts = self.qkv(self.norm_1(x)).split(width, dim=2)
        q, k, v = (p.view(rows, length, self.num_heads, -1).transpose(1, 2) for p in parts)
        if cache is None or at is None:
            context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            keys, values = cache
            keys[:, :, at], values[:, :, at] = k, v
            mask = torch.arange(keys.shape[2], device=x.device) <= at[:, None]
            context = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.output(context.transpose(1, 2).reshape(rows, length, width))
        hidden = F.gelu(self.expand(self.norm_2(x)), approximate="tanh")
        out: Tensor = x + self.contract(hidden)
        return out


class PlainGPT(nn.Module):
    """The model, with random weights."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.model_dim)
        self.positions = nn.Embedding(config.max_length, config.model_dim)
        self.blocks = nn.ModuleList(PlainBlock(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.model_dim)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of the next tokens."""
        logits = self._logits(tokens, torch.arange(tokens.shape[1], device=tokens.device), None)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def step(self, tokens: Tensor, at: Tensor, caches: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Return the most probable token after each sequence; `tokens` are at positions `at`."""
        return self._logits(tokens, at, caches)[:, -1:].argmax(-1)

    def _logits(
        self, tokens: Tensor, at: Tensor, caches: list[tuple[Tensor, Tensor]] | None
    ) -> Tensor:
        x = self.tokens(tokens) + self.positions(at)
        for number, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[number], at)
        logits: Tensor = F.linear(self.norm(x), self.tokens.weight)
        return logits


class Generator:
    """Continues prompts greedily. The keys and values stay at one address from call to call."""

    def __init__(self, model: PlainGPT, rows: int, length: int, *, compiled: bool) -> None:
        """length: of the longest text, with its prompt."""
        config, weight = model.config, model.tokens.weight
        shape = (rows, config.num_heads, length, config.model_dim // config.num_heads)
        self.model, self.step = model, model.step
        self.caches = [(weight.new_zeros(shape), weight.new_zeros(shape)) for _ in model.blocks]
        if compiled:
            for cache in self.caches:
                for tensor in cache:  # or a CUDA graph would refuse to write them
                    torch._dynamo.mark_static_address(tensor)
            self.step = torch.compile(model.step, mode="reduce-overhead", dynamic=False)

    @torch.no_grad()
    def __call__(self, prompts: Tensor, count: int) -> Tensor:
        """Return the next `count` tokens of each prompt."""
        at = torch.arange(prompts.shape[1], device=prompts.device)
        # Not compiled: it is of another shape than all further steps.
        tokens = self.model.step(prompts, at, self.caches)
        chosen = [tokens]
        at = at[-1:] + 1
        for _ in range(count - 1):
            tokens = self.step(tokens, at, self.caches).clone()  # a CUDA graph reuses its memory
            chosen.append(tokens)
            at = at + 1
        return torch.cat(chosen, dim=1)
