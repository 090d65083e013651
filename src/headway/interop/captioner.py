"""Captioners (`VisionEncoderDecoderModel`): ViT or DINOv2, and a GPT-2 with cross-attention."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headway.base.errors import DataError
from headway.interop import vit
from headway.interop.config_fields import Values
from headway.interop.decoders.gpt import GPT2
from headway.interop.decoders.kind import HEAD
from headway.interop.hf_config import HFConfig
from headway.interop.ignored_keys import CONFIG
from headway.interop.weight_names import Architecture, Family, Part, Table, layers, prefixed
from headway.models import CaptionerConfig, ViTClassifierConfig, ViTConfig

ImageFamily = Family[ViTConfig | ViTClassifierConfig]
ENCODER, DECODER, BODY = "encoder.", "decoder.", "decoder.transformer."
WORDS = f"{BODY}wte.weight"
ENCODERS: dict[str, ImageFamily] = {family.model_type: family for family in vit.FAMILIES}

# Their Conv1D computes x W, our Linear x W^T; their keys and values are one matrix.
_CROSS: Table = {
    "ln_cross_attn": "around_cross.norm",
    "crossattention.q_attn": "cross.query",
    "crossattention.c_attn": ("cross.key", "cross.value"),
    "crossattention.c_proj": "cross.output",
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
        section.check_all_read(CONFIG)
    if vit.model_dim != gpt.model_dim:
        raise DataError(
            f"encoder.hidden_size={vit.model_dim}, decoder.n_embd={gpt.model_dim}: must be equal; "
            "a projection between them (enc_to_dec_proj) is not supported",
            hf_config.where,
        )
    return CaptionerConfig(vit=vit, gpt=gpt)


def _encoder_of(config: ViTConfig) -> ImageFamily | None:
    """Return the first family that can represent the encoder; None if none can."""
    return next((family for family in ENCODERS.values() if not family.lacks(config)), None)


def _parts(config: CaptionerConfig) -> Iterator[Part]:
    family = _encoder_of(config.vit) or vit.VIT
    yield from prefixed(family.architectures[0].parts(config.vit), ENCODER, "vit.")
    for part in GPT2.architectures[0].parts(config.gpt):
        yield from prefixed([part], DECODER if part.theirs == HEAD else BODY)
    for n in range(config.gpt.num_layers):
        yield from layers(_CROSS, f"{BODY}h.{n}.", f"decoder.blocks.{n}.", transposed=True)


def _to_hf_config(config: CaptionerConfig) -> Values:
    family = _encoder_of(config.vit) or vit.VIT
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
        reasons += [f"vit.{reason}" for reason in vit.VIT.lacks(config.vit)]
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
            tied=lambda config: {f"{DECODER}{HEAD}": WORDS} if config.gpt.tie_output else {},
            unused=r"encoder\.pooler\..*",
        ),
    ),
    to_hf_config=_to_hf_config,
    lacks=_lacks,
    generates=True,
)
