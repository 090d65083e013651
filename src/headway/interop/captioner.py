"""Captioners (`VisionEncoderDecoderModel`): a ViT or DINOv2 under a GPT-2 with cross-attention."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from headway.errors import DataError
from headway.interop import dinov2, gpt2, vit
from headway.interop.hf_config import Facts
from headway.interop.weight_names import Architecture, Family, Part
from headway.models import CaptionerConfig, ViTConfig

SEES, WRITES, BODY = "encoder.", "decoder.", "decoder.transformer."
HEAD, WORDS = f"{WRITES}lm_head.weight", f"{BODY}wte.weight"
ENCODERS: dict[str, Family] = {family.model_type: family for family in (vit.FAMILY, dinov2.FAMILY)}
GPT2 = gpt2.FAMILY

# Their Conv1D is x W, ours x W^T; keys and values are one matrix of theirs.
_CROSS = {
    "ln_cross_attn": ("around_cross.norm",),
    "crossattention.q_attn": ("cross.query",),
    "crossattention.c_attn": ("cross.key", "cross.value"),
    "crossattention.c_proj": ("cross.output",),
}


def encoder_kind(facts: Facts) -> str:
    """What kind the encoder is by config.json. DataError for one that has no form here."""
    kind = _half(facts, "encoder").values.get("model_type")
    if kind not in list(ENCODERS):
        raise facts.refusal("encoder.model_type", kind, " or ".join(ENCODERS))
    return str(kind)


def _half(facts: Facts, name: str) -> Facts:
    values = facts.values.get(name)
    if not isinstance(values, dict):
        raise facts.refusal(name, values, "names and values")
    return Facts(values, f"{facts.where}, {name}")


def _config(facts: Facts, found: Collection[str]) -> CaptionerConfig:
    kind, writes = encoder_kind(facts), _half(facts, "decoder")
    if writes.values.get("model_type") != GPT2.model_type:
        raise writes.refusal("model_type", writes.values.get("model_type"), GPT2.model_type)
    if not writes.flag("add_cross_attention", True):
        raise writes.refusal("add_cross_attention", False, "true: a decoder looks at the picture")
    plain = {k: v for k, v in writes.values.items() if k != "add_cross_attention"}
    names = {name.removeprefix(SEES) for name in found if name.startswith(SEES)}
    sees = ENCODERS[kind].architectures[0].config(_half(facts, "encoder"), names)
    gpt = GPT2.architectures[0].config(Facts(plain, writes.where), ())
    if sees.model_dim != gpt.model_dim:
        raise DataError(
            f"the encoder is {sees.model_dim} wide, the decoder {gpt.model_dim}: a layer between "
            "the two (enc_to_dec_proj) has no form here",
            facts.where,
        )
    return CaptionerConfig(vit=sees, gpt=gpt)


def _encoder_of(config: ViTConfig) -> Family | None:
    """The first that can hold it."""
    return next((each for each in ENCODERS.values() if not each.lacks(config)), None)


def _parts(config: CaptionerConfig) -> Iterator[Part]:
    family = _encoder_of(config.vit) or vit.FAMILY
    for part in family.architectures[0].parts(config.vit):
        ours = tuple(f"vit.{name}" for name in part.ours)
        yield replace(part, theirs=f"{SEES}{part.theirs}", ours=ours)
    for part in GPT2.architectures[0].parts(config.gpt):
        before = WRITES if part.theirs == HEAD.removeprefix(WRITES) else BODY
        yield replace(part, theirs=f"{before}{part.theirs}")
    for number in range(config.gpt.num_layers):
        for theirs, names in _CROSS.items():
            norm = theirs.startswith("ln_")
            for kind, own in (("weight", "gain"), ("bias", "shift")):
                last = own if norm else kind
                yield Part(
                    f"{BODY}h.{number}.{theirs}.{kind}",
                    tuple(f"decoder.blocks.{number}.{name}.{last}" for name in names),
                    kind == "weight" and not norm,
                )


def _facts(config: CaptionerConfig) -> dict[str, Any]:
    family = _encoder_of(config.vit) or vit.FAMILY
    return {
        "is_encoder_decoder": True,
        "tie_word_embeddings": False,  # of encoder and decoder with each other
        "encoder": {**family.facts(config.vit), "model_type": family.model_type},
        "decoder": {
            **GPT2.facts(config.gpt),
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
    facts=_facts,
    lacks=_lacks,
    generates=True,
)
