"""The families of language models and text encoders that llama.cpp has, too.

A family is a table: the keys of its config.json, and the names of each in the metadata of a GGUF
file. The package `gguf` also knows llama.cpp's name of each tensor of transformers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.base.shapes import Tensor
from headway.blocks import Pooling

Reordered = Callable[[str, Tensor, Mapping[str, Any]], Tensor]


def _same(name: str, tensor: Tensor, config: Mapping[str, Any]) -> Tensor:
    return tensor


@dataclass(frozen=True)
class Family:
    """A family of transformers as llama.cpp's.

    architecture: its name there. keys: of config.json -> their names in the metadata, without the
    name of the architecture before them. tolerance: of log-probabilities, or of the vectors of an
    encoder, in float32, relative to the largest. biases: keys of config.json that the tensors tell
    -> the end of the name of one. options: settings of ours, with their value or by their name
    alone, that the family has besides those of GPT-2 and Llama. stored: returns a tensor as
    llama.cpp stores it, from transformers' name of it, the tensor and config.json. restored: the
    inverse. computed: returns keys of config.json that a file does not have, because llama.cpp
    computes them from others. rotated: whether the number of rotated dimensions of a head is in the
    metadata, instead of their fraction. causal: whether a token attends to earlier ones only; an
    encoder also has a pooling.
    """

    architecture: str
    keys: Mapping[str, Sequence[str]]
    tolerance: float
    biases: Mapping[str, str] = field(default_factory=dict)
    options: frozenset[str] = frozenset()
    stored: Reordered = _same
    restored: Reordered = _same
    computed: Callable[[Mapping[str, Any]], Mapping[str, object]] = lambda config: {}
    rotated: bool = False
    causal: bool = True

    def has(self, option: str) -> bool:
        """Return whether the family has a setting, a text such as `norm=sandwich`."""
        return option in self.options or option.partition("=")[0] in self.options


def _offset(name: str, tensor: Tensor, config: Mapping[str, Any]) -> Tensor:
    """Return the gain 1 + w of a Gemma's norm, as llama.cpp stores it."""
    return tensor + 1 if name.endswith("norm.weight") else tensor


def _without_offset(name: str, tensor: Tensor, config: Mapping[str, Any]) -> Tensor:
    """Return w for the gain 1 + w: the inverse of `_offset`."""
    return tensor - 1 if name.endswith("norm.weight") else tensor


def _of_bert(config: Mapping[str, Any]) -> dict[str, object]:
    """llama.cpp computes GELU by tanh for every BERT, also for those that have it exactly."""
    activation = config.get("hidden_act")
    return {"hidden_act": activation if activation in _GELU_BY_TANH else "gelu"}


_GELU_BY_TANH = ("gelu_new", "gelu_pytorch_tanh")
_LAYERS_OF_27B = {"gemma2": 46, "gemma3_text": 62}


def _of_gemma(config: Mapping[str, Any], step: int) -> dict[str, object]:
    """Return which layers have a window, all but each `step`-th, and by whose root scores are
    divided: the width of a head, but for the models of 27 billion parameters, which llama.cpp knows
    by their number of layers."""
    count, width = int(config["num_hidden_layers"]), int(config["head_dim"])
    if count == _LAYERS_OF_27B[str(config["model_type"])]:
        width = int(config["hidden_size"]) // int(config["num_attention_heads"])
    kinds = (
        "full_attention" if n % step == 0 else "sliding_attention" for n in range(1, count + 1)
    )
    return {
        "query_pre_attn_scalar": width,
        "hidden_activation": "gelu_pytorch_tanh",
        "layer_types": [*kinds],
    }


def _transposed(name: str, tensor: Tensor, config: Mapping[str, Any]) -> Tensor:
    """GPT-2's Conv1D computes x W; llama.cpp computes x W^T."""
    is_matrix = ".attn.c_" in name or ".mlp.c_" in name
    return tensor.T if is_matrix and tensor.ndim == 2 else tensor


def _neighbours(name: str, tensor: Tensor, config: Mapping[str, Any]) -> Tensor:
    """Order the rows of queries and keys for llama.cpp's rotation of a Llama.

    It rotates neighbouring dimensions (2i, 2i+1) of a head, transformers the dimensions (i, i+d/2).
    """
    if (heads := _rotated_heads(name, config)) is None:
        return tensor
    halves = tensor.view(heads, 2, -1, *tensor.shape[1:])
    return halves.transpose(1, 2).reshape(tensor.shape)


def _halves(name: str, tensor: Tensor, config: Mapping[str, Any]) -> Tensor:
    """Return the rows in transformers' order: the inverse of `_neighbours`."""
    if (heads := _rotated_heads(name, config)) is None:
        return tensor
    pairs = tensor.view(heads, -1, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape)


def _rotated_heads(name: str, config: Mapping[str, Any]) -> int | None:
    """Return the number of heads of a matrix of queries or keys; None for other tensors."""
    heads = int(config.get("num_attention_heads", 0))
    if ".q_proj." in name:
        return heads
    return int(config.get("num_key_value_heads", heads)) if ".k_proj." in name else None


_MODERN = {
    "max_position_embeddings": ["context_length"],
    "hidden_size": ["embedding_length"],
    "num_hidden_layers": ["block_count"],
    "intermediate_size": ["feed_forward_length"],
    "num_attention_heads": ["attention.head_count"],
    "num_key_value_heads": ["attention.head_count_kv"],
    "head_dim": ["attention.key_length", "attention.value_length", "rope.dimension_count"],
    "rms_norm_eps": ["attention.layer_norm_rms_epsilon"],
    "rope_theta": ["rope.freq_base"],
    "vocab_size": ["vocab_size"],
}
_ATTENTION_BIAS = {"attention_bias": ".attn_q.bias"}
_GEMMA = _MODERN | {"sliding_window": ["attention.sliding_window"]}
_GEMMA_OPTIONS = frozenset(
    {
        *("norm=sandwich", "norm_kind=rms-offset", "activation=geglu"),
        *("embedding_scale", "score_scale", "layers"),  # as `computed`, or as in every Gemma
    }
)
ROTATED, FRACTION = "rope.dimension_count", "partial_rotary_factor"
FAMILIES = {
    "gpt2": Family(
        "gpt2",
        {
            "n_positions": ["context_length"],
            "n_embd": ["embedding_length"],
            "n_layer": ["block_count"],
            "n_inner": ["feed_forward_length"],
            "n_head": ["attention.head_count"],
            "layer_norm_epsilon": ["attention.layer_norm_epsilon"],
        },
        5e-4,  # llama.cpp looks GELU up in a table of float16
        stored=_transposed,
        restored=_transposed,
    ),
    "llama": Family(
        "llama",
        _MODERN,
        1e-5,
        _ATTENTION_BIAS | {"mlp_bias": ".ffn_up.bias"},
        stored=_neighbours,
        restored=_halves,
    ),
    "qwen2": Family(
        "qwen2",
        {key: names for key, names in _MODERN.items() if key != "head_dim"},
        1e-5,
        options=frozenset({"attention_bias=qkv"}),
    ),
    "qwen3": Family("qwen3", _MODERN, 1e-5, _ATTENTION_BIAS),
    "gemma2": Family(
        "gemma2",
        _GEMMA
        | {
            "attn_logit_softcapping": ["attn_logit_softcapping"],
            "final_logit_softcapping": ["final_logit_softcapping"],
        },
        5e-4,  # the table of GELU
        options=_GEMMA_OPTIONS | {"score_cap", "logit_cap"},
        stored=_offset,
        restored=_without_offset,
        computed=lambda config: _of_gemma(config, 2),
    ),
    "gemma3_text": Family(
        "gemma3",
        _GEMMA,
        5e-4,
        options=_GEMMA_OPTIONS | {"local_rotary_base=10000.0"},
        stored=_offset,
        restored=_without_offset,
        computed=lambda config: _of_gemma(config, 6),
    ),
    "phi3": Family(
        "phi3",
        {key: names for key, names in _MODERN.items() if key != "head_dim"}
        | {"original_max_position_embeddings": ["rope.scaling.original_context_length"]},
        1e-5,
        options=frozenset({"rotary_fraction"}),
        rotated=True,
    ),
    "bert": Family(
        "bert",
        {
            "max_position_embeddings": ["context_length"],
            "hidden_size": ["embedding_length"],
            "num_hidden_layers": ["block_count"],
            "intermediate_size": ["feed_forward_length"],
            "num_attention_heads": ["attention.head_count"],
            "layer_norm_eps": ["attention.layer_norm_epsilon"],
        },
        2e-3,  # the table of GELU, which is one by tanh besides
        computed=_of_bert,
        causal=False,
    ),
}
"""`model_type` in config.json -> the family in llama.cpp."""
POOLING_TYPE = "pooling_type"
POOLINGS: Mapping[Pooling, int] = {"mean": 1, "first": 2, "last": 3}
"""Our name of a pooling -> its number in the metadata of an encoder."""


def names_there(package: Any, family: Family, blocks: int) -> Callable[[str], str]:
    """Return the function from transformers' name of a tensor to llama.cpp's."""
    arch = next(a for a, name in package.MODEL_ARCH_NAMES.items() if name == family.architecture)
    names = package.get_tensor_name_map(arch, blocks)
    return lambda name: str(names.get_name(name, try_suffixes=(".weight", ".bias")))
