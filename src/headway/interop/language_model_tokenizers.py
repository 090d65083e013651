"""The tokenizer of a language model's Hugging Face folder: tokenizer.json, or GPT-2's two
files."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from headway.errors import DataError, HeadwayWarning
from headway.files import read_bytes, read_json
from headway.text import AbsentTokenizer, ForeignTokenizer
from headway.text.hf_tokenizer import FILE, FILE_LIMIT

VOCABULARY_FILE, MERGES_FILE = "vocab.json", "merges.txt"
NAMES_FILES = ("tokenizer_config.json", "special_tokens_map.json")
IDS_FILES = ("generation_config.json", "config.json")
END = "<|endoftext|>"


def read_tokenizer(folder: str | Path) -> ForeignTokenizer | AbsentTokenizer:
    """The tokenizer of `tokenizer.json`, or of GPT-2's `vocab.json` and `merges.txt`; without these
    files an `AbsentTokenizer`.

    Which tokens begin and end a text is said by name in tokenizer_config.json or
    special_tokens_map.json, else by id in generation_config.json or config.json; one that is
    nowhere is the other. An id that the tokenizer does not have is ignored, with a HeadwayWarning.
    DataError names the file that is damaged or too large.
    """
    folder = Path(folder)
    if (folder / FILE).exists():
        content = read_json(folder / FILE, FILE_LIMIT)
        engine = ForeignTokenizer.engine_of(content, str(folder / FILE))
        return ForeignTokenizer(engine, *_ends(folder, engine.get_vocab()))
    if (folder / VOCABULARY_FILE).exists() and (folder / MERGES_FILE).exists():
        return _two_files(folder)
    needed = f"put {FILE} there, or GPT-2's {VOCABULARY_FILE} and {MERGES_FILE}"
    return AbsentTokenizer(DataError("there is no tokenizer", str(folder), needed))


def _two_files(folder: Path) -> ForeignTokenizer:
    """GPT-2's, with what its settings put before a text."""
    engine = byte_level(folder, "GPT-2", ("GPT2Tokenizer", "GPT2TokenizerFast", "gpt2"))
    vocabulary = engine.get_vocab()
    bos, eos = _ends(folder, vocabulary, vocabulary.get(END))
    if told(folder / NAMES_FILES[0]).get("add_bos_token") is True:
        name = str(engine.id_to_token(bos))
        engine.post_processor = processors.TemplateProcessing(
            single=[name, "$A"], special_tokens=[(name, bos)]
        )
    return ForeignTokenizer(engine, bos, eos)


def byte_level(folder: Path, maker: str, names: Collection[str]) -> tokenizers.Tokenizer:
    """Byte-level BPE of `vocab.json` and `merges.txt`, as `maker` splits text.

    names: its tokenizers and models. DataError for other models' files.
    """
    facts = told(folder / NAMES_FILES[0])
    named = facts.get("tokenizer_class") or told(folder / "config.json").get("model_type")
    if named is not None and named not in list(names):
        raise DataError(
            f"{VOCABULARY_FILE} and {MERGES_FILE} of {str(named)[:80]!r}, which may split text in "
            f"another way than {maker}",
            str(folder),
            f"put its {FILE} there",
        )
    vocabulary = vocabulary_of(folder / VOCABULARY_FILE)
    merges = merges_of(folder / MERGES_FILE)
    try:
        engine = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # the engine raises bare Exception for a merge that is no piece
        why = f"does not go with {VOCABULARY_FILE}: {error}"
        raise DataError(why, str(folder / MERGES_FILE)) from error
    space = facts.get("add_prefix_space") is True
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    engine.decoder = decoders.ByteLevel()
    return engine


def vocabulary_of(path: Path) -> dict[str, int]:
    """The pieces of a byte-level BPE and their ids."""
    vocabulary = read_json(path, FILE_LIMIT)
    if not isinstance(vocabulary, dict) or not vocabulary:
        raise DataError("must be pieces and their ids", str(path))
    ids = list(vocabulary.values())
    if any(type(i) is not int for i in ids) or sorted(ids) != list(range(len(ids))):
        raise DataError(f"the ids are not 0 .. {len(ids) - 1}", str(path))
    absent = [letter for letter in pre_tokenizers.ByteLevel.alphabet() if letter not in vocabulary]
    if absent:
        why = f"{len(absent)} of the 256 bytes have no piece: not GPT-2's byte-level BPE"
        raise DataError(why, str(path), f"put its {FILE} there")
    return vocabulary


def merges_of(path: Path) -> list[tuple[str, str]]:
    """Two pieces a line, after a line with the version."""
    try:
        lines = read_bytes(path, FILE_LIMIT).decode().split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error}", str(path)) from error
    merges = []
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix("\r")
        if not text or (number == 1 and text.startswith("#version")):
            continue
        left, space, right = text.partition(" ")
        if not (left and space and right) or " " in right:
            raise DataError(f"{text[:80]!r} is not two pieces", f"{path}:{number}")
        merges.append((left, right))
    return merges


def told(path: Path) -> dict[str, Any]:
    """Names and values of a JSON file; none if there is no file."""
    if not path.exists():
        return {}
    values = read_json(path)
    if not isinstance(values, dict):
        raise DataError("must be names and values", str(path))
    return values


def _ends(folder: Path, vocabulary: Mapping[str, int], usual: int | None = None) -> tuple[int, int]:
    """bos and eos; `usual` for what no file says."""
    bos, eos = (_end(folder, vocabulary, name) for name in ("bos_token", "eos_token"))
    bos, eos = bos if bos is not None else eos, eos if eos is not None else bos
    bos, eos = bos if bos is not None else usual, eos if eos is not None else usual
    if bos is None or eos is None:
        raise DataError(
            "no file says which token begins or ends a text",
            str(folder),
            f"name bos_token or eos_token in {NAMES_FILES[0]}",
        )
    return bos, eos


def piece_named(folder: Path, vocabulary: Mapping[str, int], name: str) -> int | None:
    """The id of the piece that the folder's files call so (`eos_token`); None if they do not."""
    for file in NAMES_FILES:
        value = told(folder / file).get(name)
        piece = value.get("content") if isinstance(value, dict) else value
        if value is None:
            continue
        if not isinstance(piece, str) or piece not in vocabulary:
            why = f"{name}={str(value)[:80]}: must be a piece of the tokenizer"
            raise DataError(why, str(folder / file))
        return vocabulary[piece]
    return None


def _end(folder: Path, vocabulary: Mapping[str, int], name: str) -> int | None:
    found = piece_named(folder, vocabulary, name)
    if found is not None:
        return found
    for file in IDS_FILES:
        ids = told(folder / file).get(f"{name}_id")
        # several may end a text: the first is the usual one
        for number in ids if isinstance(ids, list) else [ids]:
            if number is None:
                continue
            if type(number) is not int:
                why = f"{name}_id={str(number)[:80]}: must be an id of the tokenizer"
                raise DataError(why, str(folder / file))
            if number in vocabulary.values():
                return number
            text = f"{name}_id={number} is ignored: the tokenizer has no token with this id"
            warnings.warn(f"{folder / file}: {text}", HeadwayWarning, stacklevel=2)
    return None
