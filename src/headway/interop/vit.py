"""Image encoders of Hugging Face folders: ViT and DINO (one format), DeiT, DINOv2, DINOv3, BEiT.

They have pre-norm. ViT has learned positions, of which the first is that of the class token; DeiT
adds a distillation token; DINOv2 LayerScale, and SwiGLU in its largest size. DINOv3 has registers
and rotary positions. BEiT has relative positions in each layer and a norm of the mean of the
patches.
"""

from collections.abc import Iterator
from dataclasses import replace

from headway.interop.config_fields import Key, Values, choice, flag, number, whole, written
from headway.interop.hf_config import ACTIVATION_NAMES, ACTIVATIONS, HFConfig
from headway.interop.vit_kind import (
    AROUND,
    ATTENTION,
    FIELDS,
    Kind,
    layer_scale,
    without_layer_scale,
)
from headway.interop.weight_names import Part, layers, needs
from headway.models import ViTConfig


def _inside_vit(config: ViTConfig) -> Iterator[Part]:
    yield from layers(ATTENTION | AROUND)


def _check_pooler(hf_config: HFConfig, fields: Values) -> None:
    hf_config.must_be("pooler_act", "tanh")
    hf_config.must_be("pooler_output_size", fields["model_dim"])


_VIT = Kind(
    model_type="vit",
    stem="ViT",
    fields=FIELDS.extended(
        whole("intermediate_size", "ffn_dim"),
        number("layer_norm_eps", "norm_eps", 1e-12),
        choice("hidden_act", "activation", ACTIVATIONS, "gelu"),
        fixed={"layer_scale": None},
        check=_check_pooler,
    ),
    inside=_inside_vit,
    mask=3,
    pooler="pooler.dense",
    pooling="first",
    lacks=lambda config: needs(config, {"mask_token": (False,)}),
)
VIT = _VIT.family()
DEIT = replace(
    _VIT,
    model_type="deit",
    stem="DeiT",
    fields=_VIT.fields.extended(fixed={"distillation_token": True}),
    taught=True,
).family()

RATIOS = range(1, 17)  # feed-forward width / model width


def _inside_dinov2(config: ViTConfig) -> Iterator[Part]:
    norms = {"norm1": "around_attention.norm", "norm2": "around_feedforward.norm"}
    yield from layers(norms | ATTENTION)
    yield Part("layer_scale1.lambda1", ("around_attention.gain",))
    yield Part("layer_scale2.lambda1", ("around_feedforward.gain",))
    if config.activation == "swiglu":
        yield from layers({"mlp.weights_in": ("feedforward.gate", "feedforward.expand")})
        yield from layers({"mlp.weights_out": "feedforward.contract"})
    else:
        yield from layers({"mlp.fc1": "feedforward.expand", "mlp.fc2": "feedforward.contract"})


def _ffn_dim(width: int, ratio: int, gated: bool) -> int:
    """Return the feed-forward width; of gated layers two thirds, rounded up to a multiple of 8."""
    return -(-int(width * ratio * 2 / 3) // 8) * 8 if gated else width * ratio


def _ratio(config: ViTConfig) -> int | None:
    gated = config.activation == "swiglu"
    ratios = (r for r in RATIOS if _ffn_dim(config.model_dim, r, gated) == config.ffn_dim)
    return next(ratios, None)


def _activation(hf_config: HFConfig, fields: Values) -> str:
    name = hf_config.choice("hidden_act", ACTIVATIONS, "gelu")
    return "swiglu" if hf_config.flag("use_swiglu_ffn", False) else name


def _width(hf_config: HFConfig, fields: Values) -> int:
    ratio = hf_config.whole("mlp_ratio", 4, below=RATIOS.stop)
    return _ffn_dim(fields["model_dim"], ratio, fields["activation"] == "swiglu")


def _dinov2_lacks(config: ViTConfig) -> list[str]:
    reasons = needs(config, {"patch_width": (None,)}) + without_layer_scale(config)
    if _ratio(config) is None:
        reasons.append(f"ffn_dim={config.ffn_dim} (must be a multiple of model_dim)")
    return reasons


DINOV2 = Kind(
    model_type="dinov2",
    stem="Dinov2",
    fields=FIELDS.extended(
        Key(
            "hidden_act",
            "activation",
            _activation,
            lambda config: ACTIVATION_NAMES.get(config.activation, "gelu"),
        ),
        Key("use_swiglu_ffn", "", lambda *_: None, lambda config: config.activation == "swiglu"),
        Key("mlp_ratio", "ffn_dim", _width, _ratio),
        number("layer_norm_eps", "norm_eps", 1e-6),
        layer_scale("layerscale_value", 1.0),
        written("use_mask_token", "mask_token"),
    ),
    inside=_inside_dinov2,
    mask=2,
    pooler="",
    pooling="both",
    lacks=_dinov2_lacks,
).family()

_BEIT_POSITIONS = {
    "use_absolute_position_embeddings": False,
    "use_relative_position_bias": True,
    "use_shared_relative_position_bias": False,
    "use_mean_pooling": True,
}


def _inside_beit(config: ViTConfig) -> Iterator[Part]:
    key = "attention.attention.key"
    projections = {theirs: ours for theirs, ours in ATTENTION.items() if theirs != key}
    yield from layers(projections | AROUND)
    yield from layers({key: ATTENTION[key]}, biases=False)
    bias = "attention.attention.relative_position_bias.relative_position_bias_table"
    yield Part(bias, ("attention.positions.table",))
    yield Part("lambda_1", ("around_attention.gain",))
    yield Part("lambda_2", ("around_feedforward.gain",))


def _check_beit(hf_config: HFConfig, fields: Values) -> None:
    for key in ("image", "patch"):
        if fields[f"{key}_width"] is not None:
            raise hf_config.refusal(f"{key}_size", hf_config.values[f"{key}_size"], "one number")
    hf_config.whole("vocab_size", 8192)  # of the tokens of masked patches, which have no class here


BEIT = Kind(
    model_type="beit",
    stem="Beit",
    fields=replace(
        FIELDS.extended(
            whole("intermediate_size", "ffn_dim"),
            number("layer_norm_eps", "norm_eps", 1e-12),
            choice("hidden_act", "activation", ACTIVATIONS, "gelu"),
            layer_scale("layer_scale_init_value", 0.1),
            written("use_mask_token", "mask_token"),
            fixed={"positions": "relative", "key_bias": False, "final_norm": "mean"},
            check=_check_beit,
        ),
        expected=_BEIT_POSITIONS,
        constant={"attention_probs_dropout_prob": 0.0, **_BEIT_POSITIONS},
    ),
    inside=_inside_beit,
    mask=3,
    pooler="",
    pooling="mean",
    lacks=lambda config: (
        needs(config, {"image_width": (None,), "patch_width": (None,)})
        + without_layer_scale(config)
    ),
).family()

_DINOV3_BIASES = {
    **dict.fromkeys(("query_bias", "value_bias", "proj_bias", "mlp_bias"), True),
    "rope_theta": 100.0,
}


def _inside_dinov3(config: ViTConfig) -> Iterator[Part]:
    names = {"q_proj": "query", "v_proj": "value", "o_proj": "output"}
    yield from layers(names, "attention.", "attention.")
    yield from layers({"attention.k_proj": "attention.key"}, biases=config.key_bias)
    yield from layers({"norm1": "around_attention.norm", "norm2": "around_feedforward.norm"})
    yield Part("layer_scale1.lambda1", ("around_attention.gain",))
    yield Part("layer_scale2.lambda1", ("around_feedforward.gain",))
    if config.activation == "swiglu":
        yield from layers({"mlp.gate_proj": "feedforward.gate"})
    yield from layers({"mlp.up_proj": "feedforward.expand"})
    yield from layers({"mlp.down_proj": "feedforward.contract"})


def _gated(hf_config: HFConfig, fields: Values) -> str:
    if not hf_config.flag("use_gated_mlp", False):
        return hf_config.choice("hidden_act", ACTIVATIONS, "gelu")
    hf_config.must_be("hidden_act", "silu")
    return "swiglu"


DINOV3 = Kind(
    model_type="dinov3_vit",
    stem="DINOv3ViT",
    fields=replace(
        FIELDS.extended(
            whole("intermediate_size", "ffn_dim", 1536),
            number("layer_norm_eps", "norm_eps", 1e-5),
            Key(
                "hidden_act",
                "activation",
                _gated,
                lambda config: ACTIVATION_NAMES.get(config.activation, "silu"),
            ),
            Key("use_gated_mlp", "", lambda *_: None, lambda config: config.activation == "swiglu"),
            layer_scale("layerscale_value", 1.0),
            flag("key_bias", "key_bias", False),
            whole("num_register_tokens", "registers"),
            fixed={"positions": "rotary"},
        ).without("hidden_dropout_prob"),
        expected=_DINOV3_BIASES,
        constant={"attention_dropout": 0.0, **_DINOV3_BIASES},
    ),
    inside=_inside_dinov3,
    mask=3,
    pooler="",
    pooling=None,
    lacks=lambda config: (
        needs(config, {"mask_token": (True,), "dropout": (0.0,)})
        + without_layer_scale(config)
        + ([] if config.registers else ["registers=0 (must be above 0)"])
    ),
    patches="embeddings.patch_embeddings",
    blocks="layer",
    norm="norm",
).family()
FAMILIES = (VIT, DEIT, DINOV2, DINOV3, BEIT)
