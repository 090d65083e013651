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

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch

from headway.base.shapes import Tensor
from headway.blocks import SinusoidalTable
from headway.interop.config_fields import Fields, Key, choice, flag, probability, whole, written
from headway.interop.hf_config import ACTIVATIONS, HFConfig
from headway.interop.weight_names import Architecture, Family, Part, layers, needs
from headway.models import TranslatorConfig

_BIAS = "final_logits_bias"
_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
_ATTENTION = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
LAYER = {
    **{f"self_attn.{theirs}": f"attention.{ours}" for theirs, ours in _ATTENTION.items()},
    "self_attn_layer_norm": "around_attention.norm",
    "fc1": "feedforward.expand",
    "fc2": "feedforward.contract",
    "final_layer_norm": "around_feedforward.norm",
}
CROSS = {
    **{f"encoder_attn.{theirs}": f"cross.{ours}" for theirs, ours in _ATTENTION.items()},
    "encoder_attn_layer_norm": "around_cross.norm",
}


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """One of these families. architecture: its class in transformers. fields: the table of
    config.json. has_sine_files: whether its files contain the table of sines."""

    model_type: str
    architecture: str
    fields: Fields
    has_sine_files: bool = False

    def family(self) -> Family[TranslatorConfig]:
        # old files have the table of sines although it is computed
        sines = self.fields.fixed["positions"] == "sinusoidal"
        whole = Architecture(
            names=(self.architecture,),
            kind=TranslatorConfig,
            config=self._config,
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
            to_hf_config=self.fields.write,
            lacks=self._lacks,
            generates=True,
        )

    def _config(self, hf_config: HFConfig, keys: Collection[str]) -> TranslatorConfig:
        fields = self.fields.read(hf_config)
        hf_config.must_be("decoder_vocab_size", fields["source_vocabulary"])
        return TranslatorConfig(**fields, target_vocabulary=fields["source_vocabulary"])

    def _lacks(self, config: TranslatorConfig) -> list[str]:
        head_widths = (None, config.model_dim // config.num_heads)
        reasons = self.fields.lacks(config) + needs(config, {"head_dim": head_widths})
        if "first_position" not in self.fields.fixed and not config.first_position:
            reasons.append("first_position=0 (must be 1 or more)")
        return reasons


def _parts(config: TranslatorConfig) -> Iterator[Part]:
    yield Part("shared.weight", ("source_embedding.tokens.weight",))
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        if config.positions == "learned":
            yield Part(f"{side}.embed_positions.weight", (f"{embedding}.positions.table.vectors",))
        if config.embedding_norm:
            yield from layers({f"{side}.layernorm_embedding": f"{embedding}.norm"})
        count = config.encoder_layers if side == "encoder" else config.decoder_layers
        table = LAYER if side == "encoder" else LAYER | CROSS
        for number in range(count):
            yield from layers(table, f"{side}.layers.{number}.", f"{side}.blocks.{number}.")
        if config.norm == "pre":
            yield from layers({f"{side}.layer_norm": f"{side}.norm"})
    if config.output_bias:
        yield Part(_BIAS, ("output.bias",), shape=(1, config.target_vocabulary))


def _sines(config: TranslatorConfig) -> dict[str, Tensor]:
    """Return the table of positions of both sides."""
    table = SinusoidalTable(config.model_dim, config.sinusoids, config.first_position)
    vectors = table(torch.arange(config.max_length)[None])[0]
    return {f"{side}.embed_positions.weight": vectors.clone() for side in ("encoder", "decoder")}


def same(key: str, ours: str, default: int) -> tuple[Key, Key]:
    """A number that encoder and decoder have in common."""
    encoder = whole(f"encoder_{key}", ours, default)

    def read(hf_config: HFConfig, fields: object) -> int:
        number = hf_config.whole(encoder.theirs, default)
        hf_config.must_be(f"decoder_{key}", number)
        return number

    return Key(encoder.theirs, ours, read, encoder.write), written(f"decoder_{key}", ours)


def _fields(
    fixed: Mapping[str, object], *special: Key, scaled: bool = False, activation: str = "gelu"
) -> Fields:
    """Return the table of a family with its fixed fields of `TranslatorConfig`, and the defaults of
    `scale_embedding` and `activation_function`."""
    return Fields(
        keys=(
            whole("vocab_size", "source_vocabulary", 50_265),
            whole("d_model", "model_dim", 1024),
            whole("encoder_layers", "encoder_layers", 12),
            whole("decoder_layers", "decoder_layers", 12),
            *same("attention_heads", "num_heads", 16),
            *same("ffn_dim", "ffn_dim", 4096),
            choice("activation_function", "activation", ACTIVATIONS, activation),
            probability("dropout", "dropout", 0.1),
            written("activation_dropout", "dropout"),
            flag("scale_embedding", "scale_embeddings", scaled),
            whole("max_position_embeddings", "max_length", 1024),
            *special,
        ),
        fixed={
            "encoder": "transformer",
            "decoder": "transformer",
            "attention": "scaled-dot",
            "position_dim": 0,
            "norm_kind": "layer",
            "norm_eps": 1e-5,
            "bias": True,
            "share_embeddings": True,
            "tie_output": True,
            "scale_output": False,
            **fixed,
        },
        expected={"share_encoder_decoder_embeddings": True, "tie_word_embeddings": True},
        constant={
            "is_encoder_decoder": True,
            "attention_dropout": 0.0,
            "tie_word_embeddings": True,
        },
    )


_LEARNED = {"positions": "learned", "first_position": 2, "embedding_norm": True}
_SINES = {"positions": "sinusoidal", "sinusoids": "halves", "embedding_norm": False}
_AFTER_PADDING = Key(
    "pad_token_id",
    "first_position",
    lambda file, fields: file.padding("vocab_size", fields["source_vocabulary"]) + 1,
    lambda config: config.first_position - 1,
)
MARIAN = _Kind(
    model_type="marian",
    architecture="MarianMTModel",
    fields=_fields({"norm": "post", "first_position": 0, "output_bias": True, **_SINES}),
).family()
PEGASUS = _Kind(
    model_type="pegasus",
    has_sine_files=True,
    architecture="PegasusForConditionalGeneration",
    fields=_fields({"norm": "pre", "first_position": 0, "output_bias": True, **_SINES}),
).family()
BART = _Kind(
    model_type="bart",
    architecture="BartForConditionalGeneration",
    fields=_fields({"norm": "post", "output_bias": True, **_LEARNED}),
).family()
MBART = _Kind(
    model_type="mbart",
    architecture="MBartForConditionalGeneration",
    fields=_fields({"norm": "pre", "output_bias": True, **_LEARNED}),
).family()
M2M100 = _Kind(
    model_type="m2m_100",
    architecture="M2M100ForConditionalGeneration",
    fields=_fields(
        {**_SINES, "norm": "pre", "output_bias": False, "sinusoids": "endpoint"},
        _AFTER_PADDING,
        scaled=True,
        activation="relu",
    ),
).family()
FAMILIES = (MARIAN, PEGASUS, BART, MBART, M2M100)
