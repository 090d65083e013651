"""GGUF files of language models, for llama.cpp and the programs around it.

A GGUF file is made from the Hugging Face folder of the model, by the tables of `gguf_families`, and
then llama.cpp reads it: its ids of texts must be equal, and its log-probabilities those of the
model.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from headway.base.errors import HeadwayError, UsageError
from headway.base.files import read_json
from headway.base.folders import new_folder
from headway.base.shapes import Tensor
from headway.base.tensors import read_tensors
from headway.interop import llama_cpp
from headway.interop.chat_templates import TEMPLATE_FILE
from headway.interop.folder_settings import NO_SETTINGS, FolderSettings
from headway.interop.gguf_families import FAMILIES, FRACTION, ROTATED, names_there
from headway.interop.gguf_tokenizer import vocabulary
from headway.interop.hf_export import (
    check_same_ids,
    verification_texts,
    write_text_model,
)
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

PROMPTS, LONGEST, STEPS, TOP = 6, 24, 8, 1000
"""Number and greatest length of the random prompts, the tokens that are written after each, and how
many of the most probable tokens are compared at each step."""


@dataclass(frozen=True, kw_only=True)
class ExportedGGUF:
    """The result of an export.

    folder: where the file `model.gguf` is. architecture: llama.cpp's name of the family. dtype: the
    numbers of the matrices. difference: maximum absolute difference, in nats, between the
    log-probabilities of tokens by the model and by llama.cpp in float32. rounding: the same for the
    numbers that were written. texts: number of texts that were verified to have equal ids. steps:
    number of tokens whose distribution was compared. runtime: the version of the package that ran
    llama.cpp.
    """

    folder: Path
    architecture: str
    dtype: str
    difference: float
    rounding: float
    texts: int
    steps: int
    runtime: str


def export_gguf(
    model: GPT,
    tokenizer: TextTokenizer,
    folder: str | Path,
    dtype: str = "float32",
    settings: FolderSettings = NO_SETTINGS,
) -> ExportedGGUF:
    """Write `model.gguf` into a new folder, and verify it in llama.cpp; on any error no folder is
    left.

    The model is first written in float32. llama.cpp's ids must be the tokenizer's for texts with
    unusual characters, and its log-probabilities those of the model: by at most 1e-4 (5e-3 for a
    GPT-2, whose activation it rounds to float16). It also writes the same most probable tokens,
    unless two are equally probable. dtype: a key of `FORMATS`. settings: those of the pretrained
    folder that the model is from; its chat template is written, too. Raises UsageError for a model
    or tokenizer that cannot be represented, with all reasons, for a folder that exists and if the
    packages are not installed; HeadwayError if the verification fails.
    """
    folder = Path(folder)
    if dtype not in FORMATS:
        raise UsageError(f"unknown dtype {dtype}", hint=f"one of: {', '.join(FORMATS)}")
    package = _package()
    kind = _kind(model)
    with TemporaryDirectory() as scratch, new_folder(folder) as temporary:
        hugging_face = Path(scratch, "hf")
        write_text_model(model, tokenizer, hugging_face, kind, settings=settings)
        file = temporary / FILE
        _write(package, hugging_face, file, tokenizer, "float32")
        texts, prompts = verification_texts(tokenizer), _prompts(model, tokenizer)
        answer = _run(file, texts, prompts, model.config.max_length, folder)
        for text, ids in zip(texts, answer["ids"], strict=True):
            check_same_ids(text, tokenizer.encode(text), ids, str(folder))
        difference = _compare(model, prompts, answer, folder, FAMILIES[kind].tolerance)
        rounding = difference
        if dtype != "float32":
            file.unlink()
            _write(package, hugging_face, file, tokenizer, dtype)
            answer = _run(file, [], prompts, model.config.max_length, folder)
            rounding = _difference(_log_p(model, prompts, answer), answer)
    return ExportedGGUF(
        folder=folder,
        architecture=FAMILIES[kind].architecture,
        dtype=dtype,
        difference=difference,
        rounding=rounding,
        texts=len(texts),
        steps=sum(map(len, answer["tokens"])),
        runtime=f"xllamacpp {answer['version']}",
    )


def _kind(model: GPT) -> str:
    """Return the family of a model. Raises UsageError if a GGUF file cannot have it."""
    kind = fitting(model.config, None).model_type
    if kind not in FAMILIES:
        raise UsageError(
            f"this model is a {kind}, which cannot be exported to GGUF: llama.cpp's families are "
            f"{', '.join(FAMILIES)}",
            hint="headway export RUN --to hf writes a folder for other libraries",
        )
    options = [one for one in model.config.options if not FAMILIES[kind].has(one)]
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
    for key, names in family.keys.items():
        if (value := config.get(key)) is None:
            continue
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


def _prompts(model: GPT, tokenizer: TextTokenizer) -> list[list[int]]:
    """Return random prompts of different lengths without special tokens."""
    generator = torch.Generator().manual_seed(0)
    longest = min(LONGEST, model.config.max_length - STEPS)
    special = {tokenizer.bos, *tokenizer.ends}
    ids = [i for i in range(tokenizer.size) if i not in special]
    rows = torch.randint(len(ids), (PROMPTS, max(1, longest)), generator=generator).tolist()
    return [[ids[i] for i in row[: max(1, longest - 3 * n)]] for n, row in enumerate(rows)]


def _run(
    file: Path, texts: Sequence[str], prompts: list[list[int]], context: int, folder: Path
) -> llama_cpp.Answer:
    """Ask llama.cpp in a process of its own. Raises HeadwayError if it cannot run the file."""
    answer = file.with_suffix(".json")
    question: llama_cpp.Question = {
        "file": str(file),
        "texts": list(texts),
        "prompts": prompts,
        "steps": STEPS,
        "top": TOP,
        "context": context,
        "answer": str(answer),
    }
    program = [sys.executable, "-P", str(Path(llama_cpp.__file__))]
    done = subprocess.run(program, input=json.dumps(question), capture_output=True, text=True)
    if done.returncode or not answer.exists():
        lines = done.stderr.strip().splitlines()
        why = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
        raise HeadwayError(
            f"llama.cpp cannot run the file: {why[:300]}; the folder was removed", str(folder)
        )
    found: llama_cpp.Answer = json.loads(answer.read_text())
    answer.unlink()
    return found


def _compare(
    model: GPT,
    prompts: Sequence[Sequence[int]],
    answer: llama_cpp.Answer,
    folder: Path,
    tolerance: float,
) -> float:
    """Return the maximum difference of log-probabilities.

    Raises HeadwayError if it is more than `tolerance`, or if llama.cpp writes a token that is less
    probable than another by more than that.
    """
    log_p = _log_p(model, prompts, answer)
    difference = _difference(log_p, answer)
    if not difference <= tolerance:  # NaN is no success
        raise HeadwayError(
            f"the log-probabilities differ by {difference:.2g} between the model and llama.cpp, "
            f"more than {tolerance:g}; the folder was removed",
            str(folder),
        )
    for ours, tokens in zip(log_p, answer["tokens"], strict=True):
        behind = ours.max(-1).values - ours.gather(-1, torch.tensor(tokens)[:, None])[:, 0]
        if not float(behind.max()) <= 2 * tolerance:
            raise HeadwayError(
                "llama.cpp writes other tokens than the model; the folder was removed", str(folder)
            )
    return difference


@torch.no_grad()
def _log_p(model: GPT, prompts: Sequence[Sequence[int]], answer: llama_cpp.Answer) -> list[Tensor]:
    """Return the model's log-probabilities (steps V) at llama.cpp's steps after each prompt."""
    read = [
        ([*prompt, *tokens[:-1]], len(prompt) - 1)
        for prompt, tokens in zip(prompts, answer["tokens"], strict=True)
    ]
    return [model(torch.tensor([ids]))[0, first:].log_softmax(-1) for ids, first in read]


def _difference(log_p: Sequence[Tensor], answer: llama_cpp.Answer) -> float:
    """Return the maximum absolute difference over the most probable tokens of every step.

    log_p: the model's log-probabilities, by `_log_p`.
    """
    largest = 0.0
    for ours, steps in zip(log_p, answer["log_p"], strict=True):
        for row, step in zip(ours, steps, strict=True):
            ids = torch.tensor([token for token, _ in step], dtype=torch.long)
            theirs = torch.tensor([log_p for _, log_p in step])
            largest = max([largest, *(row[ids] - theirs).abs().tolist()])
    return largest
