"""T5, T5 v1.1, Flan-T5 and mT5 (`T5ForConditionalGeneration`): relative positions, no biases.

Pre-norm with RMSNorm, scores that are not scaled, one table of distances in each stack. v1.0 ties
the output projection to the embedding and divides the vectors before it by sqrt(D); v1.1 and mT5
have a separate output projection and a gated feed-forward layer. Raffel et al. 2020; Shazeer 2020.
"""

from collections.abc import Collection, Iterator

from headway.interop.config_fields import Fields, Key, choice, number, probability, whole
from headway.interop.hf_config import HFConfig
from headway.interop.weight_names import Architecture, Family, Part, layers, needs
from headway.models import TranslatorConfig

HEAD = "lm_head.weight"
ACTIVATIONS = {
    "relu": "relu",
    "gated-gelu": "geglu",
    "gated-silu": "swiglu",
    "gelu": "gelu",
    "silu": "silu",
}
"""Values of `feed_forward_proj` -> ours; the gate of T5's gated-gelu has the tanh form."""
_DENSE = {"relu": "relu", "geglu": "gelu_new", "swiglu": "silu", "gelu": "gelu", "silu": "silu"}
_GATED = ("geglu", "swiglu")


def _parts(config: TranslatorConfig) -> Iterator[Part]:
    yield Part("shared.weight", ("source_embedding.tokens.weight",))
    for side in ("encoder", "decoder"):
        table = "SelfAttention.relative_attention_bias.weight"
        ours = f"{side}.blocks.0.attention.positions.table"
        yield Part(f"{side}.block.0.layer.0.{table}", (ours,))
        count = config.encoder_layers if side == "encoder" else config.decoder_layers
        block = _block(config, side)
        for n in range(count):
            theirs, ours = f"{side}.block.{n}.layer.", f"{side}.blocks.{n}."
            yield from layers(block, theirs, ours, biases=False)
        yield from layers({f"{side}.final_layer_norm": f"{side}.norm"}, biases=False)
    if not config.tie_output:
        yield Part(HEAD, ("output.weight",))


def _block(config: TranslatorConfig, side: str) -> dict[str, str]:
    """Return the names of the layers of a block, which are numbered by sublayer."""
    attentions = {"SelfAttention": "attention"}
    if side == "decoder":
        attentions["EncDecAttention"] = "cross"
    table = {}
    for place, (name, ours) in enumerate(attentions.items()):
        for projection in ("query", "key", "value", "output"):
            table[f"{place}.{name}.{projection[0]}"] = f"{ours}.{projection}"
        table[f"{place}.layer_norm"] = f"around_{ours}.norm"
    last = len(attentions)
    names = {"wi": "expand", "wo": "contract"}
    if config.activation in _GATED:
        names = {"wi_0": "gate", "wi_1": "expand", "wo": "contract"}
    for name, ours in names.items():
        table[f"{last}.DenseReluDense.{name}"] = f"feedforward.{ours}"
    return {**table, f"{last}.layer_norm": "around_feedforward.norm"}


def _scales(hf_config: HFConfig, fields: object) -> bool:
    if hf_config.values.get("model_type") == "mt5":  # which never scales
        return False
    tied = hf_config.flag("tie_word_embeddings", True)
    return hf_config.flag("scale_decoder_outputs", tied)


_BUCKETS = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
_FIELDS = Fields(
    keys=(
        whole("vocab_size", "source_vocabulary", 32_128),
        whole("d_model", "model_dim", 512),
        whole("d_kv", "head_dim", 64, source="head_width"),
        whole("d_ff", "ffn_dim", 2048),
        whole("num_layers", "encoder_layers", 6),
        whole("num_decoder_layers", "decoder_layers", lambda fields: int(fields["encoder_layers"])),
        whole("num_heads", "num_heads", 8),
        number("layer_norm_epsilon", "norm_eps", 1e-6),
        choice("feed_forward_proj", "activation", ACTIVATIONS, "relu"),
        Key("is_gated_act", "", lambda *_: None, lambda config: config.activation in _GATED),
        Key("dense_act_fn", "", lambda *_: None, lambda config: _DENSE[config.activation]),
        probability("dropout_rate", "dropout", 0.1),
        Key("scale_decoder_outputs", "scale_output", _scales, lambda config: config.scale_output),
        Key("tie_word_embeddings", "", lambda *_: None, lambda config: config.tie_output),
    ),
    fixed={
        "encoder": "transformer",
        "decoder": "transformer",
        "position_dim": 0,
        "norm": "pre",
        "norm_kind": "rms",
        "bias": False,
        "attention": "dot",
        "positions": "relative",
        "scale_embeddings": False,
        "embedding_norm": False,
        "output_bias": False,
        "share_embeddings": True,
    },
    expected=_BUCKETS,
    constant={"is_encoder_decoder": True, **_BUCKETS},
)


def _config(hf_config: HFConfig, keys: Collection[str]) -> TranslatorConfig:
    """The output projection is tied if the file has none of its own; so it is in transformers."""
    fields = _FIELDS.read(hf_config)
    tied = {"tie_output": HEAD not in keys, "target_vocabulary": fields["source_vocabulary"]}
    return TranslatorConfig(**fields, **tied)


def _tied(config: TranslatorConfig) -> dict[str, str]:
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
    return dict.fromkeys([*copies, HEAD] if config.tie_output else copies, "shared.weight")


def _family(
    model_type: str, architecture: str, scales: tuple[bool, ...]
) -> Family[TranslatorConfig]:
    """scales: the values of `scale_output` that the family has."""
    whole = Architecture(
        names=(architecture,), kind=TranslatorConfig, config=_config, parts=_parts, tied=_tied
    )
    return Family(
        model_type=model_type,
        prefix="",
        heads=".*",
        # a table that old files have in the cross-attention and no version uses
        ignored=r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
        architectures=(whole,),
        to_hf_config=_FIELDS.write,
        lacks=lambda config: _FIELDS.lacks(config) + needs(config, {"scale_output": scales}),
        generates=True,
    )


FAMILIES = (
    _family("t5", "T5ForConditionalGeneration", (False, True)),
    _family("mt5", "MT5ForConditionalGeneration", (False,)),
)
