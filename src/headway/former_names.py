"""Former names of settings, configuration fields, tensors and files, and their names of today.

Files that an earlier version wrote are read with them: run.yaml, config.json and the tensors of a
model, checkpoints, tokenizer.json, prepared data and saved attention. What a user types is not
translated: the error names the name of today.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

FORMER_NAMES: Mapping[str, str] = {
    # settings
    "training.rows": "training.batch_size",
    "evaluation.rows": "evaluation.sequences",
    "evaluation.pictures": "evaluation.images",
    "data.new_pieces": "data.new_tokens",
    "masking.share": "masking.fraction",
    "masking.hidden": "masking.masked",
    "distillation.inside_first": "distillation.first_stage",
    "views.whole": "views.global_crops",
    "views.local": "views.local_crops",
    "views.whole_share": "views.global_min_area",
    "views.local_share": "views.local_max_area",
    "views.least": "views.local_min_area",
    # flags of commands
    "--rows": "--sequences",
    "--picture": "--image",
    "--place": "--position",
    "--share": "--outline",
    "--out": "--output",
    # fields of models and names of tensors
    "first_place": "first_position",
    "masked_words": "masked_lm_head",
    "class_place": "class_position",
    "said": "logit_sum",
    "heard": "logit_count",
    # keys of tokenizer.json and of the description of prepared text
    "marks": "special_tokens",
    "marks_ends": "has_separate_ends",
    # files of prepared images
    "facts.json": "description.json",
}
"""Former dotted name, or former part of a dotted name -> name of today."""

PAGE_KEYS: Mapping[str, str] = {
    "guesses": "predictions",
    "guesses_side": "predictions_side",
    "place": "position",
    "picture": "image",
    "beside": "num_prefix_tokens",
    "kinds": "patterns",
    "kept": "continued",
}
"""Former key in the header of a page, or former name of a side of its maps -> name of today."""
_NAMES_OF_SIDES = ("queries", "keys", "side", "guesses_side")


def current_header(header: Any) -> Any:
    """A part of the header of a page (`headway.inspection.page.encode`) by the names of today."""
    if isinstance(header, list):
        return [current_header(item) for item in header]
    if not isinstance(header, dict):
        return header
    return {
        PAGE_KEYS.get(key, key): PAGE_KEYS.get(value, value)
        if key in _NAMES_OF_SIDES and isinstance(value, str)
        else current_header(value)
        for key, value in header.items()
    }


def current_name(name: str) -> str:
    """The name of today of a dotted name: `model.first_place` -> `model.first_position`."""
    parts = (FORMER_NAMES.get(part, part) for part in name.split("."))
    return FORMER_NAMES.get(name) or ".".join(parts)


def with_current_names(values: Mapping[str, T], is_known: Callable[[str], bool]) -> dict[str, T]:
    """A copy of `values` by the names of today.

    is_known: whether a name is one of today. A name that is known, or whose name of today is not,
    stays as it is: it may be of another package.
    """
    result: dict[str, T] = {}
    for name, value in values.items():
        current = current_name(name)
        is_former = current not in values and is_known(current) and not is_known(name)
        result[current if is_former else name] = value
    return result


def existing_file(folder: Path, name: str) -> Path:
    """The path of a file in a folder; that of its former name if only that exists."""
    former = next((old for old, new in FORMER_NAMES.items() if new == name), name)
    path = folder / name
    return folder / former if not path.exists() and (folder / former).exists() else path
