"""Small data sets that a person already has on disk, inside an installed package: no network here.

`DATASETS` maps the name that `headway data fetch` takes to what it does.
"""

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headway.data import shakespeare
from headway.data.shakespeare import FetchedTexts, fetch_shakespeare
from headway.errors import DataError, HeadwayError, UsageError
from headway.files import read_json, write_file
from headway.folders import new_folder, verify_folder

SPLITS = ("train", "valid", "test")
FACTS_FILE = "dataset.json"
_EMOJI_NAMES = "emoji-names"


@dataclass(frozen=True)
class Fetched:
    """What stands in `folder`: pairs per split, names left out by reason, and the package's
    version.

    `reused` is True when the folder was complete already and nothing was written.
    """

    folder: Path
    target: str
    pairs: dict[str, int]
    skipped: dict[str, int]
    version: str
    reused: bool


@dataclass(frozen=True)
class Dataset:
    """A fetchable data set: one sentence about it, and fetch(target language, folder)."""

    about: str
    fetch: Callable[[str, Path], Fetched | FetchedTexts]


def fetch_emoji_names(target: str, folder: Path) -> Fetched:
    """English names of emoji and their names in `target`, as three tables in the new `folder`.

    The tables have the columns `emoji`, `en` and `target`. About 10 % of the names are for test and
    5 % for valid, chosen by the sha256 of the English name, so that no name stands in two tables
    and a newer package moves none. Names are NFC, with spaces for underscores. Dropped and counted:
    "duplicate" (an English name seen before: several forms of one emoji share it) and "no name".

    A complete folder of the same language is reused. Raises UsageError when the package or the
    language is missing, or when `folder` holds something else, which is never overwritten.
    """
    codes = _emoji_codes()
    languages = sorted(path.stem.removeprefix("emoji_") for path in codes.glob("emoji_*.json"))
    if target not in languages:
        raise UsageError(
            f"no emoji names in the language {target!r}",
            hint=f"choose one of {' '.join(languages)}",
        )
    if folder.exists():
        return _reused(folder, target)
    rows, skipped = _emoji_rows(codes, target)
    tables: dict[str, list[str]] = {split: [f"emoji\ten\t{target}"] for split in SPLITS}
    for emoji, source, translation in rows:
        tables[_split_of(source)].append(f"{emoji}\t{source}\t{translation}")
    facts = {
        "dataset": _EMOJI_NAMES,
        "target": target,
        "version": _package_version("emoji"),
        "pairs": {split: len(table) - 1 for split, table in tables.items()},
        "skipped": skipped,
    }
    with new_folder(folder) as temporary:
        for split, table in tables.items():
            text = "".join(f"{row}\n" for row in table)
            write_file(temporary / f"{split}.tsv", text.encode("utf-8"))
        write_file(temporary / FACTS_FILE, json.dumps(facts, indent=2).encode("utf-8"))
    return _fetched(folder, facts, reused=False)


DATASETS: dict[str, Dataset] = {
    _EMOJI_NAMES: Dataset(
        about="names of about 3,900 emoji from English into one of 13 languages; a first toy",
        fetch=fetch_emoji_names,
    ),
    shakespeare.NAME: Dataset(
        about="9 MB of plays and poems in English, for a first language model; no target language",
        fetch=lambda _, folder: fetch_shakespeare(folder),
    ),
}


def fetch(name: str, target: str, folder: Path) -> Fetched | FetchedTexts:
    """Fetch the data set `name` of DATASETS. Raises UsageError, listing the names, for another."""
    if name not in DATASETS:
        raise UsageError(f"no data set {name!r}", hint=f"choose one of {' '.join(DATASETS)}")
    return DATASETS[name].fetch(target, folder)


def _emoji_codes() -> Path:
    # find_spec looks without importing: the package's import would read megabytes for nothing.
    spec = find_spec("emoji")
    if spec is None or spec.origin is None:
        raise UsageError(
            "the package emoji, which holds the names, is not installed",
            hint="pip install 'headway[demo]'",
        )
    codes = Path(spec.origin).parent / "unicode_codes"
    if not (codes / "emoji.json").is_file():
        raise UsageError(
            f"emoji {_package_version('emoji')} does not hold its names as JSON",
            where=str(codes),
            hint="pip install 'headway[demo]' installs a version that does",
        )
    return codes


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _emoji_rows(codes: Path, target: str) -> tuple[list[tuple[str, str, str]], dict[str, int]]:
    """Rows (emoji, English name, translation) in the package's order, and counts of those left
    out."""
    skipped = {"duplicate": 0, "no name": 0}
    rows: list[tuple[str, str, str]] = []
    seen: set[str] = set()
    for emoji, source, translation in _named(codes, target):
        if not source or not translation:
            skipped["no name"] += 1
        elif source in seen:
            skipped["duplicate"] += 1
        else:
            seen.add(source)
            rows.append((emoji, source, translation))
    return rows, skipped


def _named(codes: Path, target: str) -> Iterator[tuple[str, str, str]]:
    english_path, target_path = codes / "emoji.json", codes / f"emoji_{target}.json"
    english, translations = read_json(english_path), read_json(target_path)
    for path, content in ((english_path, english), (target_path, translations)):
        if not isinstance(content, dict):
            raise DataError("no JSON object", where=str(path), hint="reinstall the package emoji")
    for emoji, facts in english.items():
        name = facts.get("en") if isinstance(facts, dict) else None
        yield emoji, _plain(name), _plain(translations.get(emoji))


def _plain(name: Any) -> str:
    """`:thumbs_up:` -> `thumbs up`; tabs and newlines cannot survive. Anything but a string ->
    ""."""
    if not isinstance(name, str):
        return ""
    words = name.removeprefix(":").removesuffix(":").replace("_", " ").split()
    return unicodedata.normalize("NFC", " ".join(words))


def _split_of(source: str) -> str:
    share = int.from_bytes(hashlib.sha256(source.encode("utf-8")).digest()[:8], "big") % 100
    return "test" if share < 10 else "valid" if share < 15 else "train"


def _reused(folder: Path, target: str) -> Fetched:
    try:
        verify_folder(folder)
        facts = read_json(folder / FACTS_FILE)
        if facts["dataset"] == _EMOJI_NAMES and facts["target"] == target:
            return _fetched(folder, facts, reused=True)
        found = f"holds {facts['dataset']} for {facts['target']!r}"
    except HeadwayError as error:
        found = f"is not a complete fetched data set ({error.what})"
    except (KeyError, TypeError):
        found = f"has a {FACTS_FILE} that is not ours"
    raise UsageError(
        f"the folder exists already and {found}",
        where=str(folder),
        hint="give another folder, or remove this one yourself",
    )


def _fetched(folder: Path, facts: dict[str, Any], *, reused: bool) -> Fetched:
    return Fetched(
        folder=folder,
        target=facts["target"],
        pairs=dict(facts["pairs"]),
        skipped=dict(facts["skipped"]),
        version=facts["version"],
        reused=reused,
    )
