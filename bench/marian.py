"""One Transformer in two libraries: a Headway `Translator` as transformers' `MarianMTModel`.

Marian is the 2017 model as Headway's is with norm="post", but its position vectors are
[sines, cosines] where Headway's are [sin, cos, sin, cos, ...]. The residual stream has no order of
its own, so Headway's features are put into Marian's order in every matrix that reads or writes it.
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
    """Ids of padding, beginning (what the decoder reads first) and end."""

    pad: int
    bos: int
    eos: int


def to_marian(model: Translator, specials: Specials, max_positions: int = 1024) -> Any:
    """A `MarianMTModel` that computes what `model` computes, in eval mode.

    UsageError for a shape that Marian does not have.
    """
    from transformers import MarianMTModel

    peer = MarianMTModel(marian_config(model.config, specials, max_positions))
    order = marian_order(model.config.model_dim)
    own = dict(peer.named_parameters())
    frozen = {name for name in own if "embed_positions" in name}
    values = dict(_named(model, order))
    if own.keys() - frozen != values.keys():
        raise AssertionError(f"names differ: {sorted(own.keys() - frozen ^ values.keys())}")
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(value)
    return peer.eval()


def marian_config(config: TranslatorConfig, specials: Specials, max_positions: int) -> Any:
    """The same shape in transformers' words. No dropout of attention weights: Headway has none."""
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
    wanted = {"norm": "post", "positions": "sinusoidal", "share_embeddings": True}
    for name, value in wanted.items():
        if (found := getattr(config, name)) != value:
            raise UsageError(
                f"Marian has only {name}={value}, this model has {found}",
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
        place = f"model.encoder.layers.{i}"
        yield from _attention(f"{place}.self_attn", block.attention, order)
        yield from _norm(f"{place}.self_attn_layer_norm", block.around_attention, order)
        yield from _feedforward(place, block, order)
    for i, block in enumerate(model.decoder.blocks):
        place = f"model.decoder.layers.{i}"
        yield from _attention(f"{place}.self_attn", block.attention, order)
        yield from _norm(f"{place}.self_attn_layer_norm", block.around_attention, order)
        yield from _attention(f"{place}.encoder_attn", block.cross, order)
        yield from _norm(f"{place}.encoder_attn_layer_norm", block.around_cross, order)
        yield from _feedforward(place, block, order)


def _attention(place: str, attention: Any, order: Tensor) -> Named:
    """Queries, keys and values read the residual stream; the output writes it."""
    for theirs, ours in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value")):
        yield from _reads(f"{place}.{theirs}", getattr(attention, ours), order)
    yield from _writes(f"{place}.out_proj", attention.output, order)


def _feedforward(place: str, block: Any, order: Tensor) -> Named:
    yield from _reads(f"{place}.fc1", block.feedforward.expand, order)
    yield from _writes(f"{place}.fc2", block.feedforward.contract, order)
    yield from _norm(f"{place}.final_layer_norm", block.around_feedforward, order)


def _reads(place: str, linear: nn.Linear, order: Tensor) -> Named:
    yield f"{place}.weight", linear.weight[:, order]
    yield f"{place}.bias", linear.bias


def _writes(place: str, linear: nn.Linear, order: Tensor) -> Named:
    yield f"{place}.weight", linear.weight[order]
    yield f"{place}.bias", linear.bias[order]


def _norm(place: str, residual: Any, order: Tensor) -> Named:
    yield f"{place}.weight", residual.norm.gain[order]
    yield f"{place}.bias", residual.norm.shift[order]
