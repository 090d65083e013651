"""Captioners (`VisionEncoderDecoderModel`): ViT or DINOv2, and a GPT-2 with cross-attention."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from headway.base.errors import DataError
from headway.interop import dinov2, gpt2, vit
from headway.interop.config_keys import IGNORED_KEYS
from headway.interop.hf_config import HFConfig
from headway.interop.weight_names import Architecture, Family, Part
from headway.models import CaptionerConfig, ViTConfig

ENCODER, DECODER, BODY = "encoder.", "decoder.", "decoder.transformer."
HEAD, WORDS = f"{DECODER}lm_head.weight", f"{BODY}wte.weight"
ENCODERS: dict[str, Family] = {family.model_type: family for family in (vit.FAMILY, dinov2.FAMILY)}
GPT2 = gpt2.FAMILY

# Their Conv1D computes x W, our Linear x W^T; their keys and values are one matrix.
_CROSS = {
    "ln_cross_attn": ("around_cross.norm",),
    "crossattention.q_attn": ("cross.query",),
    "crossattention.c_attn": ("cross.key", "cross.value"),
    "crossattention.c_proj": ("cross.output",),
}


_OF_DECODER = ("add_cross_attention", "is_decoder")
"""Keys that say that a GPT-2 is the decoder of a captioner."""


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
    encoder = _section(hf_config, "encoder")
    if decoder.values.get("model_type") != GPT2.model_type:
        raise decoder.refusal("model_type", decoder.values.get("model_type"), GPT2.model_type)
    if not decoder.flag("add_cross_attention", True):
        raise decoder.refusal(
            "add_cross_attention", False, "true: the decoder of a captioner has cross-attention"
        )
    values = {k: v for k, v in decoder.values.items() if k not in _OF_DECODER}
    language_model = HFConfig(values, decoder.where)
    names = {name.removeprefix(ENCODER) for name in keys if name.startswith(ENCODER)}
    vit = ENCODERS[kind].architectures[0].config(encoder, names)
    gpt = GPT2.architectures[0].config(language_model, ())
    for section in (encoder, language_model):
        section.check_all_read(IGNORED_KEYS)
    if vit.model_dim != gpt.model_dim:
        raise DataError(
            f"encoder.hidden_size={vit.model_dim}, decoder.n_embd={gpt.model_dim}: must be equal; "
            "a projection between them (enc_to_dec_proj) is not supported",
            hf_config.where,
        )
    return CaptionerConfig(vit=vit, gpt=gpt)


def _encoder_of(config: ViTConfig) -> Family | None:
    """Return the first family that can represent the encoder; None if none can."""
    return next((family for family in ENCODERS.values() if not family.lacks(config)), None)


def _parts(config: CaptionerConfig) -> Iterator[Part]:
    family = _encoder_of(config.vit) or vit.FAMILY
    for part in family.architectures[0].parts(config.vit):
        ours = tuple(f"vit.{name}" for name in part.ours)
        yield replace(part, theirs=f"{ENCODER}{part.theirs}", ours=ours)
    for part in GPT2.architectures[0].parts(config.gpt):
        prefix = DECODER if part.theirs == HEAD.removeprefix(DECODER) else BODY
        yield replace(part, theirs=f"{prefix}{part.theirs}")
    for number in range(config.gpt.num_layers):
        for theirs, names in _CROSS.items():
            norm = theirs.startswith("ln_")
            for kind, of_norm in (("weight", "gain"), ("bias", "shift")):
                suffix = of_norm if norm else kind
                yield Part(
                    f"{BODY}h.{number}.{theirs}.{kind}",
                    tuple(f"decoder.blocks.{number}.{name}.{suffix}" for name in names),
                    kind == "weight" and not norm,
                )


def _to_hf_config(config: CaptionerConfig) -> dict[str, Any]:
    family = _encoder_of(config.vit) or vit.FAMILY
    return {
        "is_encoder_decoder": True,
        "tie_word_embeddings": False,  # between encoder and decoder
        "encoder": {**family.to_hf_config(config.vit), "model_type": family.model_type},
        "decoder": {
            **GPT2.to_hf_config(config.gpt),
            "model_type": GPT2.model_type,
            "add_cross_attention": True,
            "is_decoder": True,
        },
    }


def _lacks(config: CaptionerConfig) -> list[str]:
    reasons = [f"gpt.{reason}" for reason in GPT2.lacks(config.gpt)]
    if _encoder_of(config.vit) is None:
        reasons += [f"vit.{reason}" for reason in vit.FAMILY.lacks(config.vit)]
    if config.vit.model_dim != config.gpt.model_dim:
        reasons.append(
            f"vit.model_dim={config.vit.model_dim} (must be gpt.model_dim, {config.gpt.model_dim})"
        )
    return reasons


FAMILY = Family(
    model_type="vision-encoder-decoder",
    prefix="",
    heads="",
    ignored=r"decoder\.transformer\.h\.\d+\.(attn|crossattention)\.(masked_)?bias",
    architectures=(
        Architecture(
            names=("VisionEncoderDecoderModel",),
            kind=CaptionerConfig,
            config=_config,
            parts=_parts,
            tied=lambda config: {HEAD: WORDS} if config.gpt.tie_output else {},
            unused=r"encoder\.pooler\..*",
        ),
    ),
    to_hf_config=_to_hf_config,
    lacks=_lacks,
    generates=True,
)
