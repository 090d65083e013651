"""Conversion of a Headway `Translator` to transformers' `MarianMTModel`.

Marian is the Transformer of 2017, like Headway's with norm="post", but its position vectors are
[sines, cosines] where Headway's are [sin, cos, sin, cos, ...]. The features of the residual stream
can be permuted, so they are put into Marian's order in every matrix that reads or writes it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.errors import UsageError
from headway.models import Translator, TranslatorConfig


@dataclass(frozen=True)
class Specials:
    """Ids of padding, beginning (the decoder's first input) and end."""

    pad: int
    bos: int
    eos: int


def to_marian(model: Translator, specials: Specials, max_positions: int = 1024) -> Any:
    """Return a `MarianMTModel` that computes the same as `model`, in eval mode.

    Raises UsageError for a configuration that Marian does not have.
    """
    from transformers import MarianMTModel

    peer = MarianMTModel(marian_config(model.config, specials, max_positions))
    order = marian_order(model.config.model_dim)
    parameters = dict(peer.named_parameters())
    frozen = {name for name in parameters if "embed_positions" in name}
    values = dict(_named(model, order))
    if parameters.keys() - frozen != values.keys():
        raise AssertionError(f"names differ: {sorted(parameters.keys() - frozen ^ values.keys())}")
    with torch.no_grad():
        for name, value in values.items():
            parameters[name].copy_(value)
    return peer.eval()


def marian_config(config: TranslatorConfig, specials: Specials, max_positions: int) -> Any:
    """Return transformers' configuration of the same shape, without attention dropout."""
    from transformers import MarianConfig

    _check(config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MarianConfig(
            vocab_size=config.source_vocabulary,
            decoder_vocab_size=config.target_vocabulary,
            max_position_embeddings=max_positions,
            d_model=config.model_dim,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.ffn_dim,
            decoder_ffn_dim=config.ffn_dim,
            activation_function=config.activation,
            dropout=config.dropout,
            activation_dropout=config.dropout,
            attention_dropout=0.0,
            scale_embedding=True,
            static_position_embeddings=True,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            pad_token_id=specials.pad,
            bos_token_id=specials.bos,
            eos_token_id=specials.eos,
            decoder_start_token_id=specials.bos,
            forced_eos_token_id=specials.eos,
        )


def _check(config: TranslatorConfig) -> None:
    required = {"norm": "post", "positions": "sinusoidal", "share_embeddings": True}
    for name, value in required.items():
        if (configured := getattr(config, name)) != value:
            raise UsageError(
                f"Marian has only {name}={value}, this model has {configured}",
                hint=f"train one with --model.{name} {str(value).lower()}",
            )


def marian_order(model_dim: int) -> Tensor:
    """Marian's feature i is Headway's feature order[i]."""
    return torch.cat((torch.arange(0, model_dim, 2), torch.arange(1, model_dim, 2)))


Named = Iterator[tuple[str, Tensor]]


def _named(model: Translator, order: Tensor) -> Named:
    """Every parameter under Marian's name, its residual axis in Marian's order."""
    yield "model.shared.weight", model.source_embedding.tokens.weight[:, order]
    for i, block in enumerate(model.encoder.blocks):
        prefix = f"model.encoder.layers.{i}"
        yield from _attention(f"{prefix}.self_attn", block.attention, order)
        yield from _norm(f"{prefix}.self_attn_layer_norm", block.around_attention, order)
        yield from _feedforward(prefix, block, order)
    for i, block in enumerate(model.decoder.blocks):
        prefix = f"model.decoder.layers.{i}"
        yield from _attention(f"{prefix}.self_attn", block.attention, order)
        yield from _norm(f"{prefix}.self_attn_layer_norm", block.around_attention, order)
        yield from _attention(f"{prefix}.encoder_attn", block.cross, order)
        yield from _norm(f"{prefix}.encoder_attn_layer_norm", block.around_cross, order)
        yield from _feedforward(prefix, block, order)


def _attention(prefix: str, attention: Any, order: Tensor) -> Named:
    """Queries, keys and values read the residual stream; the output writes it."""
    for theirs, ours in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value")):
        yield from _reads(f"{prefix}.{theirs}", getattr(attention, ours), order)
    yield from _writes(f"{prefix}.out_proj", attention.output, order)


def _feedforward(prefix: str, block: Any, order: Tensor) -> Named:
    yield from _reads(f"{prefix}.fc1", block.feedforward.expand, order)
    yield from _writes(f"{prefix}.fc2", block.feedforward.contract, order)
    yield from _norm(f"{prefix}.final_layer_norm", block.around_feedforward, order)


def _reads(prefix: str, linear: nn.Linear, order: Tensor) -> Named:
    yield f"{prefix}.weight", linear.weight[:, order]
    yield f"{prefix}.bias", linear.bias


def _writes(prefix: str, linear: nn.Linear, order: Tensor) -> Named:
    yield f"{prefix}.weight", linear.weight[order]
    yield f"{prefix}.bias", linear.bias[order]


def _norm(prefix: str, residual: Any, order: Tensor) -> Named:
    yield f"{prefix}.weight", residual.norm.gain[order]
    yield f"{prefix}.bias", residual.norm.shift[order]
