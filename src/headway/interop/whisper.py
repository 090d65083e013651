"""Whisper (`WhisperForConditionalGeneration`): a transcriber, by the names of BART's layers.

Its keys have no bias. The file contains the sines of the encoder's positions.
"""

from collections.abc import Collection, Iterator

from headway.interop.bart import CROSS, LAYER, same
from headway.interop.config_fields import Fields, probability, whole, written
from headway.interop.hf_config import HFConfig
from headway.interop.weight_names import Architecture, Family, Part, Table, layers
from headway.models import TranscriberConfig

WORDS, OUTPUT = "decoder.embed_tokens.weight", "proj_out.weight"
_FIELDS = Fields(
    keys=(
        whole("vocab_size", "vocabulary", 51_865),
        whole("num_mel_bins", "mels", 80),
        whole("d_model", "model_dim", 384),
        whole("encoder_layers", "encoder_layers", 4),
        whole("decoder_layers", "decoder_layers", 4),
        *same("attention_heads", "num_heads", 6),
        *same("ffn_dim", "ffn_dim", 1536),
        probability("dropout", "dropout", 0.0),
        written("activation_dropout", "dropout"),
        whole("max_source_positions", "source_positions", 1500),
        whole("max_target_positions", "max_length", 448),
    ),
    expected={"activation_function": "gelu", "scale_embedding": False, "tie_word_embeddings": True},
    constant={
        "is_encoder_decoder": True,
        "activation_function": "gelu",
        "attention_dropout": 0.0,
        "scale_embedding": False,
        "tie_word_embeddings": True,
    },
)


def _config(hf_config: HFConfig, keys: Collection[str]) -> TranscriberConfig:
    return TranscriberConfig(**_FIELDS.read(hf_config))


def _layer(table: Table, theirs: str, ours: str) -> Iterator[Part]:
    keys = {name: layer for name, layer in table.items() if name.endswith("k_proj")}
    others = {name: layer for name, layer in table.items() if name not in keys}
    yield from layers(others, theirs, ours)
    yield from layers(keys, theirs, ours, biases=False)


def _parts(config: TranscriberConfig) -> Iterator[Part]:
    yield from layers({"conv1": "first", "conv2": "second"}, "encoder.", "source_embedding.")
    yield Part(WORDS, ("target_embedding.tokens.weight",))
    sides = (
        ("encoder", "source_embedding", config.encoder_layers, LAYER),
        ("decoder", "target_embedding", config.decoder_layers, LAYER | CROSS),
    )
    for side, embedding, depth, table in sides:
        yield Part(f"{side}.embed_positions.weight", (f"{embedding}.positions.table.vectors",))
        for n in range(depth):
            yield from _layer(table, f"{side}.layers.{n}.", f"{side}.blocks.{n}.")
        yield from layers({f"{side}.layer_norm": f"{side}.norm"})


FAMILY = Family(
    model_type="whisper",
    prefix="model.",
    heads=r"proj_out\.weight",
    ignored="-",
    architectures=(
        Architecture(
            names=("WhisperForConditionalGeneration",),
            kind=TranscriberConfig,
            config=_config,
            parts=_parts,
            tied=lambda config: {OUTPUT: WORDS},
        ),
    ),
    to_hf_config=_FIELDS.write,
    lacks=_FIELDS.lacks,
    generates=True,
)
