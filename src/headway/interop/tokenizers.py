"""The tokenizer of somebody else's folder: tokenizer.json, or GPT-2's two files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from headway.errors import DataError
from headway.files import read_bytes, read_json
from headway.text import ForeignTokenizer
from headway.text.foreign import FILE, FILE_LIMIT

ENDS = {"bos": ("bos_token", "bos_token_id"), "eos": ("eos_token", "eos_token_id")}
NAMED = ("tokenizer_config.json", "special_tokens_map.json")
NUMBERED = ("generation_config.json", "config.json")


def read_tokenizer(folder: str | Path) -> ForeignTokenizer:
    """The tokenizer of a Hugging Face folder, and which tokens begin and end a text.

    Where only one of the two is named, it serves as both (GPT-2's <|endoftext|>). DataError if
    there is no tokenizer file that can be read here, or nothing says how a text ends.
    """
    folder = Path(folder)
    if (folder / FILE).is_file():
        content = read_json(folder / FILE, FILE_LIMIT)
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        content = _of_two_files(folder)
    else:
        raise DataError(
            f"there is no {FILE}, nor vocab.json with merges.txt",
            str(folder),
            "save the tokenizer beside the model: tokenizer.save_pretrained(folder)",
        )
    engine = _engine(content, str(folder / FILE))
    found = {end: _token(engine, folder, *keys) for end, keys in ENDS.items()}
    bos, eos = found["bos"], found["eos"]
    if bos is None and eos is None:
        raise DataError(
            f"nothing says which token ends a text: neither {', '.join((*NAMED, *NUMBERED))}",
            str(folder),
            'add "eos_token" to tokenizer_config.json',
        )
    first, last = (eos if bos is None else bos), (bos if eos is None else eos)
    assert first is not None and last is not None
    return ForeignTokenizer.of_json(content, first, last, str(folder / FILE))


def _engine(content: Any, where: str) -> tokenizers.Tokenizer:

    try:
        return tokenizers.Tokenizer.from_str(json.dumps(content))
    except Exception as error:  # the engine raises bare Exception for every fault in a file
        raise DataError(f"not a usable tokenizer: {error}", where) from error


def _token(engine: tokenizers.Tokenizer, folder: Path, name: str, number: str) -> int | None:
    """The id of a special token, from the first file that says it."""
    for file in (f for f in NAMED if (folder / f).is_file()):
        value = _facts(folder / file).get(name)
        spelled = value.get("content") if isinstance(value, dict) else value
        if isinstance(spelled, str):
            found = engine.token_to_id(spelled)
            if found is None:
                raise DataError(
                    f"{name}={spelled!r} is no token of the tokenizer", str(folder / file)
                )
            return int(found)
    for file in (f for f in NUMBERED if (folder / f).is_file()):
        value = _facts(folder / file).get(number)
        first = value[0] if isinstance(value, list) and value else value
        if type(first) is int:
            return first
    return None


def _facts(path: Path) -> dict[str, Any]:
    values = read_json(path)
    if not isinstance(values, dict):
        raise DataError("must be names and values", str(path))
    return values


def _of_two_files(folder: Path) -> dict[str, Any]:
    """GPT-2's own form: the pieces and the order in which they were joined."""
    vocabulary = read_json(folder / "vocab.json", FILE_LIMIT)
    where = str(folder / "merges.txt")
    try:
        lines = read_bytes(folder / "merges.txt", FILE_LIMIT).decode().split("\n")
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8", where) from error
    pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    if any(len(pair) != 2 for pair in pairs):
        raise DataError("each line must be two pieces with a space between them", where)
    try:
        merges = [(first, second) for first, second in pairs]
        engine = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # the engine raises bare Exception for every fault in a file
        raise DataError(f"not a usable vocabulary: {error}", str(folder)) from error
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    if "<|endoftext|>" in vocabulary:
        engine.add_special_tokens(["<|endoftext|>"])

    content: dict[str, Any] = json.loads(engine.to_str())
    return content
