"""Folders of sentence-transformers, read and written: which of their parts is the encoder, and how
its vectors become one for a text. Reimers and Gurevych 2019."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.blocks import Pooling
from headway.errors import DataError
from headway.files import read_json, write_file
from headway.interop.hf_config import Facts

FILE = "modules.json"
LENGTH_FILE = "sentence_bert_config.json"
FIRST = "0_Transformer"
POOLINGS: dict[str, Pooling] = {"mean": "mean", "cls": "first"}
LENGTH = "max_seq_length"
SHORTEST = 3  # tokens, two of them marks
_MODE = "pooling_mode_"
_MODES = {"mean_tokens": "mean", "cls_token": "cls"}


@dataclass(frozen=True)
class SentenceFolder:
    """encoder: the folder of the Transformer itself. pooling: how its vectors become one. length:
    tokens of a text that are read, marks included; None where nothing is said."""

    encoder: Path
    pooling: Pooling = "mean"
    length: int | None = None


def read_sentence_folder(folder: Path) -> SentenceFolder:
    """What modules.json says, here or above the folder 0_Transformer; a folder without one is an
    encoder alone.

    DataError for vectors that are made in a way which is not here.
    """
    if folder.name == FIRST and (folder.parent / FILE).is_file():
        folder = folder.parent
    path = folder / FILE
    if not path.is_file():
        return SentenceFolder(folder)
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(each, dict) for each in modules):
        raise DataError("must be a list of modules", str(path))
    encoder, pooling = folder, POOLINGS["mean"]
    for number, module in enumerate(modules):
        kind = str(module.get("type")).rpartition(".")[2]
        if kind == "Transformer" and number == 0:
            encoder = _inside(folder, module, path)
        elif kind == "Pooling":
            pooling = _pooling(_inside(folder, module, path) / "config.json")
        elif kind != "Normalize":
            raise DataError(
                f"its vectors pass through {kind!r}, which is not here",
                str(path),
                "Transformer, Pooling and Normalize are; without the file it is an encoder alone",
            )
    return SentenceFolder(encoder, pooling, _length(encoder / LENGTH_FILE))


def write_sentence_folder(folder: Path, width: int, how: SentenceFolder) -> None:
    """Put the files beside an encoder's that make sentence-transformers give `how`'s vectors, of
    length 1. width: numbers of a vector."""
    names = ("", "1_Pooling", "2_Normalize")
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    pooling: dict[str, Any] = {"word_embedding_dimension": width}
    for mode, name in _MODES.items():
        pooling[_MODE + mode] = POOLINGS[name] == how.pooling
    (folder / names[1]).mkdir()
    _write(folder / names[1] / "config.json", pooling)
    _write(folder / LENGTH_FILE, {LENGTH: how.length, "do_lower_case": False})
    _write(folder / FILE, modules)


def _write(path: Path, content: Any) -> None:
    write_file(path, (json.dumps(content, indent=2) + "\n").encode())


def _inside(folder: Path, module: dict[str, Any], path: Path) -> Path:
    """Where a module's files lie: the folder or one in it, and nowhere else."""
    name = module.get("path")
    if not isinstance(name, str) or name in (".", "..") or "/" in name or "\\" in name:
        raise DataError(f"path {name!r}: must be the name of a folder beside it", str(path))
    return folder / name


def _pooling(path: Path) -> Pooling:
    facts = Facts.load(path)
    asked = facts.values.get("pooling_mode")  # in later versions by its name
    if asked is None:
        keys = [key for key, value in facts.values.items() if key.startswith(_MODE) and value]
        names = [key.removeprefix(_MODE) for key in keys]
        asked = "+".join(_MODES.get(name, name) for name in names) or "mean"
    if asked not in POOLINGS:
        raise DataError(f"vectors are pooled by {asked!r}", str(path), "mean and cls are known")
    return POOLINGS[asked]


def _length(path: Path) -> int | None:
    if not path.is_file():
        return None
    facts = Facts.load(path)
    if LENGTH not in facts.values:
        return None
    length = facts.whole(LENGTH)
    if length < SHORTEST:
        raise facts.refusal(LENGTH, length, f"{SHORTEST} or more: two are marks")
    return length
