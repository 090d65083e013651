"""Encoder-decoders of BART's kind: MarianMT, Pegasus, BART, mBART, M2M100 of Hugging Face.

They have the same names of tensors, and differ in norms, positions and scales:

| family | norm | positions | norm of the embeddings | bias of the logits |
|---|---|---|---|---|
| MarianMT | post | sines, then cosines | no | yes |
| Pegasus | pre | sines, then cosines | no | yes |
| BART | post | learned, from row 2 | yes | yes |
| mBART | pre | learned, from row 2 | yes | yes |
| M2M100, NLLB | pre | sines, then cosines, fairseq's frequencies, from padding's id + 1 | no | no |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from headway.base.shapes import Tensor
from headway.blocks import SinusoidalTable
from headway.interop.hf_config import ACTIVATION_NAMES, ACTIVATIONS, HFConfig
from headway.interop.weight_names import Architecture, Family, Part, layers, needs
from headway.models import TranslatorConfig

_ATTENTION = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
_ACTIVATIONS: Mapping[str, Any] = ACTIVATIONS
_BIAS = "final_logits_bias"
_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What distinguishes one family from the others. settings: fields of `TranslatorConfig`.

    architecture: its class in transformers. max_length: default of `max_position_embeddings`.
    scaled: default of `scale_embedding`. activation: default of `activation_function`.
    has_sine_files: whether its files contain the table of sines. starts_after_pad: whether its
    first position is the one after the id of the padding token.
    """

    model_type: str
    architecture: str
    settings: Mapping[str, Any]
    max_length: int = 1024
    scaled: bool = False
    activation: str = "gelu"
    has_sine_files: bool = False
    starts_after_pad: bool = False

    def family(self) -> Family:
        # old files have the table of sines although it is computed
        sines = self.settings["positions"] == "sinusoidal"
        whole = Architecture(
            names=(self.architecture,),
            kind=TranslatorConfig,
            config=self.config,
            parts=_parts,
            tied=lambda config: dict.fromkeys(_COPIES, "shared.weight"),
            computed=_sines if self.has_sine_files else lambda config: {},
        )
        return Family(
            model_type=self.model_type,
            prefix="model.",
            heads=rf"lm_head\.weight|{_BIAS}",
            ignored=r"(encoder|decoder)\.embed_positions\.weights?" if sines else "-",
            architectures=(whole,),
            to_hf_config=self.to_hf_config,
            lacks=self.lacks,
            generates=True,
        )

    def config(self, hf_config: HFConfig, keys: Collection[str]) -> TranslatorConfig:
        vocabulary = hf_config.whole("vocab_size", 50_265)
        hf_config.must_be("decoder_vocab_size", vocabulary)
        hf_config.must_be("share_encoder_decoder_embeddings", True)
        hf_config.must_be("tie_word_embeddings", True)
        settings = dict(self.settings)
        if self.starts_after_pad:
            pad = hf_config.values.get("pad_token_id", 1)
            if type(pad) is not int or not 0 <= pad < vocabulary:
                raise hf_config.refusal("pad_token_id", pad, f"an id below vocab_size={vocabulary}")
            settings["first_position"] = pad + 1
        return TranslatorConfig(
            **settings,
            model_dim=hf_config.whole("d_model", 1024),
            encoder_layers=hf_config.whole("encoder_layers", 12),
            decoder_layers=hf_config.whole("decoder_layers", 12),
            num_heads=_same(hf_config, "attention_heads", 16),
            ffn_dim=_same(hf_config, "ffn_dim", 4096),
            activation=hf_config.choice("activation_function", _ACTIVATIONS, self.activation),
            dropout=hf_config.number("dropout", 0.1, high=1.0),
            scale_embeddings=hf_config.flag("scale_embedding", self.scaled),
            max_length=hf_config.whole("max_position_embeddings", self.max_length),
            source_vocabulary=vocabulary,
            target_vocabulary=vocabulary,
        )

    def lacks(self, config: TranslatorConfig) -> list[str]:
        required = {
            "encoder": ("transformer",),
            "decoder": ("transformer",),
            "attention": ("scaled-dot",),
            "position_dim": (0,),
            "head_dim": (None, config.model_dim // config.num_heads),
            "norm_kind": ("layer",),
            "norm_eps": (1e-5,),
            "activation": tuple(ACTIVATION_NAMES),
            "bias": (True,),
            "share_embeddings": (True,),
            "tie_output": (True,),
            "scale_output": (False,),
            **{key: (value,) for key, value in self.settings.items()},
        }
        reasons = needs(config, required)
        if self.starts_after_pad and not config.first_position:
            reasons.append("first_position=0 (must be 1 or more)")
        return reasons

    def to_hf_config(self, config: TranslatorConfig) -> dict[str, Any]:
        pad = {"pad_token_id": config.first_position - 1} if self.starts_after_pad else {}
        return {**_to_hf_config(config), **pad}


def _parts(config: TranslatorConfig) -> Iterator[Part]:
    yield Part("shared.weight", ("source_embedding.tokens.weight",))
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        if config.positions == "learned":
            yield Part(f"{side}.embed_positions.weight", (f"{embedding}.positions.table.vectors",))
        if config.embedding_norm:
            yield from layers({f"{side}.layernorm_embedding": f"{embedding}.norm"})
        count = config.encoder_layers if side == "encoder" else config.decoder_layers
        for number in range(count):
            yield from layers(_layer(f"{side}.layers.{number}", f"{side}.blocks.{number}"))
        if config.norm == "pre":
            yield from layers({f"{side}.layer_norm": f"{side}.norm"})
    if config.output_bias:
        yield Part(_BIAS, ("output.bias",), shape=(1, config.target_vocabulary))


def _layer(theirs: str, ours: str) -> dict[str, str]:
    """Return the names of the layers of a block."""
    table = {
        f"{theirs}.self_attn_layer_norm": f"{ours}.around_attention.norm",
        f"{theirs}.fc1": f"{ours}.feedforward.expand",
        f"{theirs}.fc2": f"{ours}.feedforward.contract",
        f"{theirs}.final_layer_norm": f"{ours}.around_feedforward.norm",
    }
    attentions = {"self_attn": "attention"}
    if theirs.startswith("decoder"):
        attentions["encoder_attn"] = "cross"
        table[f"{theirs}.encoder_attn_layer_norm"] = f"{ours}.around_cross.norm"
    for attention, name in attentions.items():
        for projection, our_projection in _ATTENTION.items():
            table[f"{theirs}.{attention}.{projection}"] = f"{ours}.{name}.{our_projection}"
    return table


def _sines(config: TranslatorConfig) -> dict[str, Tensor]:
    """Return the table of positions of both sides."""
    table = SinusoidalTable(config.model_dim, config.sinusoids, config.first_position)
    vectors = table(torch.arange(config.max_length)[None])[0]
    return {f"{side}.embed_positions.weight": vectors.clone() for side in ("encoder", "decoder")}


def _to_hf_config(config: TranslatorConfig) -> dict[str, Any]:
    return {
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocabulary,
        "d_model": config.model_dim,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.ffn_dim,
        "decoder_ffn_dim": config.ffn_dim,
        "activation_function": ACTIVATION_NAMES[config.activation],
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": config.dropout,
        "scale_embedding": config.scale_embeddings,
        "max_position_embeddings": config.max_length,
        "tie_word_embeddings": True,
    }


def _same(hf_config: HFConfig, key: str, default: int) -> int:
    """Return a number that encoder and decoder have in common."""
    number = hf_config.whole(f"encoder_{key}", default)
    hf_config.must_be(f"decoder_{key}", number)
    return number


MARIAN = _Kind(
    model_type="marian",
    architecture="MarianMTModel",
    settings={
        "norm": "post",
        "positions": "sinusoidal",
        "sinusoids": "halves",
        "first_position": 0,
        "embedding_norm": False,
        "output_bias": True,
    },
).family()
PEGASUS = _Kind(
    model_type="pegasus",
    has_sine_files=True,
    architecture="PegasusForConditionalGeneration",
    settings={
        "norm": "pre",
        "positions": "sinusoidal",
        "sinusoids": "halves",
        "first_position": 0,
        "embedding_norm": False,
        "output_bias": True,
    },
).family()
BART = _Kind(
    model_type="bart",
    architecture="BartForConditionalGeneration",
    settings={
        "norm": "post",
        "positions": "learned",
        "first_position": 2,
        "embedding_norm": True,
        "output_bias": True,
    },
).family()
MBART = _Kind(
    model_type="mbart",
    architecture="MBartForConditionalGeneration",
    settings={
        "norm": "pre",
        "positions": "learned",
        "first_position": 2,
        "embedding_norm": True,
        "output_bias": True,
    },
).family()
M2M100 = _Kind(
    model_type="m2m_100",
    architecture="M2M100ForConditionalGeneration",
    settings={
        "norm": "pre",
        "positions": "sinusoidal",
        "sinusoids": "endpoint",
        "embedding_norm": False,
        "output_bias": False,
    },
    scaled=True,
    activation="relu",
    starts_after_pad=True,
).family()
FAMILIES = (MARIAN, PEGASUS, BART, MBART, M2M100)
