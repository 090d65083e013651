"""Decoders that embed texts: Qwen3-Embedding, EmbeddingGemma. The table of the decoder reads them.

They are told from language models by modules.json of sentence-transformers, or by the key that
makes their attention bidirectional.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from headway.base.shapes import Tensor
from headway.interop.decoders.kind import HEAD
from headway.interop.hf_config import HFConfig
from headway.interop.sentence_transformers import modules_file
from headway.models import GPTConfig, TextEmbedderConfig

BOTH_DIRECTIONS = "use_bidirectional_attention"
_WINDOW, _TIED = "sliding_window", "tie_word_embeddings"
PREFIX = "gpt."


def embeds_texts(file: HFConfig, folder: Path, decoders: Collection[str]) -> bool:
    """Return whether a folder with this config.json holds a decoder that embeds texts.

    decoders: the model types of language models.
    """
    if file.values.get("model_type") not in list(decoders):  # a list: it may not be hashable
        return False
    return modules_file(folder) is not None or file.values.get(BOTH_DIRECTIONS) is True


def as_decoder(file: HFConfig) -> HFConfig:
    """Return the config.json of the decoder: causal, and without a head.

    The size of a window is that of both sides together if attention is bidirectional.
    """
    values: dict[str, Any] = {**file.values, _TIED: True}
    if values.pop(BOTH_DIRECTIONS, False) and isinstance(values.get(_WINDOW), int):
        values[_WINDOW] = values[_WINDOW] // 2 + 1
    return HFConfig(values, file.where)


def without_head(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a decoder without those of its head, which no vector depends on."""
    return {name: tensor for name, tensor in tensors.items() if name != HEAD}


def embedder_config(file: HFConfig, config: GPTConfig) -> TextEmbedderConfig:
    """Return the configuration of the embedder with these blocks. file: its config.json."""
    return TextEmbedderConfig(gpt=config, causal=not file.flag(BOTH_DIRECTIONS, False))


def written_keys(config: TextEmbedderConfig) -> dict[str, object]:
    """Return the keys of config.json in which an embedder differs from its decoder."""
    if config.causal:
        return {}
    has_windows = "l" in config.gpt.layers
    return {BOTH_DIRECTIONS: True} | ({_WINDOW: 2 * (config.gpt.window - 1)} if has_windows else {})
