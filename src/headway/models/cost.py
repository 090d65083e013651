"""Cost of a language model: 2 N + 4 L T H K FLOPs per token forward, three times that in training.

Each of the N multiplied parameters takes one multiplication and one addition per token; attention
adds scores and sums over T keys. Everything is counted from the configuration, not measured. L
layers, D model width, H heads of width K, G key and value heads, F feed-forward width, V
vocabulary, T length.

>>> from headway.models import GPTConfig
>>> from headway.models.cost import formula_parameters, forward_flops, training_flops
>>> gpt2 = GPTConfig(**GPTConfig.sizes["gpt2-small"])  # L = 12, D = H K = 768, F = 4 D
>>> formula_parameters(gpt2) == 12 * 12 * 768**2 + (50_257 + 1024) * 768
True
>>> round(formula_parameters(gpt2) / 1e6)  # million parameters
124
>>> round(forward_flops(gpt2, length=1024) / 1e6)  # million FLOPs per token
285
>>> training_flops(gpt2, length=1024) == 3 * forward_flops(gpt2, length=1024)
True
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from torch import nn

from headway.blocks import MixtureOfExperts
from headway.blocks.feedforward import GATES
from headway.models.contracts import parameter_count, shapes_only
from headway.models.gpt import GPT
from headway.models.gpt_config import GPTConfig

Recompute = Literal["none", "selective", "full"]
PLAIN = ("scaled-dot", "dot")


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Numbers of parameters, counted in the model.

    total: all parameters; a shared matrix counts once. multiplied: the matrices that every token is
    multiplied by, including the output projection: N in the number of FLOPs. It excludes biases,
    gains and tables in which a token is only looked up. split: the parameters that tensor
    parallelism can divide: the matrices, and the token table if it is a separate one. block: the
    largest decoder block. ends: the parameters outside the blocks. A token is multiplied by the
    experts that read it.
    """

    total: int
    multiplied: int
    split: int
    block: int
    ends: int


@lru_cache(maxsize=8)
def parameters(config: GPTConfig) -> Parameters:
    """Count the parameters of the model, which is built on the meta device without values."""
    with shapes_only():
        model = GPT(config)
    total = parameter_count(model)
    multiplied = split = _weights(model)
    for mixture in model.modules():
        if isinstance(mixture, MixtureOfExperts):  # a token is multiplied by k of E experts only
            idle = len(mixture.experts) - mixture.router.chosen
            multiplied -= idle * _weights(mixture.experts[0])
    looked_up = 0 if config.tie_output else config.vocabulary * config.model_dim
    blocks = [parameter_count(block) for block in model.decoder.blocks]
    return Parameters(
        total=total,
        multiplied=multiplied,
        split=split + looked_up,
        block=max(blocks),
        ends=total - sum(blocks),
    )


def _weights(module: nn.Module) -> int:
    """Return the number of weights of all linear layers."""
    return sum(m.weight.numel() for m in module.modules() if isinstance(m, nn.Linear))


def formula_parameters(config: GPTConfig) -> int:
    """Return L D (2 H K + 2 G K + m F) + V D + T D: matrices and tables, no biases or gains.

    F is that of all experts together in a mixture of experts, whose router is left out.

    m is 2, with a gated feed-forward layer 3. V D counts twice if the output projection is a
    separate matrix, T D only if positions are learned. With H K = G K = D and F = 4 D the formula
    is 12 L D^2 + (V + T) D. Kaplan et al. 2020, equation 2.1 and table 1.
    """
    width, heads = config.model_dim, config.num_heads + config.kv_heads
    matrices = 3 if config.activation in GATES else 2
    attention = 2 * heads * config.head_width
    inner = [_inner(config, layer) for layer in range(config.num_layers)]
    tables = config.vocabulary * (1 if config.tie_output else 2)
    tables += config.max_length if config.positions == "learned" else 0
    return (config.num_layers * attention + matrices * sum(inner) + tables) * width


def _inner(config: GPTConfig, layer: int, per_token: bool = False) -> int:
    """Return F, or that of all experts of the layer; per_token: of those that read a token."""
    experts = config.experts
    if not experts.are_in(layer):
        return config.ffn_dim
    number = experts.chosen if per_token else experts.total
    return number * (experts.ffn_dim or config.ffn_dim) + experts.shared_dim


def attention_flops(config: GPTConfig, length: int) -> int:
    """Return 4 L T H K: forward FLOPs of attention per token.

    The scores with T keys and the weighted sum of T values take 2 T H K each. A causal mask makes
    half of them useless; they are counted, as in the papers. Raises ValueError for attention scores
    of another cost.
    """
    if config.attention not in PLAIN:
        raise ValueError(
            f"{config.attention=}: FLOPs are counted for {' and '.join(PLAIN)} attention only"
        )
    if length < 1:
        raise ValueError(f"{length=} must be at least 1")
    return 4 * config.num_layers * length * config.num_heads * config.head_width


def forward_flops(config: GPTConfig, length: int) -> int:
    """Return 2 N + 4 L T H K: forward FLOPs per token.

    Each multiplied parameter takes one multiplication and one addition. Norms, softmax,
    activations, biases and the embedding look-up are left out; each is below 1 % for wide models.
    Kaplan et al. 2020, section 2.1.
    """
    return 2 * parameters(config).multiplied + attention_flops(config, length)


def training_flops(config: GPTConfig, length: int) -> int:
    """Return 6 N + 12 L T H K: FLOPs of a training step per token.

    The backward pass takes twice the forward pass: gradients of the inputs and of the weights.
    Recomputation to save memory is not counted. Chowdhery et al. 2022, appendix B.
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
    """Return the bytes of activations stored for the backward pass on one device.

    tokens: s b, the tokens of a batch of b texts of `length` s. element: bytes of a number. tensor:
    the number of devices that split heads and feed-forward width (tensor parallelism). For GPT's
    blocks in 16 bits the result is s b D L (10 + 24 / tensor + 5 H s / (D tensor)), on one device
    s b D L (34 + 5 H s / D). The last term is the scores, which FlashAttention (`flash`) and
    selective recomputation do not store. Full recomputation stores the inputs of the blocks,
    2 s b D L, and the activations of one block at a time. Korthikanti et al. 2022, equations 1, 2
    and section 5, with their dropout masks of one byte.

    The inputs of the last norm and of the output projection are added, 4 s b D. The logits are not:
    the loss of Headway computes them in chunks. Raises ValueError unless tokens and tensor are
    positive.
    """
    if tokens < 1 or tensor < 1:
        raise ValueError(f"{tokens=} and {tensor=} must be at least 1")
    width = config.model_dim
    # two norms' inputs, those of attention and feed-forward; dropout masks after both
    whole = element * 4 * width + 2 * width
    queries, shared = config.num_heads * config.head_width, config.kv_heads * config.head_width
    widest = max(_inner(config, layer, per_token=True) for layer in range(config.num_layers))
    inner = (4 if config.activation in GATES else 2) * widest
    split = element * (2 * queries + 2 * shared + inner)
    if not flash and recompute != "selective":
        split += (2 * element + 1) * config.num_heads * length  # softmax, its mask, their product
    block = whole + split / tensor
    if recompute == "full":
        blocks = element * width * config.num_layers + block
    else:
        blocks = config.num_layers * block
    return round(tokens * (blocks + 2 * element * width))
