"""What the files beside a translator tell about its texts: their languages, and their lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
    values = read_json(path) if path.is_file() else None
    values = values if isinstance(values, dict) else {}
    sides = [values.get(f"{side}_lang") for side in ("source", "target")]
    named = [name for name in sides if isinstance(name, str) and name]
    is_known = model_type == "marian" and len(named) == 2
    directions = (Direction(named[0], named[1]),) if is_known else ()
    return Origin(directions, model_type in SENTENCES)


def _directions(values: Mapping[str, object]) -> tuple[Direction, ...]:
    """Return the directions in the settings of a run."""
    named = values.get("data.directions") or ()
    if isinstance(named, list | tuple) and named:
        return tuple(Direction.parse(str(name)) for name in named)
    source, target = values.get("data.source"), values.get("data.target")
    if is_language(source) and is_language(target):
        return (Direction(source, target),)
    corpora = values.get("data.train") or ()
    names = corpora if isinstance(corpora, list | tuple) else [corpora]
    in_names = [direction_in_name(Path(str(name))) for name in names]
    return tuple(dict.fromkeys(direction for direction in in_names if direction is not None))
