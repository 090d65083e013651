"""Captioners (`VisionEncoderDecoderModel`): an image encoder, and a decoder with cross-attention.

| decoder | models | norm | positions |
|---|---|---|---|
| `gpt2` | captioners of ViT and GPT-2 | pre | learned |
| `trocr` | TrOCR, which reads a line of text | post | learned from row 2, or sines |

Sines are read as a table, which is written as a learned one with the same numbers.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import torch

from headway.base.errors import DataError
from headway.base.shapes import Tensor
from headway.blocks import SinusoidalTable
from headway.interop import bart, vit
from headway.interop.config_fields import Fields, Key, Values, choice, flag, probability, whole
from headway.interop.decoders.gpt import GPT2
from headway.interop.decoders.kind import HEAD, POSITIONS
from headway.interop.decoders.kind import WORDS as OUR_WORDS
from headway.interop.hf_config import ACTIVATIONS, HFConfig
from headway.interop.ignored_keys import CONFIG
from headway.interop.weight_names import Architecture, Family, Part, Table, layers, needs, prefixed
from headway.models import CaptionerConfig, GPTConfig, ViTClassifierConfig, ViTConfig

ImageFamily = Family[ViTConfig | ViTClassifierConfig]
ENCODER = "encoder."
ENCODERS: dict[str, ImageFamily] = {family.model_type: family for family in vit.FAMILIES}

# Their Conv1D computes x W, our Linear x W^T; their keys and values are one matrix.
_CROSS: Table = {
    "ln_cross_attn": "around_cross.norm",
    "crossattention.q_attn": "cross.query",
    "crossattention.c_attn": ("cross.key", "cross.value"),
    "crossattention.c_proj": "cross.output",
}

_BIAS, _WIDTH = "qkv_bias", "cross_attention_hidden_size"
_OF_DECODER = ("add_cross_attention", "is_decoder", _WIDTH)
"""Keys that say that a decoder is that of a captioner."""


@dataclass(frozen=True, kw_only=True)
class _Decoder:
    """A kind of decoder.

    body, head: the prefix of its keys, and the key of the matrix of logits. words: the key of the
    token embedding, after `body`. read: returns our configuration. write: returns its section of
    config.json. lacks: the reasons why it cannot represent a decoder. parts: yields all tensors but
    the head, by names after `body`.
    """

    body: str
    head: str
    words: str
    read: Callable[[HFConfig], GPTConfig]
    write: Callable[[GPTConfig], Values]
    lacks: Callable[[GPTConfig], list[str]]
    parts: Callable[[GPTConfig], Iterator[Part]]


def _gpt2_parts(config: GPTConfig) -> Iterator[Part]:
    for part in GPT2.architectures[0].parts(config):
        if part.theirs != HEAD:
            yield part
    for n in range(config.num_layers):
        yield from layers(_CROSS, f"h.{n}.", f"decoder.blocks.{n}.", transposed=True)


def _trocr_parts(config: GPTConfig) -> Iterator[Part]:
    yield Part("embed_tokens.weight", (OUR_WORDS,))
    yield Part(_TABLE, (POSITIONS,), unused=_FIRST)
    if config.embedding_norm:
        yield from layers({"layernorm_embedding": "embedding.norm"})
    for n in range(config.num_layers):
        yield from layers(bart.LAYER | bart.CROSS, f"layers.{n}.", f"decoder.blocks.{n}.")


_FIRST = 2  # the row of the first position
_TABLE, _LEARNED = "embed_positions.weight", "use_learned_position_embeddings"
_SCALE = Key(
    "scale_embedding",
    "embedding_scale",
    lambda file, fields: (
        int(fields["model_dim"]) ** 0.5 if file.flag("scale_embedding", False) else None
    ),
    lambda config: config.embedding_scale not in (None, 1.0),
)
_TROCR = Fields(
    keys=(
        whole("vocab_size", "vocabulary", 50_265),
        whole("d_model", "model_dim", 1024),
        whole("decoder_layers", "num_layers", 12),
        whole("decoder_attention_heads", "num_heads", 16),
        whole("decoder_ffn_dim", "ffn_dim", 4096),
        choice("activation_function", "activation", ACTIVATIONS, "gelu"),
        whole("max_position_embeddings", "max_length", 512),
        probability("dropout", "dropout", 0.1),
        _SCALE,
        flag("layernorm_embedding", "embedding_norm", True),
        flag("tie_word_embeddings", "tie_output", True),
    ),
    fixed={
        "norm": "post",
        "norm_kind": "layer",
        "norm_eps": 1e-5,
        "positions": "learned",
        "attention": "scaled-dot",
        "bias": True,
        "qk_norm": False,
    },
    constant={_LEARNED: True, "attention_dropout": 0.0, "activation_dropout": 0.0},
)


def _read_trocr(file: HFConfig) -> GPTConfig:
    if not file.flag(_LEARNED, True):
        file.must_be("pad_token_id", _FIRST - 1)  # whose place the first row has
    return GPTConfig(**_TROCR.read(file))


def _trocr_lacks(config: GPTConfig) -> list[str]:
    """Return the settings that a TrOCR does not have; those in no table are the defaults."""
    root = config.model_dim**0.5
    usual = {"num_kv_heads": (None, config.num_heads), "embedding_scale": (None, 1.0, root)}
    others = [name for name in config.options if not name.startswith("embedding_")]
    return [*_TROCR.lacks(config), *needs(config, usual), *others]


DECODERS: Mapping[str, _Decoder] = {
    "gpt2": _Decoder(
        body="decoder.transformer.",
        head=f"decoder.{HEAD}",
        words="wte.weight",
        read=lambda file: GPT2.architectures[0].config(file, ()),
        write=GPT2.to_hf_config,
        lacks=GPT2.lacks,
        parts=_gpt2_parts,
    ),
    "trocr": _Decoder(
        body="decoder.model.decoder.",
        head="decoder.output_projection.weight",
        words="embed_tokens.weight",
        read=_read_trocr,
        write=_TROCR.write,
        lacks=_trocr_lacks,
        parts=_trocr_parts,
    ),
}
"""`model_type` of the decoder -> its description."""


def _decoder_of(config: GPTConfig) -> tuple[str, _Decoder]:
    """Return the first kind that can represent a decoder; GPT-2 if none can."""
    fits = ((name, kind) for name, kind in DECODERS.items() if not kind.lacks(config))
    return next(fits, ("gpt2", DECODERS["gpt2"]))


def encoder_kind(hf_config: HFConfig) -> str:
    """Return the model_type of the encoder. Raises DataError for one that is not supported."""
    kind = _section(hf_config, "encoder").values.get("model_type")
    if kind not in list(ENCODERS):
        raise hf_config.refusal("encoder.model_type", kind, " or ".join(ENCODERS))
    return str(kind)


def _section(hf_config: HFConfig, name: str) -> HFConfig:
    values = hf_config.values.get(name)
    if not isinstance(values, dict):
        raise hf_config.refusal(name, values, "an object (names and values)")
    return HFConfig(values, f"{hf_config.where}, {name}")


def _config(hf_config: HFConfig, keys: Collection[str]) -> CaptionerConfig:
    kind, decoder = encoder_kind(hf_config), _section(hf_config, "decoder")
    encoder, decoder_kind = _section(hf_config, "encoder"), decoder.values.get("model_type")
    if decoder_kind not in list(DECODERS):  # a list: the value may not be hashable
        raise decoder.refusal("model_type", decoder_kind, " or ".join(DECODERS))
    if not decoder.flag("add_cross_attention", True):
        raise decoder.refusal(
            "add_cross_attention", False, "true: the decoder of a captioner has cross-attention"
        )
    values = {k: v for k, v in decoder.values.items() if k not in _OF_DECODER}
    language_model = HFConfig(values, decoder.where)
    names = {name.removeprefix(ENCODER) for name in keys if name.startswith(ENCODER)}
    if encoder.values.get(_BIAS) is False:  # then `_absent` returns zeros
        encoder.values[_BIAS] = True
    vit = ENCODERS[kind].architectures[0].config(encoder, names)
    gpt = DECODERS[str(decoder_kind)].read(language_model)
    for section in (encoder, language_model):
        section.check_all_read(CONFIG)
    key = "n_embd" if decoder_kind == "gpt2" else _WIDTH
    width = decoder.values.get(_WIDTH) or gpt.model_dim
    if vit.model_dim != width:
        raise DataError(
            f"encoder.hidden_size={vit.model_dim}, decoder.{key}={width}: must be equal; a "
            "projection between them (enc_to_dec_proj) is not supported",
            hf_config.where,
        )
    return CaptionerConfig(vit=vit, gpt=gpt)


def _absent(hf_config: HFConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what the file of a TrOCR need not have: biases of 0 of an encoder without them, and a
    table of sines, because it is computed."""
    found: dict[str, Tensor] = {}
    if _section(hf_config, "encoder").values.get(_BIAS) is False:
        for name, tensor in tensors.items():
            if _PROJECTION.fullmatch(name):
                found[name.removesuffix("weight") + "bias"] = tensor.new_zeros(len(tensor))
    return found | _sines(_section(hf_config, "decoder"))


_PROJECTION = re.compile(r"encoder\..*\.attention\.(query|key|value)\.weight")


def _sines(decoder: HFConfig) -> dict[str, Tensor]:
    if decoder.values.get("model_type") != "trocr" or decoder.flag(_LEARNED, True):
        return {}
    width = decoder.whole("d_model", 1024)
    rows = decoder.whole("max_position_embeddings", 512) + _FIRST
    table = SinusoidalTable(width, "endpoint", 0)(torch.arange(rows)[None])[0]
    return {f"{DECODERS['trocr'].body}{_TABLE}": table}


def _encoder_of(config: ViTConfig) -> ImageFamily | None:
    """Return the first family that can represent the encoder; None if none can."""
    return next((family for family in ENCODERS.values() if not family.lacks(config)), None)


def _parts(config: CaptionerConfig) -> Iterator[Part]:
    family, (_, decoder) = _encoder_of(config.vit) or vit.VIT, _decoder_of(config.gpt)
    yield from prefixed(family.architectures[0].parts(config.vit), ENCODER, "vit.")
    yield from prefixed(decoder.parts(config.gpt), decoder.body)
    if not config.gpt.tie_output:
        yield Part(decoder.head, ("output.weight",))


def _tied(config: CaptionerConfig) -> dict[str, str]:
    _, decoder = _decoder_of(config.gpt)
    return {decoder.head: f"{decoder.body}{decoder.words}"} if config.gpt.tie_output else {}


def _to_hf_config(config: CaptionerConfig) -> Values:
    family, (name, decoder) = _encoder_of(config.vit) or vit.VIT, _decoder_of(config.gpt)
    is_narrow = config.vit.model_dim != config.gpt.model_dim
    return {
        "is_encoder_decoder": True,
        "tie_word_embeddings": False,  # between encoder and decoder
        "encoder": {**family.to_hf_config(config.vit), "model_type": family.model_type},
        "decoder": {
            **decoder.write(config.gpt),
            "model_type": name,
            "add_cross_attention": True,
            "is_decoder": True,
            **({_WIDTH: config.vit.model_dim} if is_narrow else {}),
        },
    }


def _lacks(config: CaptionerConfig) -> list[str]:
    name, decoder = _decoder_of(config.gpt)
    reasons = [f"gpt.{reason}" for reason in decoder.lacks(config.gpt)]
    if _encoder_of(config.vit) is None:
        reasons += [f"vit.{reason}" for reason in vit.VIT.lacks(config.vit)]
    if name == "gpt2" and config.vit.model_dim != config.gpt.model_dim:
        reasons.append(
            f"vit.model_dim={config.vit.model_dim} (must be gpt.model_dim, {config.gpt.model_dim})"
        )
    return reasons


FAMILY = Family(
    model_type="vision-encoder-decoder",
    prefix="",
    heads="",
    ignored=r"decoder\.transformer\.h\.\d+\.(attn|crossattention)\.(masked_)?bias"
    r"|decoder\.model\.decoder\.embed_positions\._float_tensor",
    architectures=(
        Architecture(
            names=("VisionEncoderDecoderModel",),
            kind=CaptionerConfig,
            config=_config,
            parts=_parts,
            tied=_tied,
            unused=r"encoder\.pooler\.dense\..*",
            absent=_absent,
        ),
    ),
    to_hf_config=_to_hf_config,
    lacks=_lacks,
    generates=True,
)
