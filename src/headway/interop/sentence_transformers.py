"""Read and write folders of sentence-transformers: the encoder, and the pooling of its vectors.
Reimers and Gurevych 2019."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.blocks import Pooling
from headway.errors import DataError
from headway.files import read_json, write_file
from headway.interop.hf_config import HFConfig

FILE = "modules.json"
LENGTH_FILE = "sentence_bert_config.json"
FIRST = "0_Transformer"
POOLINGS: dict[str, Pooling] = {"mean": "mean", "cls": "first"}
LENGTH = "max_seq_length"
SHORTEST = 3  # tokens, of which two are special tokens
_MODE = "pooling_mode_"
_MODES = {"mean_tokens": "mean", "cls_token": "cls"}


@dataclass(frozen=True)
class SentenceFolder:
    """The parts of a sentence-transformers folder.

    encoder: the folder of the Transformer. pooling: reduces its vectors to one per text. length:
    maximum number of tokens of a text, special tokens included; None if not specified.
    """

    encoder: Path
    pooling: Pooling = "mean"
    length: int | None = None


def read_sentence_folder(folder: Path) -> SentenceFolder:
    """Read modules.json of a folder, or of its parent if the folder is 0_Transformer. A folder
    without modules.json is an encoder alone.

    Raises DataError for a module or a pooling that is not supported.
    """
    if folder.name == FIRST and (folder.parent / FILE).is_file():
        folder = folder.parent
    path = folder / FILE
    if not path.is_file():
        return SentenceFolder(folder)
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(item, dict) for item in modules):
        raise DataError("must be a list of modules (JSON objects)", str(path))
    encoder, pooling = folder, POOLINGS["mean"]
    for number, module in enumerate(modules):
        kind = str(module.get("type")).rpartition(".")[2]
        if kind == "Transformer" and number == 0:
            encoder = _inside(folder, module, path)
        elif kind == "Pooling":
            pooling = _pooling(_inside(folder, module, path) / "config.json")
        elif kind != "Normalize":
            raise DataError(
                f"module {number} is {kind!r}, which is not supported at this position",
                str(path),
                "supported are Transformer (first), Pooling and Normalize; remove the file to "
                "use the encoder alone",
            )
    return SentenceFolder(encoder, pooling, _length(encoder / LENGTH_FILE))


def write_sentence_folder(folder: Path, width: int, how: SentenceFolder) -> None:
    """Add the files to an encoder's folder with which sentence-transformers computes the same
    vectors, normalised to length 1.

    width: dimension of the vectors. how: pooling and maximum length (its `encoder` is not used).
    """
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
    """Return the folder of a module: `folder` or a folder in it."""
    name = module.get("path")
    if not isinstance(name, str) or name in (".", "..") or "/" in name or "\\" in name:
        raise DataError(
            f"path {name!r}: must be the name of a folder in the same folder", str(path)
        )
    return folder / name


def _pooling(path: Path) -> Pooling:
    config = HFConfig.load(path)
    mode = config.values.get("pooling_mode")  # its name, in later versions
    if mode is None:
        keys = [key for key, value in config.values.items() if key.startswith(_MODE) and value]
        names = [key.removeprefix(_MODE) for key in keys]
        mode = "+".join(_MODES.get(name, name) for name in names) or "mean"
    if mode not in POOLINGS:
        raise DataError(
            f"pooling {mode!r} is not supported", str(path), "supported are mean and cls"
        )
    return POOLINGS[mode]


def _length(path: Path) -> int | None:
    if not path.is_file():
        return None
    config = HFConfig.load(path)
    if LENGTH not in config.values:
        return None
    length = config.whole(LENGTH)
    if length < SHORTEST:
        raise config.refusal(LENGTH, length, f"{SHORTEST} or more, two of which are special tokens")
    return length
