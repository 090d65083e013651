"""Language model: P(x_1 ... x_T) = product over t of P(x_t | x_1 ... x_(t-1)).

A decoder without cross-attention predicts each token from the tokens before it. Trained on text
without labels, it generates text by predicting one token after another. GPT-1 to GPT-3 and today's
models differ in norms, position encodings and feed-forward layers only.

>>> import torch
>>> from headway.models import GPT, GPTConfig
>>> config = GPTConfig(model_dim=8, num_heads=2, ffn_dim=16, num_layers=1, vocabulary=10)
>>> model = GPT(config).eval()
>>> words = torch.tensor([[4, 5, 6]])
>>> logits = model(words)  # B T V: the prediction after each of the three words
>>> logits.softmax(-1).sum(-1).detach().round(decimals=2)  # each is a distribution over V = 10
tensor([[1., 1., 1.]])
>>> changed = model(torch.tensor([[4, 5, 7]]))  # another third word
>>> (logits != changed).any(-1)  # predictions from earlier words do not depend on it
tensor([[False, False,  True]])
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from headway.attention import (
    AttentionPositions,
    Documents,
    GroupedQueryAttention,
    MultiHeadAttention,
    RotaryScaling,
)
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks import (
    AcrossHeads,
    ClampedFeedForward,
    DecoderOnly,
    DecoderOnlyBlock,
    DecoderState,
    Embeddings,
    FeedForward,
    GatedFeedForward,
    InnerNorm,
    MixtureOfExperts,
    MultipliedPreNorm,
    OffsetRMSNorm,
    ParallelBlock,
    PostNorm,
    PreNorm,
    Residual,
    RMSNorm,
    Router,
    SandwichNorm,
)
from headway.blocks.feedforward import ACTIVATIONS, CLAMPED, GATES
from headway.blocks.norms import NORMS, Norm
from headway.models import kernels_and_positions
from headway.models.contracts import init_normal
from headway.models.gpt_config import GPTConfig


class GPT(nn.Module):
    """P(x_t | x_<t) = softmax(W decoder(E[x_<t])): embeddings, decoder, output projection.

    Radford et al. 2018 (GPT-1), 2019 (GPT-2); Brown et al. 2020 (GPT-3); Touvron et al. 2023.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = gpt_embeddings(config)
        self.decoder = _decoder(config)
        self.output = nn.Linear(config.model_dim, config.vocabulary, bias=config.output_bias)
        self.tie_weights()
        if not self.output.weight.is_meta:
            self.init_weights()

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; call it again after replacing parameters."""
        if self.config.tie_output:
            self.output.weight = self.embedding.tokens.weight

    def init_weights(self) -> None:
        """Initialise with N(0, 0.02^2) and zero biases.

        Unless it is post-norm, the last matrix of each of the 2 L sublayers is scaled by
        1 / sqrt(2 L), so that the variance of their sum does not grow with L. Radford et al.
        2019, section 2.3.
        """
        init_normal(self, std=0.02)
        if self.config.norm != "post":
            std = 0.02 / (2 * self.config.num_layers) ** 0.5
            for name, weight in self.decoder.named_parameters():
                if name.endswith(("attention.output.weight", ".contract.weight")):
                    nn.init.normal_(weight, std=std)

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens, including a prompt; None if there is no limit."""
        scaling = self.config.rotary_scaling
        if scaling.kind == "longrope":
            return scaling.original_length
        return self.embedding.positions.max_length

    def hidden(
        self, tokens: Int[Tensor, "B T"], documents: Documents | None = None
    ) -> Float[Tensor, "B T D"]:
        """Return the hidden vectors that predict the next token after each of `tokens`.

        Padding must be at the right, where no real token attends to it. documents: the documents of
        packed sequences; each is computed as if it were alone.
        """
        embedded = self.embedding(tokens, documents=documents)
        return self.decoder(embedded, documents)

    def forward(
        self, tokens: Int[Tensor, "B T"], documents: Documents | None = None
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the next token after each of `tokens`."""
        return self.logits(self.hidden(tokens, documents))

    def logits(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        """Return c tanh(s W h / c) for the limit c and the scale s of the logits, if there are."""
        scale, cap = self.config.logit_scale, self.config.logit_cap
        logits: Tensor = self.output(hidden if scale == 1 else hidden * scale)
        return logits if cap is None else cap * (logits / cap).tanh()

    def start(
        self, tokens: Int[Tensor, "B S"], keys: Bool[Tensor, "B S"] | None = None
    ) -> DecoderState:
        """Process S earlier tokens, at least 0, and return the decode state after them.

        To continue a prompt, pass all of its tokens but the last one, and the last one to the first
        `step`, which returns the logits of the first new token. keys: True for real tokens, False
        for padding; None if nothing is padded. Raises ValueError if padding is not at the right.
        """
        state = self.decoder.start(tokens.shape[0])
        if tokens.shape[1]:
            self.extend(tokens, state)
        return self.without_padding(state, keys)

    @staticmethod
    def without_padding(state: DecoderState, keys: Bool[Tensor, "B S"] | None) -> DecoderState:
        """Return the decode state without the padding of its tokens; keys as in `start`."""
        if keys is None:
            return state
        lengths = keys.sum(1)
        if not torch.equal(
            keys, torch.arange(keys.shape[1], device=keys.device) < lengths[:, None]
        ):
            raise ValueError(
                "keys must be True for the first tokens of each sequence: pad at the right"
            )
        return state.rewind(lengths.tolist())

    def extend(self, tokens: Int[Tensor, "N T"], state: DecoderState) -> None:
        """Process T further tokens of a prompt, whose logits are not needed; updates `state`."""
        self.decoder.step(self.embedding(tokens, state.past), state)

    def step(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T V"], DecoderState]:
        hidden = self.decoder.step(self.embedding(tokens, state.past), state)
        return self.logits(hidden), state


def gpt_embeddings(config: GPTConfig) -> Embeddings:
    """Make the embeddings: token ids become the input of the first block."""
    positions = kernels_and_positions.input_positions(
        config.positions, config.model_dim, 0, config.max_length
    )
    # sines have amplitude 1, so words must not be 50 times smaller; a learned table is as small
    scale = None if config.positions == "sinusoidal" else 1.0
    scale = scale if config.embedding_scale is None else config.embedding_scale
    tokens = nn.Embedding(config.vocabulary, config.model_dim)
    norm = gpt_norm(config) if config.embedding_norm else None
    return Embeddings(tokens, positions, config.dropout, scale, norm)


def gpt_positions(config: GPTConfig, kind: str = "g") -> AttentionPositions | None:
    """Make the position encoding inside self-attention: one object for all layers of a kind.

    kind: the letter of `GPTConfig.layers`; None is returned for G and L, which have no positions.
    """
    if kind.isupper():
        return None
    has_own_base = kind == "l" and config.local_rotary_base is not None
    return kernels_and_positions.attention_positions(
        config.positions,
        config.num_heads,
        config.head_width,
        causal=True,
        rotary=kernels_and_positions.RotaryKind(
            (has_own_base and config.local_rotary_base) or config.rotary_base,
            config.rotated,
            config.rotary_pairs == "adjacent",
            RotaryScaling() if has_own_base else config.rotary_scaling,
        ),
    )


def _decoder(config: GPTConfig) -> DecoderOnly:
    positions = {kind: gpt_positions(config, kind) for kind in dict.fromkeys(config.kinds)}
    if config.local_rotary_base is None and "g" in positions and "l" in positions:
        positions["l"] = positions["g"]  # whose angles are then computed once for all layers
    block = ParallelBlock if config.norm.startswith("parallel") else DecoderOnlyBlock
    blocks = (
        block(
            gpt_attention(config, positions[kind], kind),
            gpt_experts(config) if config.experts.are_in(number) else gpt_feedforward(config),
            gpt_residual(config),
        )
        for number, kind in enumerate(config.kinds)
    )
    return DecoderOnly(blocks, nn.Identity() if config.norm == "post" else gpt_norm(config))


def gpt_attention(
    config: GPTConfig, positions: AttentionPositions | None, kind: str = "g"
) -> MultiHeadAttention:
    """Make the self-attention of a block; all blocks of a kind share `positions`."""
    heads, width = config.num_heads, config.head_width
    kernel = kernels_and_positions.kernel(
        config.attention,
        heads,
        width,
        config.window,
        kernels_and_positions.Limits(
            config.score_scale,
            config.score_cap,
            config.window if kind in "lL" else None,
            config.sinks,
        ),
    )
    has_bias = config.attention_biases != "none"
    if config.kv_heads == heads and not config.qk_norm:
        attention = MultiHeadAttention(
            config.model_dim,
            heads,
            kernel=kernel,
            head_dim=width,
            bias=has_bias,
            positions=positions,
        )
    else:
        norm = OffsetRMSNorm if config.norm_kind == "rms-offset" else RMSNorm
        attention = GroupedQueryAttention(
            config.model_dim,
            heads,
            config.kv_heads,
            kernel=kernel,
            head_dim=width,
            bias=has_bias,
            positions=positions,
            head_norm=partial(norm, eps=config.norm_eps) if config.qk_norm else nn.Identity,
        )
        if config.qk_norm_over == "all":
            attention.query_norm = AcrossHeads(norm(heads * width, config.norm_eps))
            attention.key_norm = AcrossHeads(norm(config.kv_heads * width, config.norm_eps))
    if config.attention_biases == "qkv":
        attention.output = nn.Linear(heads * width, config.model_dim, bias=False)
    return attention


def gpt_feedforward(
    config: GPTConfig, ffn_dim: int | None = None
) -> FeedForward | GatedFeedForward:
    """Make the feed-forward layer of a block, which has a gate for swiglu and geglu.

    ffn_dim: its inner dimension, unless it is that of `config`.
    """
    gate = GATES.get(config.activation)
    kind = FeedForward if gate is None else GatedFeedForward
    kind = ClampedFeedForward if config.activation == CLAMPED else kind
    activation = ACTIVATIONS[gate or config.activation]
    inner = ffn_dim or config.ffn_dim
    return kind(config.model_dim, inner, activation, config.dropout, config.bias)


def gpt_experts(config: GPTConfig) -> MixtureOfExperts:
    """Make the mixture of experts of a block."""
    experts = config.experts
    sums_to_1 = experts.weights == "sum-to-1"
    return MixtureOfExperts(
        Router(config.model_dim, experts.total, experts.chosen, sums_to_1, config.bias),
        [gpt_feedforward(config, experts.ffn_dim) for _ in range(experts.total)],
        gpt_feedforward(config, experts.shared_dim) if experts.shared_dim else None,
    )


def gpt_norm(config: GPTConfig) -> Norm:
    """Make a norm of the kind that `config` names."""
    return NORMS[config.norm_kind](config.model_dim, config.norm_eps)


def gpt_residual(config: GPTConfig) -> Callable[[], Residual]:
    """Return the function that makes the residual connections around the sublayers of a block."""
    dropout = config.dropout
    if config.norm == "sandwich":
        return lambda: SandwichNorm(gpt_norm(config), gpt_norm(config), dropout)
    if config.norm == "parallel-shared":
        return _SharedNorm(config)
    if config.residual_scale != 1:
        return lambda: MultipliedPreNorm(gpt_norm(config), config.residual_scale, dropout)
    kind = {"post": PostNorm, "inner": InnerNorm}.get(config.norm, PreNorm)
    return lambda: kind(gpt_norm(config), dropout)


class _SharedNorm:
    """Makes two residual connections with one norm."""

    def __init__(self, config: GPTConfig) -> None:
        self.norm = gpt_norm(config)
        self.dropout = config.dropout

    def __call__(self) -> Residual:
        return PreNorm(self.norm, self.dropout)
