"""Folders with manifests, changed in the two ways there are: by damage, and by a program."""

from __future__ import annotations

from pathlib import Path

from headway.folders import MANIFEST, new_folder


def reseal(folder: Path) -> None:
    """List the files as they are now, as a program that wrote them would: damage is not found."""
    with new_folder(folder.with_name("resealed")) as place:
        for file in folder.iterdir():
            if file.name != MANIFEST:
                (place / file.name).write_bytes(file.read_bytes())
    (folder / MANIFEST).write_bytes((folder.with_name("resealed") / MANIFEST).read_bytes())
    for file in folder.with_name("resealed").iterdir():
        file.unlink()
    folder.with_name("resealed").rmdir()


def flip_one_bit(path: Path) -> None:
    """In the middle of the file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
