"""What a `GPT` costs: its parameters, the FLOPs of a token, the bytes that its backward pass needs.

Counted, not measured; in the papers' letters: L layers, D model width, H heads of width K, G heads
of keys and values, F feed-forward width, V vocabulary, T length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from torch import nn

from headway.models.contracts import parameter_count, shapes_only
from headway.models.gpt import GPT, GPTConfig

Recompute = Literal["none", "selective", "full"]
PLAIN = ("scaled-dot", "dot")


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """How many there are, counted in the model.

    total: each once. multiplied: those of the matrices that every token is multiplied by, the
    output projection among them: N in the count of FLOPs. Not in it: biases, gains, and tables in
    which a token is only looked up. split: those that tensor parallelism can divide, which are the
    multiplied ones and a token table of its own. block: one decoder block. ends: what is in none.
    """

    total: int
    multiplied: int
    split: int
    block: int
    ends: int


@lru_cache(maxsize=8)
def parameters(config: GPTConfig) -> Parameters:
    """Build the model on the meta device, where it has shapes and no numbers, and count."""
    with shapes_only():
        model = GPT(config)
    total = parameter_count(model)
    multiplied = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))
    looked_up = 0 if config.tie_output else config.vocabulary * config.model_dim
    block = parameter_count(model.decoder.blocks[0])
    return Parameters(
        total=total,
        multiplied=multiplied,
        split=multiplied + looked_up,
        block=block,
        ends=total - config.num_layers * block,
    )


def formula_parameters(config: GPTConfig) -> int:
    """L D (2 H K + 2 G K + m F) + V D + T D: the matrices and the tables, no biases, no gains.

    m is 2, with a gate 3; V D stands twice where the output has its own matrix, T D only where
    positions are learned. With H K = G K = D and F = 4 D it is 12 L D^2 + (V + T) D. Kaplan et al.
    2020, equation 2.1 and table 1.
    """
    width, heads = config.model_dim, config.num_heads + config.kv_heads
    matrices = 3 if config.activation == "swiglu" else 2
    block = width * (2 * heads * config.head_width + matrices * config.ffn_dim)
    tables = config.vocabulary * (1 if config.tie_output else 2)
    tables += config.max_length if config.positions == "learned" else 0
    return config.num_layers * block + tables * width


def attention_flops(config: GPTConfig, length: int) -> int:
    """4 L T H K, forward, a token: scores with T keys and the mean of T values, 2 T H K each.

    A causal mask makes half of them useless; they are counted, as the papers do. ValueError for
    scores that cost something else.
    """
    if config.attention not in PLAIN:
        raise ValueError(f"{config.attention=} is not counted here; {' and '.join(PLAIN)} are")
    if length < 1:
        raise ValueError(f"{length=} must be at least 1")
    return 4 * config.num_layers * length * config.num_heads * config.head_width


def forward_flops(config: GPTConfig, length: int) -> int:
    """2 N + 4 L T H K, a token: a product and a sum for every number that it is multiplied by.

    Left out: norms, softmax, activations, biases, the look-up, each below a percent for wide
    models. Kaplan et al. 2020, section 2.1.
    """
    return 2 * parameters(config).multiplied + attention_flops(config, length)


def training_flops(config: GPTConfig, length: int) -> int:
    """6 N + 12 L T H K, a token: forward, and twice that backward (to the inputs, to the weights).

    What is computed a second time to save memory does not count. Chowdhery et al. 2022, appendix B.
    """
    return 3 * forward_flops(config, length)


def activation_bytes(
    config: GPTConfig,
    tokens: int,
    length: int,
    *,
    element: int = 2,
    tensor: int = 1,
    flash: bool = True,
    recompute: Recompute = "none",
) -> int:
    """What the forward pass keeps for the backward pass, on one device, in bytes.

    tokens: s b, read at once, in texts of `length` s. element: bytes of a number. tensor: devices
    that split the heads and the feed-forward width. For GPT's blocks in 16 bits it is
    s b D L (10 + 24 / tensor + 5 H s / (D tensor)), on one device s b D L (34 + 5 H s / D); the
    last term is the scores, which `flash` and selective recomputation do without. Full
    recomputation keeps the blocks' inputs, 2 s b D L, and makes one block after the other.
    Korthikanti et al. 2022, equations 1, 2 and section 5, with their dropout masks of one byte.

    Added at the ends: the inputs of the last norm and of the output projection, 4 s b D. Logits
    are not: Headway's loss makes them in pieces.
    """
    if tokens < 1 or tensor < 1:
        raise ValueError(f"{tokens=} and {tensor=} must be at least 1")
    width = config.model_dim
    # two norms' inputs, those of attention and feed-forward; dropout masks after both
    whole = element * 4 * width + 2 * width
    queries, shared = config.num_heads * config.head_width, config.kv_heads * config.head_width
    inner = (4 if config.activation == "swiglu" else 2) * config.ffn_dim
    split = element * (2 * queries + 2 * shared + inner)
    if not flash and recompute != "selective":
        split += (2 * element + 1) * config.num_heads * length  # softmax, its mask, their product
    block = whole + split / tensor
    kept = element * width * config.num_layers + block if recompute == "full" else 0.0
    each = (kept or config.num_layers * block) + 2 * element * width
    return round(tokens * each)
