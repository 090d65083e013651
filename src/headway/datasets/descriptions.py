"""dataset.json, which describes a fetched data set: a complete folder of the same one is reused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from headway.base.errors import HeadwayError, UsageError
from headway.base.files import read_json
from headway.base.folders import verify_folder

T = TypeVar("T")
FILE = "dataset.json"
Description = dict[str, Any]
_WORDS = {
    "target": "target language",
    "hold_out": "--hold-out",
    "wheels": "set of wheels",
    "version": "version",
}
"""The keys by which a folder of the same data set can differ, in words."""


def reused(
    folder: Path, identity: Mapping[str, object], fetched: Callable[[Path, Description, bool], T]
) -> T:
    """Return the data set in a folder that exists.

    identity: what its description must have. fetched: returns the result for a folder, its
    description, and True. Raises UsageError for a folder with another content.
    """
    try:
        verify_folder(folder)
        description: Description = read_json(folder / FILE)
        different = [key for key, value in identity.items() if description[key] != value]
        if not different:
            return fetched(folder, description, True)
        fault = f"has {description['dataset']}"
        if "dataset" not in different:
            fault += f" with another {' and another '.join(_WORDS[key] for key in different)}"
    except HeadwayError as error:
        fault = f"is not a complete fetched data set ({error.what})"
    except (KeyError, TypeError, ValueError):
        fault = f"has a {FILE} of another program"
    raise UsageError(
        f"the folder exists already and {fault}",
        where=str(folder),
        hint="give another folder, or delete this one",
    )


def version_of(package: str) -> str:
    """Return the version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
