"""DINOv2 (`Dinov2Model` and its classifier): a ViT with LayerScale, and SwiGLU in the largest
size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headway.interop.hf_config import ACTIVATION_NAMES, ACTIVATIONS, HFConfig
from headway.interop.vit import BODY, Names, hf_vit_sizes, image_family, vit_fields
from headway.interop.weight_names import Part, layers, needs
from headway.models import ViTConfig

RATIOS = range(1, 17)  # feed-forward width / model width


def _inside(config: ViTConfig) -> Iterator[Part]:
    yield from layers(
        {"norm1": "around_attention.norm", **BODY, "norm2": "around_feedforward.norm"}
    )
    yield Part("layer_scale1.lambda1", ("around_attention.gain",))
    yield Part("layer_scale2.lambda1", ("around_feedforward.gain",))
    if config.activation != "swiglu":
        yield from layers({"mlp.fc1": "feedforward.expand", "mlp.fc2": "feedforward.contract"})
        return
    for kind in ("weight", "bias"):
        gated = (f"feedforward.gate.{kind}", f"feedforward.expand.{kind}")
        yield Part(f"mlp.weights_in.{kind}", gated)
    yield from layers({"mlp.weights_out": "feedforward.contract"})


def _ffn_dim(width: int, ratio: int, gated: bool) -> int:
    """Return the feed-forward width; of gated layers two thirds, rounded up to a multiple of 8."""
    return -(-int(width * ratio * 2 / 3) // 8) * 8 if gated else width * ratio


def _settings(hf_config: HFConfig) -> dict[str, Any]:
    gated = hf_config.flag("use_swiglu_ffn", False)
    activation = hf_config.choice("hidden_act", ACTIVATIONS, "gelu")
    width, ratio = (
        hf_config.whole("hidden_size"),
        hf_config.whole("mlp_ratio", 4, below=RATIOS.stop),
    )
    return {
        **vit_fields(hf_config),
        "ffn_dim": _ffn_dim(width, ratio, gated),
        "norm_eps": hf_config.number("layer_norm_eps", 1e-6),
        "activation": "swiglu" if gated else activation,
        "layer_scale": hf_config.number("layerscale_value", 1.0, low=1e-30),
    }


def _ratio(config: ViTConfig) -> int | None:
    gated = config.activation == "swiglu"
    ratios = (r for r in RATIOS if _ffn_dim(config.model_dim, r, gated) == config.ffn_dim)
    return next(ratios, None)


def _to_hf_config(config: ViTConfig) -> dict[str, Any]:
    gated = config.activation == "swiglu"
    return {
        **hf_vit_sizes(config),
        "mlp_ratio": _ratio(config),
        "hidden_act": "gelu" if gated else ACTIVATION_NAMES[config.activation],
        "use_swiglu_ffn": gated,
        "layerscale_value": config.layer_scale,
        "use_mask_token": config.mask_token,
    }


def _lacks(config: ViTConfig) -> list[str]:
    reasons = needs(config, {"patch_width": (None,)})
    if config.layer_scale is None:
        reasons.append("layer_scale=None (must be a number)")
    if _ratio(config) is None:
        reasons.append(f"ffn_dim={config.ffn_dim} (must be a multiple of model_dim)")
    return reasons


FAMILY = image_family(
    model_type="dinov2",
    names=Names(stem="Dinov2", inside=_inside, mask=2, pooler="", pooling="both"),
    settings=_settings,
    to_hf_config=_to_hf_config,
    lacks=_lacks,
)
