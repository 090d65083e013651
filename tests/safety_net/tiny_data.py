"""Tiny generated data for every kind of task: a few kB each, always the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import wave
import zlib
from pathlib import Path

import numpy as np

from tests.fixtures.command_line import sentences as sentence_pairs
from tests.fixtures.command_line import write_corpus
from tests.fixtures.small_whisper import write_folder
from tests.fixtures.tiny_encoder import sentences, write_conll, write_squad

NAMES = ["fox", "baker", "owl", "crab", "child", "toad"]
ACTIONS = ["sees", "likes", "paints", "carries"]
OBJECTS = ["a lemon", "the tree", "some bread", "a drum", "the old boat"]
ANIMALS, TOOLS = ["fox", "owl", "crab", "toad", "hare"], ["saw", "rake", "drum", "spade", "lamp"]
LOCATIONS = ["by the lake", "in a shed", "near us", "on the hill", "at home", "below", "up there"]
NUMBERS = ["one", "two", "three", "four", "five"]
CAPTIONS = {
    "dark": {
        "en": "a dark night over the hill",
        "fr": "une nuit sombre sur la colline",
        "de": "eine dunkle Nacht am Berg",
    },
    "grey": {
        "en": "a grey morning in the town",
        "fr": "un matin gris en ville",
        "de": "ein grauer Morgen in der Stadt",
    },
    "light": {
        "en": "the light day by the sea",
        "fr": "le jour clair au bord de la mer",
        "de": "der helle Tag an der See",
    },
}
SHADES = {"dark": 90, "grey": 115, "light": 140}
"""Brightness by class; so similar that a short training confuses some."""
TONES = {"high": 1900, "low": 900, "middle": 1300}
SOUND_RATE = 8000  # samples a second


def write_all(folder: Path) -> dict[str, str]:
    """Write every file into `folder`; return {path in it: sha256}."""
    folder.mkdir(parents=True, exist_ok=True)
    write_corpus(folder / "pairs")
    _write_texts(folder)
    _write_tables(folder)
    write_conll(folder / "tags.conll", sentences())
    write_squad(folder / "questions.json")
    _write_images(folder)
    _write_sounds(folder)
    write_folder(folder / "whisper")
    return digests(folder)


def digests(folder: Path) -> dict[str, str]:
    """{path: first 16 digits of its sha256} of the files in `folder`; one digest for each folder
    of images or sounds."""
    by_entry: dict[str, list[bytes]] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        entry = path.relative_to(folder).parts[0]
        by_entry.setdefault(entry, []).append(path.name.encode() + path.read_bytes())
    return {
        entry: hashlib.sha256(b"".join(parts)).hexdigest()[:16] for entry, parts in by_entry.items()
    }


def _write_texts(folder: Path) -> None:
    lines = [
        f"The {name} {action} {noun}. It {action} {noun} again. So does the {next_name}."
        for noun in OBJECTS
        for name, next_name in zip(NAMES, NAMES[1:] + NAMES[:1], strict=True)
        for action in ACTIONS
    ]
    lines = sorted(lines, key=lambda line: hashlib.sha256(line.encode()).digest())
    _write(folder / "text.txt", lines)
    _write(folder / "held-out.txt", [f"The {a} likes {b}." for a in NAMES[:3] for b in OBJECTS[:3]])
    domain = [
        f"A {animal} is {location}. There it finds a {tool}. The {tool} is old."
        for animal in ANIMALS
        for tool in TOOLS
        for location in LOCATIONS[:3]
    ]
    _write(folder / "domain.txt", domain)
    dialogues = [
        {
            "messages": [
                {"role": "user", "content": f"Where is the {name}?"},
                {"role": "assistant", "content": f"The {name} is {location}."},
            ]
        }
        for name in ANIMALS
        for location in LOCATIONS
    ]
    _write(folder / "dialogues.jsonl", [json.dumps(row) for row in dialogues])
    preferences = [
        {
            "prompt": f"Where is the {name}?",
            "chosen": f"The {name} is {location}.",
            "rejected": f"I do not know where the {name} is.",
        }
        for name in ANIMALS
        for location in LOCATIONS
    ]
    _write(folder / "preferences.jsonl", [json.dumps(row) for row in preferences])
    problems = [
        {
            "prompt": f"Where is the {name}?",
            "answer": f"The {name} is {location}.",
            "kind": location,
        }
        for name in ANIMALS
        for location in LOCATIONS
    ]
    _write(folder / "problems.jsonl", [json.dumps(row) for row in problems])


def _write_tables(folder: Path) -> None:
    texts = [
        (f"the {name} is {location}", label)
        for location in LOCATIONS
        for label, names in (("animal", ANIMALS), ("tool", TOOLS))
        for name in names
    ]
    pairs = [
        (
            f"the {name} is {location}",
            f"it is {description}",
            "yes" if (description == "alive") == is_true else "no",
        )
        for location in LOCATIONS
        for name in ANIMALS + TOOLS
        for description, is_true in (("alive", location != "below"), ("a thing", name != "hare"))
    ]
    numbers = [
        (f"{word} {name}s {location}", str(1 + i + 0.5 * (name == "owl")))
        for location in LOCATIONS
        for i, word in enumerate(NUMBERS)
        for name in ("fox", "owl")
    ]
    similar = [
        (f"the {name} waits {location}", f"there is the {name} , {location}")
        for name in ANIMALS + TOOLS
        for location in LOCATIONS
    ]
    scored = [
        (
            f"the {a} is {location}",
            f"the {b} is {other_location}",
            str(2 * (a == b) + 3 * (location == other_location)),
        )
        for a in ANIMALS[:4] + TOOLS[:4]
        for b in (a, TOOLS[4])
        for location, other_location in zip(LOCATIONS, LOCATIONS[:3] + LOCATIONS[:4], strict=True)
    ]
    _write_table(folder / "classes.tsv", "text\tlabel", texts)
    _write_table(folder / "pair-classes.tsv", "sentence1\tsentence2\tlabel", pairs)
    _write_table(folder / "numbers.tsv", "text\tscore", numbers)
    _write_table(folder / "similar.tsv", "first\tsecond", similar)
    _write_table(folder / "similar-scored.tsv", "first\tsecond\tscore", scored)
    _write_table(folder / "names.tsv", "en\txx", sentence_pairs()[40:160])


def _pixels(shade: int, number: int, size: int = 8) -> np.ndarray:
    """A noisy image of one shade, by integer arithmetic alone."""
    y, x, channel = np.indices((size, size, 3))
    noise = (7 * number * (x + 1) + 13 * y * y + 29 * x + 31 * channel * (y + 2)) % 61 - 30
    return (shade + noise).astype(np.uint8)


def png(pixels: np.ndarray) -> bytes:
    """A PNG file without compression: the same bytes whichever zlib and Pillow are installed."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + pixels[y].tobytes() for y in range(height))
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines, 0)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _write_images(folder: Path) -> None:
    table = ["image\tsplit\tcaption\ten\tfr\tde"]
    arrays = []
    for number in range(30):
        name = list(SHADES)[number % 3]
        pixels = _pixels(SHADES[name], number)
        arrays.append(pixels)
        path = folder / "images" / name / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(pixels))
        split = "train" if number < 18 else "valid" if number < 24 else "test"
        captions = CAPTIONS[name]
        cells = [f"images/{name}/{number:02}.png", split, captions["en"], *captions.values()]
        table.append("\t".join(cells))
    _write(folder / "captions.tsv", table)
    np.savez(folder / "captions.npz", images=np.stack(arrays))
    seen = [
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "path": f"images/{name}/{number:02}.png"},
                        {"type": "text", "text": "What is this?"},
                    ],
                },
                {"role": "assistant", "content": CAPTIONS[name]["en"]},
            ],
            "kind": "naming" if number % 2 else "caption",
        }
        for number in range(30)
        for name in [list(SHADES)[number % 3]]
    ]
    _write(folder / "seen.jsonl", [json.dumps(row) for row in seen])
    (folder / "dark.png").write_bytes(png(_pixels(92, 101)))
    (folder / "light.png").write_bytes(png(_pixels(138, 102)))


def _write_sounds(folder: Path) -> None:
    table = ["image\tsplit\tcaption"]
    for name, hertz in TONES.items():
        (folder / "sounds" / name).mkdir(parents=True)
        for number in range(10):
            (folder / "sounds" / name / f"{number}.wav").write_bytes(_tone(hertz, number))
            split = "train" if number < 6 else "valid" if number < 8 else "test"
            table.append(f"sounds/{name}/{number}.wav\t{split}\ta {name} tone")
    _write(folder / "recordings.tsv", table)


def _tone(hertz: int, number: int) -> bytes:
    """A WAV file of a tone with a little noise; its length and pitch depend on `number`."""
    count = int(SOUND_RATE * (0.12 + 0.01 * number))
    pitch = 2 * math.pi * hertz * (1 + 0.02 * number) / SOUND_RATE
    samples = [int(13_000 * math.sin(pitch * i)) + i * i * (number + 7) % 600 for i in range(count)]
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(SOUND_RATE)
        sound.writeframes(np.array(samples, "<i2").tobytes())
    return file.getvalue()


def _write_table(path: Path, header: str, rows: list[tuple[str, ...]]) -> None:
    _write(path, [header, *("\t".join(row) for row in rows)])


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
