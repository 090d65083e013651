"""Images on the command line: their files, and the folders that they are in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.texts import Texts
from headway.errors import UsageError

if TYPE_CHECKING:
    pass


def picture_paths(things: Sequence[str]) -> list[Path]:
    """Files, and all pictures of folders. UsageError where there is none."""
    from headway.data.formats.images import image_files

    if not things:
        raise UsageError("which pictures?", hint="name files, or folders of them")
    return [path for thing in things for path in image_files(Path(thing))]


def gather_pictures(things: Sequence[str], label: str | None) -> Texts:
    """Their names; and the folders that they lie in, if `label` asks for them."""
    if label not in (None, "folder"):
        raise UsageError(f"--label {label}: of pictures only folder", hint="--label folder")
    paths = picture_paths(things)
    return Texts(
        [str(path) for path in paths], None if label is None else [p.parent.name for p in paths]
    )
