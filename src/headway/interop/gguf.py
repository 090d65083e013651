"""GGUF files of language models, for llama.cpp and the programs around it.

A family is a table: the keys of its config.json, and the names of each in the metadata. The package
`gguf` also knows llama.cpp's name of each tensor of transformers. So a GGUF file is made from the
Hugging Face folder of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headway.base.errors import UsageError
from headway.base.files import read_json
from headway.base.shapes import Tensor
from headway.base.tensors import read_tensors
from headway.interop.chat_templates import TEMPLATE_FILE
from headway.interop.folder_settings import NO_SETTINGS, FolderSettings
from headway.interop.gguf_tokenizer import vocabulary
from headway.interop.hf_export import write_text_model
from headway.interop.hf_folders import CONFIG_FILE, WEIGHTS_FILE, fitting
from headway.models import GPT
from headway.text import TextTokenizer

FILE = "model.gguf"
FORMATS = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int8": "Q8_0",
    "int4": "Q4_0",
}
"""Our name of a number format -> llama.cpp's."""
FILE_TYPES = {"float32": "ALL_F32"} | {
    dtype: f"MOSTLY_{name}" for dtype, name in FORMATS.items() if name != "F32"
}

Reordered = Callable[[str, Tensor, Mapping[str, Any]], Tensor]


def _same(name: str, tensor: Tensor, config: Mapping[str, Any]) -> Tensor:
    return tensor


@dataclass(frozen=True)
class Family:
    """A family of transformers as llama.cpp's.

    architecture: its name there. keys: of config.json -> their names in the metadata, without the
    name of the architecture before them. tolerance: of log-probabilities in float32, relative to
    the largest. biases: keys of config.json that the tensors tell -> the end of the name of one.
    options: of our configuration, those that the family has. stored: returns a tensor as llama.cpp
    stores it, from transformers' name of it, the tensor and config.json. restored: the inverse.
    """

    architecture: str
    keys: Mapping[str, Sequence[str]]
    tolerance: float
    biases: Mapping[str, str] = field(default_factory=dict)
    options: frozenset[str] = frozenset()
    stored: Reordered = _same
    restored: Reordered = _same


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
}
"""`model_type` in config.json -> the family in llama.cpp."""


def write_gguf(
    model: GPT,
    tokenizer: TextTokenizer,
    folder: str | Path,
    dtype: str = "float32",
    settings: FolderSettings = NO_SETTINGS,
) -> str:
    """Write `model.gguf` into a folder; return llama.cpp's name of the family.

    dtype: a key of `FORMATS`. settings: those of the pretrained folder that the model is from; its
    chat template is written, too. Raises UsageError for a model or tokenizer that cannot be
    represented, with all reasons, and if the packages are not installed.
    `exporting.llama_cpp` runs what was written before anybody gets it.
    """
    package, kind = _package(), gguf_kind(model)
    Path(folder).mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        hugging_face = Path(scratch, "hf")
        write_text_model(model, tokenizer, hugging_face, kind, settings=settings)
        _write(package, hugging_face, Path(folder, FILE), tokenizer, dtype)
    return FAMILIES[kind].architecture


def gguf_kind(model: GPT) -> str:
    """Return the family of a model, a key of `FAMILIES`. UsageError if a GGUF file has none."""
    kind = fitting(model.config, None).model_type
    if kind not in FAMILIES:
        raise UsageError(
            f"this model is a {kind}, which cannot be exported to GGUF: llama.cpp's families are "
            f"{', '.join(FAMILIES)}",
            hint="headway export RUN --to hf writes a folder for other libraries",
        )
    options = [one for one in model.config.options if one not in FAMILIES[kind].options]
    if options:  # some of them change only texts that are longer than the prompts
        raise UsageError(
            f"these settings cannot be exported to GGUF yet: {', '.join(options)}",
            hint="headway export RUN --to hf writes a folder for other libraries",
        )
    return kind


def _package() -> Any:
    """Return the package `gguf`. Raises UsageError if it or `xllamacpp` is not installed."""
    try:
        import_module("xllamacpp")
        return import_module("gguf")
    except ImportError as error:
        raise UsageError(
            "an export to GGUF needs the packages gguf, which writes the file, and xllamacpp, "
            "which reads it by llama.cpp",
            hint="pip install 'headway[gguf]'",
        ) from error


def _write(
    package: Any, hugging_face: Path, file: Path, tokenizer: TextTokenizer, dtype: str
) -> None:
    """Write the model of a Hugging Face folder, with matrices in `dtype`, as llama.cpp reads it."""
    config = read_json(hugging_face / CONFIG_FILE)
    assert isinstance(config, dict)
    family = FAMILIES[config["model_type"]]
    writer = package.GGUFWriter(file, family.architecture)
    number = package.GGMLQuantizationType[FORMATS[dtype]]
    writer.add_file_type(package.LlamaFileType[FILE_TYPES[dtype]])
    for key, names in family.keys.items():
        value = config[key]
        add = writer.add_uint32 if isinstance(value, int) else writer.add_float32
        for name in names:
            add(f"{family.architecture}.{name}", value)
    for name, value in vocabulary(package, hugging_face, tokenizer, config["vocab_size"]).items():
        getattr(writer, name)(value)
    if (hugging_face / TEMPLATE_FILE).exists():
        writer.add_chat_template((hugging_face / TEMPLATE_FILE).read_text())
    blocks: int = config["n_layer"] if "n_layer" in config else config["num_hidden_layers"]
    name_of = names_there(package, family, blocks)
    for name, tensor in read_tensors(hugging_face / WEIGHTS_FILE).items():
        theirs = name_of(name)
        values = family.stored(name, tensor, config).float().contiguous().numpy()
        fits = values.ndim == 2 and values.shape[-1] % package.GGML_QUANT_SIZES[number][0] == 0
        if fits and dtype != "float32" and "position" not in theirs:
            values = package.quants.quantize(values, number)
            writer.add_tensor(theirs, values, raw_dtype=number)
        else:
            writer.add_tensor(theirs, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def names_there(package: Any, family: Family, blocks: int) -> Callable[[str], str]:
    """Return the function from transformers' name of a tensor to llama.cpp's."""
    arch = next(a for a, name in package.MODEL_ARCH_NAMES.items() if name == family.architecture)
    names = package.get_tensor_name_map(arch, blocks)
    return lambda name: str(names.get_name(name, try_suffixes=(".weight", ".bias")))
