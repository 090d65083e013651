"""GGUF files of language models and text encoders, for llama.cpp and the programs around it.

A GGUF file is made from the Hugging Face folder of the model, by the tables of `gguf_families`.
"""

import errno
import os
from collections.abc import Mapping
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headway.base.errors import UsageError
from headway.base.files import read_json
from headway.base.tensors import read_tensors
from headway.blocks import Pooling
from headway.interop.chat_templates import TEMPLATE_FILE
from headway.interop.folder_settings import NO_SETTINGS, FolderSettings
from headway.interop.gguf_families import (
    FAMILIES,
    FRACTION,
    POOLING_TYPE,
    POOLINGS,
    ROTATED,
    Family,
    names_there,
)
from headway.interop.gguf_reader import FILE
from headway.interop.gguf_tokenizer import PREFIX, vocabulary
from headway.interop.hf_export import write_text_model
from headway.interop.hf_folders import CONFIG_FILE, WEIGHTS_FILE, fitting
from headway.models import GPT, Bert, BertConfig
from headway.models.bert_heads import remove_heads
from headway.text import EncoderTokenizer, TextTokenizer

FORMATS = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int8": "Q8_0",
    "int4": "Q4_0",
}
"""Our name of a number format -> llama.cpp's."""
ADDED = ("position_embd", "token_types")
"""Matrices whose rows are added, which llama.cpp reads in float32 only."""
FILE_TYPES = {"float32": "ALL_F32"} | {
    dtype: f"MOSTLY_{name}" for dtype, name in FORMATS.items() if name != "F32"
}


def write_gguf(
    model: GPT | Bert,
    tokenizer: TextTokenizer | EncoderTokenizer,
    folder: str | Path,
    dtype: str = "float32",
    settings: FolderSettings = NO_SETTINGS,
    pooling: Pooling = "mean",
) -> str:
    """Write `model.gguf` into a folder; return llama.cpp's name of the family.

    The heads and the pooler of an encoder are left out: llama.cpp computes vectors. dtype: a key of
    `FORMATS`. settings: those of the pretrained folder that the model is from; its chat template is
    written, too. pooling: how an encoder reduces the vectors of a text to one. Raises UsageError
    for a model or tokenizer that cannot be represented, with all reasons, and if the packages are
    not installed.
    `exporting.llama_cpp` runs what was written before anybody gets it.
    """
    package, kind = _package(), gguf_kind(model)
    model = encoder_alone(model) if isinstance(model, Bert) else model
    Path(folder).mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        hugging_face = Path(scratch, "hf")
        write_text_model(model, tokenizer, hugging_face, kind, settings=settings)
        _write(package, hugging_face, Path(folder, FILE), tokenizer, dtype, pooling)
    return FAMILIES[kind].architecture


def encoder_alone(model: Bert) -> Bert:
    """Return a copy of an encoder without heads and pooler."""
    return remove_heads(deepcopy(model), "none")


def gguf_kind(model: GPT | Bert) -> str:
    """Return the family of a model, a key of `FAMILIES`. UsageError if a GGUF file has none."""
    config = model.config
    if isinstance(config, BertConfig):
        config = replace(
            config,
            masked_lm_head=False,
            next_sentence=False,
            replaced_token_head=False,
            pooler="none",
        )
    kind = fitting(config, None).model_type
    if kind not in FAMILIES:
        raise UsageError(
            f"this model is a {kind}, which cannot be exported to GGUF: llama.cpp's families are "
            f"{', '.join(FAMILIES)}",
            hint="headway export RUN --to hf writes a folder for other libraries",
        )
    options = getattr(config, "options", ())  # of an encoder, `fitting` knows all settings
    options = [one for one in options if not FAMILIES[kind].has(one)]
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
    package: Any,
    hugging_face: Path,
    file: Path,
    tokenizer: TextTokenizer | EncoderTokenizer,
    dtype: str,
    pooling: Pooling,
) -> None:
    """Write the model of a Hugging Face folder, with matrices in `dtype`, as llama.cpp reads it."""
    config = read_json(hugging_face / CONFIG_FILE)
    assert isinstance(config, dict)
    family = FAMILIES[config["model_type"]]
    writer = package.GGUFWriter(file, family.architecture)
    writer.add_file_type(package.LlamaFileType[FILE_TYPES[dtype]])
    _add_config(writer, family, config, pooling)
    for name, value in vocabulary(package, hugging_face, tokenizer, config["vocab_size"]).items():
        if name.startswith(PREFIX):  # the writer has no function for it
            writer.add_bool(name, value)
        else:
            getattr(writer, name)(value)
    if (hugging_face / TEMPLATE_FILE).exists():
        writer.add_chat_template((hugging_face / TEMPLATE_FILE).read_text())
    _add_tensors(package, writer, hugging_face, config, dtype)
    try:
        with closing(writer):
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
    except OSError as error:
        if error.errno is None:  # numpy does not say why only a part of the bytes was written
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise


def _add_config(writer: Any, family: Family, config: Mapping[str, Any], pooling: Pooling) -> None:
    """Add the metadata of a config.json. Raises UsageError for values that llama.cpp does not
    have."""
    for key, expected in family.computed(config).items():
        if config.get(key, expected) != expected:
            raise UsageError(
                f"llama.cpp computes {key}={expected} for this model, which has {config[key]}",
                hint="headway export RUN --to hf writes a folder for other libraries",
            )
    if family.rotated:
        width = config["hidden_size"] // config["num_attention_heads"]
        rotated = round(width * config.get(FRACTION, 1.0))
        writer.add_uint32(f"{family.architecture}.{ROTATED}", rotated)
    if not family.causal:
        writer.add_causal_attention(False)
        writer.add_uint32(f"{family.architecture}.{POOLING_TYPE}", POOLINGS[pooling])
    for key, names in family.keys.items():
        if (value := config.get(key)) is None:
            continue
        add = writer.add_uint32 if isinstance(value, int) else writer.add_float32
        for name in names:
            add(f"{family.architecture}.{name}", value)


def _add_tensors(
    package: Any, writer: Any, hugging_face: Path, config: Mapping[str, Any], dtype: str
) -> None:
    """Add the tensors of a folder, with matrices in `dtype`."""
    family, number = FAMILIES[config["model_type"]], package.GGMLQuantizationType[FORMATS[dtype]]
    blocks: int = config["n_layer"] if "n_layer" in config else config["num_hidden_layers"]
    name_of = names_there(package, family, blocks)
    for name, tensor in read_tensors(hugging_face / WEIGHTS_FILE).items():
        theirs = name_of(name)
        values = family.stored(name, tensor, config).float().contiguous().numpy()
        fits = values.ndim == 2 and values.shape[-1] % package.GGML_QUANT_SIZES[number][0] == 0
        if fits and dtype != "float32" and not theirs.startswith(ADDED):
            values = package.quants.quantize(values, number)
            writer.add_tensor(theirs, values, raw_dtype=number)
        else:
            writer.add_tensor(theirs, values)
