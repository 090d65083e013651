"""The weights of our models in the specification classes of the package `ctranslate2`.

The queries, keys and values of self-attention are one matrix [W_q; W_k; W_v] there; in
cross-attention the keys and values are one. Its own sinusoids are [sines, cosines]; those of the
lectures are [sin, cos, sin, cos, ...], so the position table is a weight.
"""

from typing import Any

import torch
from torch import nn

from headway.attention import Dot, MultiHeadAttention, RelativeBuckets
from headway.base.shapes import Tensor
from headway.blocks import DecoderBlock, DecoderOnlyBlock, Embeddings, EncoderBlock, LayerNorm
from headway.blocks.feedforward import GATES, GatedFeedForward
from headway.models import GPT, Translator

Spec = Any
"""The package's module of specifications, or a part of one; the package has no types."""

SINUSOIDS = 4096
"""Number of positions of a sinusoidal table in the file; CTranslate2 refuses longer texts."""

ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu-tanh": "GELUTanh",
    "silu": "SWISH",
    "swiglu": "SWISH",
    "geglu": "GELUTanh",
}
"""Activations of ours -> names of CTranslate2's."""


def translator_spec(specs: Spec, model: Translator) -> Spec:
    """Return the specification of a translator, without vocabularies and without a bias of the
    logits. specs: the module `ctranslate2.specs`."""
    config = model.config
    settings = {
        "num_heads": config.num_heads,
        "pre_norm": config.norm == "pre",
        "activation": _activation(specs, config.activation),
        "layernorm_embedding": config.embedding_norm,
        "ffn_glu": config.activation in GATES,
        "rms_norm": config.norm_kind == "rms",
        "head_dim": config.head_width,
        "relative_attention_bias": config.positions == "relative",
        **_rotary(config.positions, config.head_width, 10_000.0),
    }
    encoder = specs.TransformerEncoderSpec(config.encoder_layers, **settings)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers, **settings)
    _fill_stack(encoder, model.encoder)
    _fill_stack(decoder, model.decoder)
    _fill_embeddings(encoder, encoder.embeddings[0], model.source_embedding)
    _fill_embeddings(decoder, decoder.embeddings, model.target_embedding)
    decoder.projection.weight = _numbers(model.output.weight)
    if config.scale_output:
        decoder.scale_outputs = _numbers(torch.tensor(model.output_scale))
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


def language_model_spec(specs: Spec, model: GPT) -> Spec:
    """Return the specification of a language model, without its vocabulary."""
    config = model.config
    decoder = specs.TransformerDecoderSpec(
        config.num_layers,
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=_activation(specs, config.activation),
        with_encoder_attention=False,
        ffn_glu=config.activation in GATES,
        rms_norm=config.norm_kind == "rms",
        alibi=config.positions == "alibi",
        num_heads_kv=None if config.kv_heads == config.num_heads else config.kv_heads,
        head_dim=config.head_width,
        qk_norm=config.qk_norm,
        **_rotary(config.positions, config.head_width, config.rotary_base),
    )
    _fill_stack(decoder, model.decoder)
    _fill_embeddings(decoder, decoder.embeddings, model.embedding)
    decoder.projection.weight = _numbers(model.output.weight)
    spec = specs.TransformerDecoderModelSpec(decoder)
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


def _activation(specs: Spec, name: str) -> Any:
    return getattr(specs.common_spec.Activation, ACTIVATIONS[name])


def _rotary(positions: str, head_dim: int, base: float) -> dict[str, object]:
    """Return the settings of rotary positions; ours rotate dimensions i and i + K/2."""
    if positions != "rotary":
        return {}
    return {"rotary_dim": head_dim, "rotary_interleave": False, "rotary_base": base}


def _fill_stack(spec: Spec, stack: Any) -> None:
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        _fill_block(layer, block)
    if spec.pre_norm:
        _fill_norm(spec.layer_norm, stack.norm)


def _fill_block(layer: Spec, block: EncoderBlock | DecoderBlock | DecoderOnlyBlock) -> None:
    _fill_attention(layer.self_attention, block.attention, joined=3)
    _fill_norm_of(layer.self_attention.layer_norm, block.around_attention)
    if isinstance(block, DecoderBlock):
        _fill_attention(layer.attention, block.cross, joined=2)
        _fill_norm_of(layer.attention.layer_norm, block.around_cross)
    feedforward: Any = block.feedforward
    if isinstance(feedforward, GatedFeedForward):
        _fill_linear(layer.ffn.linear_0, feedforward.gate)
        _fill_linear(layer.ffn.linear_0_noact, feedforward.expand)
    else:
        _fill_linear(layer.ffn.linear_0, feedforward.expand)
    _fill_linear(layer.ffn.linear_1, feedforward.contract)
    _fill_norm_of(layer.ffn.layer_norm, block.around_feedforward)


def _fill_attention(spec: Spec, attention: MultiHeadAttention, joined: int) -> None:
    """joined: how many of query, key and value, counted from the last, are one matrix."""
    projections = [attention.query, attention.key, attention.value]
    separate, together = projections[: 3 - joined], projections[3 - joined :]
    groups = [*([layer] for layer in separate), together, [attention.output]]
    for linear, group in zip(spec.linear, groups, strict=True):
        _fill_linear(linear, *group)
    if isinstance(attention.kernel, Dot):
        spec.queries_scale = _numbers(torch.tensor(1.0))
    if hasattr(spec, "q_norm"):
        grouped: Any = attention
        _fill_norm(spec.q_norm, grouped.query_norm)
        _fill_norm(spec.k_norm, grouped.key_norm)
    if isinstance(attention.positions, RelativeBuckets):
        spec.relative_attention_bias = _numbers(attention.positions.table)
        distance = torch.tensor(attention.positions.max_distance, dtype=torch.int32)
        spec.relative_attention_max_distance = distance.numpy()


def _fill_linear(spec: Spec, *layers: nn.Linear) -> None:
    """Fill in one layer whose outputs are those of `layers`, joined."""
    spec.weight = _numbers(torch.cat([layer.weight for layer in layers]))
    if all(layer.bias is not None for layer in layers):
        spec.bias = _numbers(torch.cat([layer.bias for layer in layers]))


def _fill_norm_of(spec: Spec, residual: Any) -> None:
    """Fill in the norm of a residual connection."""
    _fill_norm(spec, residual.norm)


def _fill_norm(spec: Spec, norm: Any) -> None:
    spec.gamma = _numbers(norm.gain)
    if isinstance(norm, LayerNorm):
        spec.beta = _numbers(norm.shift)


def _fill_embeddings(stack: Spec, spec: Spec, embeddings: Embeddings) -> None:
    spec.weight = _numbers(embeddings.tokens.weight)
    stack.scale_embeddings = embeddings.scale != 1
    if hasattr(stack, "layernorm_embedding"):
        _fill_norm(stack.layernorm_embedding, embeddings.norm)
    table: Any = getattr(embeddings.positions, "table", None)
    if table is not None:
        count = embeddings.positions.max_length or SINUSOIDS
        stack.position_encodings.encodings = _numbers(table(torch.arange(count)[None])[0])


def _numbers(tensor: Tensor) -> Any:
    """Return a copy of the values: quantisation by the package changes its arrays in place."""
    return tensor.detach().float().clone(memory_format=torch.contiguous_format).numpy()
