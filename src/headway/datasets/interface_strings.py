"""Texts of programs and their translations, from the message catalogues inside pinned wheels.

`ui_wheels.json` lists the wheels: open-source programs with a permissive licence. Their texts are
not part of Headway; they are collected on the user's machine, with the licences beside them.
"""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headway.base.errors import DataError, UsageError
from headway.base.files import check_new_file, json_bytes, make_folder, parse_json, write_file
from headway.base.folders import new_folder
from headway.data.split import SPLITS, split_of
from headway.datasets.descriptions import FILE, Fetched, reused
from headway.datasets.wheels import PinnedWheel, Progress, Wheel, download, read_pins
from headway.tasks.translation.documents.mo import mo_pairs
from headway.tasks.translation.documents.po import quoted
from headway.tasks.translation.placeholder_pattern import Placeholders, single_spaces

NAMES = {"ui-en-fr": "fr", "ui-en-de": "de"}
"""Name of a data set -> its target language."""

PINS = Path(__file__).with_name("ui_wheels.json")
SOURCES_FILE = "SOURCES.md"
_LICENCE = re.compile(r"[^/]+\.dist-info/(?:licenses/)?(?:LICEN[CS]E|COPYING|NOTICE|AUTHORS)[^/]*")
_WORD = re.compile(r"\w+")


def jed_pairs(data: bytes, where: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number, the source and the first form of the messages of a catalogue of a web page.

    It is an object of JSON in the form of Jed, from messages to the list of their plural forms; the
    key "" has the header, and a context is written before the message and the character U+0004, as
    in an MO file. It has no plural source, so further forms are left out. where: its name, in
    errors.
    Raises DataError, with the number of the message, for anything but such a catalogue.
    """
    catalogue = parse_json(data, where)
    if not isinstance(catalogue, dict):
        raise DataError("the catalogue must be a JSON object, but is another JSON value", where)
    for number, (key, forms) in enumerate(catalogue.items(), start=1):
        if not key:
            continue
        if not _is_forms(forms):
            raise DataError(
                "the value of a message must be a list of texts, its plural forms, but is "
                f"{type(forms).__name__}",
                f"{where}, message {number:,}",
                "write it as in the documentation of Jed",
            )
        source = key.rpartition("\4")[2]
        if source.strip() and forms and forms[0].strip():
            yield number, source, forms[0]


def _is_forms(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(form, str) for form in value)


_READERS = {".mo": mo_pairs, ".json": jed_pairs}


def _silent(done: int, total: int, following: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class StringOptions:
    """What `fetch_strings` collects.

    wheels: a folder that has the pinned wheels; if None, pip downloads them into a temporary
    folder. hold_out: a program whose messages all are in test, or None. progress: of the download.
    """

    wheels: Path | None = None
    hold_out: str | None = None
    progress: Progress = _silent


@dataclass(frozen=True)
class _Message:
    program: str
    source: str
    target: str

    @property
    def key(self) -> str:
        """The words of the source: messages that differ only in case or punctuation are in the same
        split."""
        return " ".join(_WORD.findall(self.source.casefold())) or self.source


def fetch_strings(name: str, folder: Path, options: StringOptions | None = None) -> Fetched:
    """Write the messages of programs as three tables with the columns program, en, and the target.

    name: one of NAMES. The folder also gets SOURCES.md, the licences, and a description.

    Each text has its white space joined to single spaces and is in Unicode NFC; placeholders stay
    as they are. Left out and counted: "empty" (a blank side), "duplicate" (the same pair occurred
    before), and "placeholders differ" (the translation lost or changed one). About 10 % of the
    messages are in test and 5 % in valid, chosen by the sha256 of the words of the source, so that
    no source, in whatever case and punctuation, is in two tables.

    With `options.hold_out`, messages of other programs with the same words as one of that program
    are left out ("in the held-out program"), and PROGRAM.po has its messages, untranslated.

    A complete folder of the same kind is reused. Raises UsageError for an unknown program, a
    missing wheel, or a `folder` with another content, which is never overwritten; HeadwayError if
    pip fails; DataError, with wheel and file, for a wheel that is not the pinned one or is damaged.
    """
    options = options or StringOptions()
    target, hold_out = NAMES[name], options.hold_out
    pins = [pin for pin in read_pins(PINS) if target in pin.languages]
    identity = {
        "dataset": name,
        "target": target,
        "hold_out": hold_out,
        "wheels": {pin.file: pin.sha256 for pin in pins},
    }
    programs = sorted({pin.program for pin in pins})
    _check_program(name, hold_out, programs)
    if folder.exists():
        return reused(folder, identity)
    make_folder(folder.parent)
    check_new_file(folder)
    strings = _collected(pins, target, options)
    messages, skipped = _chosen(strings.messages, hold_out)
    pairs = dict.fromkeys(SPLITS, 0) | Counter(_split(m, hold_out) for m in messages)
    _check_sizes(pairs)
    counted = dict.fromkeys(programs, 0) | Counter(m.program for m in messages)
    description = {**identity, "pairs": pairs, "programs": counted, "skipped": skipped}
    files = {
        **_tables(messages, target, hold_out),
        **strings.licences,
        SOURCES_FILE: _text(_sources(name, pins, counted)),
        FILE: json_bytes(description),
    }
    with new_folder(folder) as temporary:
        for path, content in files.items():
            (temporary / path).parent.mkdir(parents=True, exist_ok=True)
            write_file(temporary / path, content)
    return Fetched(folder, description)


def untranslated(fetched: Fetched) -> Path | None:
    """Return the PO file of the held-out program's messages, without translations, or None."""
    hold_out = fetched["hold_out"]
    return None if hold_out is None else fetched.folder / f"{hold_out}.po"


def describe(fetched: Fetched) -> list[str]:
    """Describe the messages: sizes, programs, and what was left out."""
    lines = [
        fetched.pairs_in_words,
        "by program: " + ", ".join(f"{name} {n:,}" for name, n in fetched["programs"].items()),
        f"licences and sources: {fetched.folder / SOURCES_FILE}",
    ]
    if (document := untranslated(fetched)) is not None:
        lines.append(
            f"test has all messages of {fetched['hold_out']}, and {document} has them without "
            "translations"
        )
    return lines


def _check_program(name: str, program: str | None, programs: Sequence[str]) -> None:
    if program is not None and program not in programs:
        raise UsageError(
            f"there is no program {program!r} in {name}",
            hint=f"choose one of {' '.join(programs)}",
        )


def _check_sizes(pairs: dict[str, int]) -> None:
    if not all(pairs.values()):
        sizes = ", ".join(f"{split} {count:,}" for split, count in pairs.items())
        raise DataError(f"every split must have messages, but they are: {sizes}", str(PINS))


@dataclass(frozen=True)
class _Strings:
    """The messages of wheels, and the licences by path."""

    messages: list[_Message]
    licences: dict[str, bytes]


def _collected(pins: Sequence[PinnedWheel], target: str, options: StringOptions) -> _Strings:
    if options.wheels is not None:
        return _read(pins, options.wheels, target)
    with tempfile.TemporaryDirectory() as folder:
        download(pins, Path(folder), options.progress)
        return _read(pins, Path(folder), target)


def _read(pins: Sequence[PinnedWheel], folder: Path, target: str) -> _Strings:
    strings = _Strings([], {})
    for pin in pins:
        wheel = Wheel(pin, folder)
        for name in _catalogues(wheel.names(), target):
            reader = _READERS[PurePosixPath(name).suffix]
            for _, source, translation in reader(wheel.read(name), wheel.where(name)):
                message = _Message(pin.program, _plain(source), _plain(translation))
                strings.messages.append(message)
        licences = [name for name in wheel.names() if _LICENCE.fullmatch(name)]
        if not licences:
            raise DataError("the wheel must contain its licence, but has none", str(wheel.path))
        for name in licences:
            path = f"licences/{pin.package}/{PurePosixPath(name).name}"
            strings.licences[path] = wheel.read(name)
    return strings


def _catalogues(names: Sequence[str], target: str) -> list[str]:
    """Return the catalogues of a language: LANGUAGE/LC_MESSAGES/*.mo, or .json without an .mo."""
    found: dict[str, str] = {}
    for name in sorted(names):
        path = PurePosixPath(name)
        if len(path.parts) < 3 or path.parts[-2] != "LC_MESSAGES" or path.suffix not in _READERS:
            continue
        language = path.parts[-3].lower().replace("-", "_")
        if language in (target, f"{target}_{target}"):
            # "x.json" is before "x.mo", which has the plurals too and replaces it.
            found[str(path.with_suffix(""))] = name
    return list(found.values())


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", single_spaces(text))


def _chosen(
    found: Sequence[_Message], hold_out: str | None
) -> tuple[list[_Message], dict[str, int]]:
    """Return the messages that are kept, and the number of the others by reason."""
    skipped = {"empty": 0, "duplicate": 0, "placeholders differ": 0}
    faults = Placeholders().faults
    kept: dict[tuple[str, str], _Message] = {}
    # Those of the held-out program first: a pair that others have too is a message of it.
    for message in sorted(found, key=lambda message: message.program != hold_out):
        pair = message.source, message.target
        if not all(pair):
            skipped["empty"] += 1
        elif pair in kept:
            skipped["duplicate"] += 1
        elif faults(*pair):
            skipped["placeholders differ"] += 1
        else:
            kept[pair] = message
    messages = list(kept.values())
    if hold_out is None:
        return messages, skipped
    held_out = {message.key for message in messages if message.program == hold_out}
    rest = [m for m in messages if m.program == hold_out or m.key not in held_out]
    return rest, {**skipped, "in the held-out program": len(messages) - len(rest)}


def _split(message: _Message, hold_out: str | None) -> str:
    split = split_of(message.key)
    if hold_out is None:
        return split
    if message.program == hold_out:
        return "test"
    return "valid" if split == "valid" else "train"


def _tables(messages: Sequence[_Message], target: str, hold_out: str | None) -> dict[str, bytes]:
    """Return the contents of the tables, and of the PO file of a held-out program, by name."""
    lines = {f"{split}.tsv": [f"program\ten\t{target}"] for split in SPLITS}
    for m in messages:
        lines[f"{_split(m, hold_out)}.tsv"].append(f"{m.program}\t{m.source}\t{m.target}")
    if hold_out is not None:
        held_out = [message for message in messages if message.program == hold_out]
        lines[f"{hold_out}.po"] = list(_untranslated(held_out, target))
    return {name: _text(of_file) for name, of_file in lines.items()}


def _untranslated(messages: Sequence[_Message], target: str) -> Iterator[str]:
    """Yield the lines of a PO file with the sources of messages, each once."""
    yield 'msgid ""\nmsgstr ""'
    yield quoted("Content-Type: text/plain; charset=UTF-8\n", "\n")
    yield quoted(f"Language: {target}\n", "\n")
    for source in dict.fromkeys(message.source for message in messages):
        yield f'\nmsgid {quoted(source, chr(10))}\nmsgstr ""'


def _sources(name: str, pins: Sequence[PinnedWheel], counted: dict[str, int]) -> Iterator[str]:
    yield f"# Sources of {name}"
    yield ""
    yield "Texts from the message catalogues of these packages, under their licences (`licences/`)."
    yield "`pairs` counts those of the program in the tables of this folder."
    yield ""
    yield "| package | version | licence | pairs | sha256 of the wheel |"
    yield "|---|---|---|---|---|"
    for pin in pins:
        pairs = counted[pin.program]
        yield f"| {pin.package} | {pin.version} | {pin.license} | {pairs:,} | {pin.sha256} |"


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")
