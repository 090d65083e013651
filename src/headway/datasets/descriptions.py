"""dataset.json, which describes a fetched data set: a complete folder of the same one is reused."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from headway.base.errors import HeadwayError, UsageError
from headway.base.files import read_json
from headway.base.folders import verify_folder

FILE = "dataset.json"
Description = dict[str, Any]
_WORDS = {
    "target": "target language",
    "hold_out": "--hold-out",
    "wheels": "set of wheels",
    "version": "version",
}
"""The keys by which a folder of the same data set can differ, in words."""


@dataclass(frozen=True)
class Fetched:
    """A data set in a folder, and its description, the content of dataset.json.

    reused: whether the folder was complete already, and nothing was written.
    """

    folder: Path
    description: Description
    reused: bool = False

    def __getitem__(self, key: str) -> Any:
        """Return a value of the description."""
        return self.description[key]

    @property
    def note(self) -> str:
        """A note that the folder is reused, behind the sizes; or nothing."""
        return " (reused)" if self.reused else ""

    @property
    def pairs_in_words(self) -> str:
        """The number of pairs of each split, and how many are left out and why."""
        sizes = " · ".join(f"{count:,} {name}" for name, count in self["pairs"].items())
        left_out = [f"{count:,} {why}" for why, count in self["skipped"].items() if count]
        how = "reused" if self.reused else f"left out: {', '.join(left_out) or 'none'}"
        return f"{sizes} pairs ({how})"


def reused(folder: Path, identity: Mapping[str, object]) -> Fetched:
    """Return the data set in a folder that exists.

    identity: what its description must have. Raises UsageError for a folder with another content.
    """
    try:
        verify_folder(folder)
        description: Description = read_json(folder / FILE)
        different = [key for key, value in identity.items() if description[key] != value]
        if not different:
            return Fetched(folder, description, reused=True)
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
