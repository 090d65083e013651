"""Read GGUF files: language models and text encoders of llama.cpp, with quantised matrices as
float32.

The metadata becomes the config.json of the model's family in transformers, and the tensors get
their names there, by the tables of `gguf_families`. So a file is checked like a Hugging Face
folder: every key and every tensor of it is used, or known to change nothing, or refused by its
name.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.shapes import Tensor
from headway.blocks import Pooling
from headway.interop.chat_templates import DEFAULT, LARGEST_TEMPLATE, ChatTemplate
from headway.interop.folder_settings import FolderSettings
from headway.interop.gguf_families import (
    FAMILIES,
    FRACTION,
    POOLING_TYPE,
    POOLINGS,
    ROTATED,
    names_there,
)
from headway.interop.gguf_tokenizer import read_vocabulary
from headway.interop.hf_config import HFConfig
from headway.interop.hf_folders import Config, configured, described, expected_tensors
from headway.interop.weight_names import AnyArchitecture, AnyFamily
from headway.models import BertConfig
from headway.text import CharacterTokenizer, EncoderTokenizer, PretrainedTokenizer

SUFFIX = ".gguf"
FILE = f"model{SUFFIX}"
"""The file in a folder of `headway export --to gguf`."""
TEMPLATE = "tokenizer.chat_template"
NEEDED = ("embedding_length", "block_count", "attention.head_count", "context_length")
NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (0.0, 1.0),
    "attention.sliding_window": (0,),
    "attention.causal": (True, False),  # checked before
    "expert_count": (0,),
    "expert_used_count": (0,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
}
"""Keys of the metadata, without the architecture, and the values with which they change nothing."""
AnyTokenizer = CharacterTokenizer | PretrainedTokenizer | EncoderTokenizer
FACTORS = "rope_freqs.weight"
"""The numbers by which the frequencies of rotary positions are divided (Llama 3.1)."""
SEGMENTS = "token_types.weight"


def gguf_file(path: Path) -> Path:
    """Return the GGUF file in an exported folder, or the path itself."""
    return path / FILE if (path / FILE).is_file() else path


def read_gguf(
    path: str | Path,
) -> tuple[Config, dict[str, Tensor], AnyTokenizer, FolderSettings]:
    """Return the configuration, the parameters by our names, the tokenizer and the chat template.

    Raises DataError for a file that is damaged or has something that Headway does not know,
    UsageError if the package `gguf` is not installed.
    """
    path = Path(path)
    where = str(path)
    with _as_data_error(where):
        metadata, stored, values = _described(path)
        tensors = _tensors(values, stored, where)
        config, ours = configured(HFConfig(values, where), tensors, where)
        tokenizer = read_vocabulary(metadata, where)
        if isinstance(tokenizer, EncoderTokenizer) is not isinstance(config, BertConfig):
            raise DataError("the tokenizer is not one of the model's architecture", where)
    return config, ours, tokenizer, FolderSettings(template=_template(metadata, where))


def read_gguf_config(path: str | Path) -> tuple[AnyFamily, AnyArchitecture, Config]:
    """Return the family, the class and our configuration, without reading a tensor."""
    with _as_data_error(str(path)):
        _, stored, values = _described(Path(path))
        hf_config = HFConfig(values, str(path))
        name_of, names = _name_of(values, str(path)), expected_tensors(hf_config)
        return described(hf_config, [name for name in names if name_of(name) in stored])


def read_gguf_tokenizer(path: str | Path) -> AnyTokenizer:
    """Return the tokenizer of a file."""
    with _as_data_error(str(path)):
        return read_vocabulary(_contents(Path(path))[0], str(path))


def read_gguf_pooling(path: str | Path) -> Pooling:
    """Return how the encoder of a file reduces the vectors of a text to one; the mean if the file
    does not say it."""
    with _as_data_error(str(path)):
        metadata = _contents(Path(path))[0]
    key = f"{metadata.get('general.architecture')}.{POOLING_TYPE}"
    number = metadata.get(key, 0)
    names: dict[object, Pooling] = {0: "mean", **{n: name for name, n in POOLINGS.items()}}
    if number not in list(names):  # a list: the value may not be hashable
        raise DataError(f"{key}={str(number)[:80]} is not supported", str(path))
    return names[number]


def read_gguf_licence(path: str | Path) -> str | None:
    """Return the licence that a file names, or None."""
    with _as_data_error(str(path)):
        licence = _contents(Path(path))[0].get("general.license")
    return licence if isinstance(licence, str) else None


def read_gguf_template(path: str | Path) -> ChatTemplate | None:
    """Return the chat template of a file, or None."""
    path = Path(path)
    with _as_data_error(str(path)):
        return _template(_contents(path)[0], str(path))


def _described(path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, object]]:
    """Return the metadata, the tensors and the values of config.json."""
    metadata, stored = _contents(path)
    kinds = {family.architecture: kind for kind, family in FAMILIES.items()}
    architecture = str(metadata.get("general.architecture"))
    if architecture not in kinds:
        raise DataError(
            f"general.architecture={architecture[:80]!r} is not supported; supported: "
            f"{', '.join(kinds)}",
            str(path),
        )
    return metadata, stored, _config(kinds[architecture], metadata, stored, str(path))


@contextmanager
def _as_data_error(where: str) -> Iterator[None]:
    """Turn whatever the package raises for a damaged file into a DataError."""
    try:
        yield
    except HeadwayError:
        raise
    except (MemoryError, OSError):
        raise
    except Exception as error:
        why = f"this is no complete GGUF file ({type(error).__name__}: {str(error)[:200]})"
        raise DataError(why, where, "download the file again") from error


def _contents(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the metadata and the tensors, as the package `gguf` reads them."""
    found = path.stat()
    return _contents_at(path, (found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=1)  # the parts of a model are read one after another
def _contents_at(path: Path, stamp: tuple[int, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the contents, from the mapped file. stamp: what changes when the file does."""
    try:
        package = import_module("gguf")
    except ImportError as error:
        raise UsageError(
            "a GGUF file is read by the package gguf", hint="pip install 'headway[gguf]'"
        ) from error
    reader = package.GGUFReader(path)
    metadata = {name: one.contents() for name, one in reader.fields.items()}
    return metadata, {tensor.name: tensor for tensor in reader.tensors}


def _config(
    kind: str, metadata: Mapping[str, Any], stored: Mapping[str, Any], where: str
) -> dict[str, object]:
    """Return the values of config.json."""
    family = FAMILIES[kind]
    begin = f"{family.architecture}."
    given = {name[len(begin) :]: v for name, v in metadata.items() if name.startswith(begin)}
    if missing := [name for name in NEEDED if name not in given]:
        raise DataError(f"the metadata lacks {begin}{missing[0]}", where, "download it again")
    values: dict[str, Any] = {"model_type": kind}
    for key, names in family.keys.items():
        found = {name: given.pop(name) for name in names if name in given}
        if len(set(found.values())) > 1:
            raise DataError(f"{begin}{found}: must be equal", where)
        if found:
            values[key] = _rounded(next(iter(found.values())))
    if family.rotated and (rotated := given.pop(ROTATED, None)) is not None:
        width = values["hidden_size"] // values["num_attention_heads"]
        values |= {} if rotated == width else {FRACTION: rotated / width}
    values |= family.computed(values)
    if given.get("attention.causal", True) is not family.causal:
        raise DataError(f"{begin}attention.causal must be {family.causal}", where)
    if not family.causal:
        given.pop(POOLING_TYPE, None)
    if SEGMENTS in stored:
        values["type_vocab_size"] = int(stored[SEGMENTS].shape[-1])  # the width is the first one
    for name, value in given.items():
        if value not in NEUTRAL.get(name, ()):
            raise DataError(f"{begin}{name}={str(value)[:80]} is not supported", where)
    values.setdefault("vocab_size", len(metadata.get("tokenizer.ggml.tokens", ())))
    values["tie_word_embeddings"] = "output.weight" not in stored
    values |= {
        key: any(name.endswith(end) for name in stored) for key, end in family.biases.items()
    }
    if FACTORS in stored:
        values["rope_parameters"] = {
            "rope_type": "longrope",
            "rope_theta": values.get("rope_theta", 10_000.0),
            "short_factor": torch.from_numpy(stored[FACTORS].data.copy()).float().tolist(),
        }
    return values


def _rounded(value: object) -> object:
    """Return a float32 as the shortest decimal number that it is: 1e-06, not 9.99999997e-07."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    exact = torch.tensor(value)
    return next(n for d in range(1, 18) if torch.tensor(n := float(f"{value:.{d}g}")) == exact)


def _name_of(values: Mapping[str, Any], where: str) -> Callable[[str], str]:
    """Return the function from transformers' name of a tensor to its name in the file."""
    blocks = values.get("num_hidden_layers", values.get("n_layer"))
    if not isinstance(blocks, int) or not 0 < blocks < 10_000:
        raise DataError(f"block_count={str(blocks)[:80]}: must be from 1 to 9,999", where)
    return names_there(import_module("gguf"), FAMILIES[str(values["model_type"])], blocks)


def _tensors(values: Mapping[str, Any], stored: Mapping[str, Any], where: str) -> dict[str, Tensor]:
    """Return the tensors by transformers' names, in float32."""
    dequantize = import_module("gguf").quants.dequantize
    family, name_of = FAMILIES[str(values["model_type"])], _name_of(values, where)
    tensors = {}
    for theirs in expected_tensors(HFConfig(values, where)):
        name = name_of(theirs)
        if name in stored:
            one = stored[name]
            array = dequantize(one.data, one.tensor_type)
            tensors[theirs] = family.restored(theirs, torch.from_numpy(array.copy()), values)
    if unknown := sorted(stored.keys() - {name_of(name) for name in tensors} - {FACTORS}):
        raise DataError(f"the tensor {unknown[0][:80]} is not supported", where)
    return tensors


def _template(metadata: Mapping[str, Any], where: str) -> ChatTemplate | None:
    text = metadata.get(TEMPLATE)
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > LARGEST_TEMPLATE:
        raise DataError(f"{TEMPLATE} must be a text of at most 128 KiB", where)
    return ChatTemplate(by_name={DEFAULT: text})
