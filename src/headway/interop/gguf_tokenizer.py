"""The tokenizer of a language model as llama.cpp has it, in the metadata of a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from headway.base.errors import UsageError
from headway.base.files import read_json
from headway.interop.hf_export import TOKENIZER_FILE, prefix_ids
from headway.text import PretrainedTokenizer, TextTokenizer

WHITESPACE = "\u2581"  # SentencePiece's mark of a space


_SPLITS = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt-2",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+": "llama-bpe",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+": "qwen2",
}
"""The expression by which a byte-level BPE splits a text into words -> llama.cpp's name of it."""


def vocabulary(
    package: Any, hugging_face: Path, tokenizer: TextTokenizer, size: int
) -> dict[str, object]:
    """Return the tokenizer as GGUF has it: the function of its writer -> the value.

    Raises UsageError for a tokenizer that llama.cpp does not have.
    """
    content = read_json(hugging_face / TOKENIZER_FILE)
    assert isinstance(content, dict)
    kinds = package.TokenType
    engine = PretrainedTokenizer.engine_of(content, str(hugging_face))
    added = {
        token["id"]: kinds.CONTROL if token["special"] else kinds.USER_DEFINED
        for token in content["added_tokens"]
    }
    names, types = [], []
    for i in range(size):
        name = engine.id_to_token(i)
        names.append(f"<unused {i}>" if name is None else name)
        types.append(int(kinds.UNUSED if name is None else added.get(i, kinds.NORMAL)))
    prefix = prefix_ids(tokenizer)
    if prefix not in ([], [tokenizer.bos]):
        _refuse(f"begins a text with the tokens {prefix}")
    shared: dict[str, object] = {
        "add_token_types": types,
        "add_bos_token_id": tokenizer.bos,
        "add_eos_token_id": tokenizer.eos,
        "add_add_bos_token": bool(prefix),
        "add_add_eos_token": False,
        "add_add_space_prefix": False,
    }
    model = content["model"]
    if model["type"] != "BPE" or content.get("normalizer") is not None:
        _refuse(f"is a {model['type']} model or changes texts before it splits them")
    if content.get("pre_tokenizer") is None:
        return shared | _characters(model, names, types)
    return shared | {
        "add_tokenizer_model": "gpt2",
        "add_tokenizer_pre": _split(content["pre_tokenizer"]),
        "add_token_list": names,
        "add_token_merges": [m if isinstance(m, str) else " ".join(m) for m in model["merges"]],
    }


def _characters(
    model: Mapping[str, Any], names: Sequence[str], types: Sequence[int]
) -> dict[str, object]:
    """Single characters are a SentencePiece model whose pieces are never merged."""
    if model["merges"]:
        _refuse("merges characters without splitting the text into words first")
    return {
        "add_tokenizer_model": "llama",
        "add_tokenizer_pre": "default",
        "add_token_list": [name.replace(" ", WHITESPACE) for name in names],
        "add_token_scores": [0.0] * len(names),
        "add_remove_extra_whitespaces": False,
    }


def _split(splitter: Mapping[str, Any]) -> str:
    """Return llama.cpp's name of the way in which the tokenizer splits a text into words."""
    parts = splitter.get("pretokenizers", [splitter])
    kinds = [part["type"] for part in parts]
    if kinds == ["ByteLevel"] and parts[0]["use_regex"] and not parts[0]["add_prefix_space"]:
        return "gpt-2"
    if kinds == ["Split", "ByteLevel"] and not parts[1]["use_regex"]:
        pattern = parts[0]["pattern"].get("Regex")
        if pattern in _SPLITS and parts[0]["behavior"] == "Isolated" and not parts[0]["invert"]:
            return _SPLITS[pattern]
    _refuse(f"splits texts into words by {json.dumps(splitter)[:200]}")


def _refuse(what: str) -> NoReturn:
    raise UsageError(
        f"this tokenizer cannot be represented in a GGUF file: it {what}",
        hint="llama.cpp has byte-level BPE, split as GPT-2, Llama 3 or Qwen 2 do, and characters",
    )
