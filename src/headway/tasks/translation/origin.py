"""What the files beside a translator tell about its texts: their languages, and their lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.config_files import read_yaml
from headway.base.files import read_json
from headway.tasks.translation.directions import Direction, direction_in_name
from headway.tasks.translation.pair_files import is_language

SENTENCES = ("marian", "mbart", "m2m_100")
"""Families of Hugging Face's translators of sentences; the others read texts of any form."""
ANY_TEXT = ("text-to-text", "span-corruption")
"""Recipes of models that read texts of any form."""


@dataclass(frozen=True)
class Origin:
    """What a translator was trained on.

    directions: its directions; none if no file names them, or if its tokenizer names its languages.
    by_line: whether each line of a text is translated alone, as in training. A model that reads
    texts of any form, such as those to summarise, reads line breaks as it was trained to.
    """

    directions: tuple[Direction, ...] = ()
    by_line: bool = True


UNKNOWN = Origin()


def origin_of_run(folder: Path) -> Origin:
    """Return the origin of a model that was trained by the run in which its folder is."""
    for path in (folder / "run.yaml", folder.parent / "run.yaml"):
        if path.is_file():
            values = read_yaml(path)
            by_line = values.get("recipe") not in ANY_TEXT
            return Origin(_directions(values), by_line)
    return UNKNOWN


def origin_of_foreign(folder: Path, model_type: str) -> Origin:
    """Return the origin of a model of a Hugging Face folder."""
    path = folder / "tokenizer_config.json"
    values = read_json(path) if path.is_file() else {}
    values = values if isinstance(values, dict) else {}
    pair = values.get("source_lang"), values.get("target_lang")
    known = model_type == "marian" and all(isinstance(name, str) and name for name in pair)
    directions = (Direction(str(pair[0]), str(pair[1])),) if known else ()
    return Origin(directions, model_type in SENTENCES)


def _directions(values: dict[str, Any]) -> tuple[Direction, ...]:
    """Return the directions in the settings of a run."""
    named = values.get("data.directions") or ()
    if isinstance(named, list | tuple) and named:
        return tuple(Direction.parse(str(name)) for name in named)
    pair = values.get("data.source"), values.get("data.target")
    if all(isinstance(name, str) and is_language(name) for name in pair):
        return (Direction(str(pair[0]), str(pair[1])),)
    corpora = values.get("data.train") or ()
    corpora = [corpora] if isinstance(corpora, str) else corpora
    in_names = [direction_in_name(Path(str(name))) for name in corpora]
    return tuple(dict.fromkeys(direction for direction in in_names if direction is not None))
