"""Data sets that can be had without a network: they lie in installed packages."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import Counter
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from headway.errors import DataError, UsageError
from headway.files import new_folder, read_json, verify_folder, write_file

DATASETS = {"emoji-names": "names of emoji in English and 12 other languages (Unicode CLDR)"}
TEST_SHARE, VALID_SHARE = 0.10, 0.05
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Fetched:
    """What lies in `folder` now. counts: pairs a split; dropped: duplicates left out."""

    folder: Path
    counts: dict[str, int]
    dropped: int
    reused: bool

    def __str__(self) -> str:
        sizes = " · ".join(f"{count:,} {name}" for name, count in self.counts.items())
        how = "already there" if self.reused else f"{self.dropped:,} duplicates dropped"
        return (
            f"data      {self.folder}: {sizes} pairs ({how})\n"
            "          split by the hash of the English name: no name stands in two splits, but "
            "their parts do,\n          so held-out scores measure new combinations of known words"
        )


def fetch_emoji_names(target: str, folder: Path) -> Fetched:
    """train.tsv, valid.tsv and test.tsv with columns emoji, en, `target`, from package `emoji`.

    An existing folder is reused if it is complete and was made for `target`, and never changed
    otherwise.
    """
    if folder.exists():
        return _reuse(folder, target)
    places = _package() / "unicode_codes"
    available = sorted(p.stem.removeprefix("emoji_") for p in places.glob("emoji_*.json"))
    if target not in available:
        raise UsageError(
            f"emoji-names has no language {target!r}", hint="one of: " + " ".join(available)
        )
    english = read_json(places / "emoji.json")
    translated = read_json(places / f"emoji_{target}.json")
    rows: dict[str, tuple[str, str, str]] = {}
    read = 0
    for symbol, facts in english.items():
        names = _name(facts.get("en")), _name(translated.get(symbol))
        if names[0] and names[1]:
            read += 1
            rows.setdefault(names[0], (symbol, *names))
    counts: Counter[str] = Counter()
    tables = {split: [f"emoji\ten\t{target}"] for split in SPLITS}
    for name, row in rows.items():
        split = _split(name)
        counts[split] += 1
        tables[split].append("\t".join(row))
    with new_folder(folder) as place:
        for split, lines in tables.items():
            write_file(place / f"{split}.tsv", ("\n".join(lines) + "\n").encode())
        facts = {"dataset": "emoji-names", "target": target, "dropped": read - len(rows)}
        write_file(place / "about.json", json.dumps(facts).encode())
    return Fetched(folder, {s: counts[s] for s in SPLITS}, read - len(rows), reused=False)


def _reuse(folder: Path, target: str) -> Fetched:
    about = folder / "about.json"
    facts = read_json(about) if about.is_file() else {}
    if facts.get("dataset") != "emoji-names" or facts.get("target") != target:
        raise UsageError(
            f"{folder} exists and is not emoji-names for {target!r}",
            hint="choose another folder with --output",
        )
    verify_folder(folder)
    counts = {s: (folder / f"{s}.tsv").read_bytes().count(b"\n") - 1 for s in SPLITS}
    return Fetched(folder, counts, facts["dropped"], reused=True)


def _package() -> Path:
    found = util.find_spec("emoji")
    if found is None or found.origin is None:
        raise UsageError("the package emoji is not installed", hint="pip install 'headway[demo]'")
    return Path(found.origin).parent


def _name(raw: object) -> str:
    """`:woman_astronaut:` -> `woman astronaut`."""
    if raw is None:
        return ""
    if not isinstance(raw, str):
        raise DataError(f"an emoji name that is no text: {raw!r}")
    words = raw.strip(":").replace("_", " ").split()
    return unicodedata.normalize("NFC", " ".join(words))


def _split(name: str) -> str:
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
    return (
        "test" if place < TEST_SHARE else "valid" if place < TEST_SHARE + VALID_SHARE else "train"
    )
