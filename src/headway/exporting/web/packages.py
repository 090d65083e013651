"""The JavaScript packages that compute in the page: found where npm installed them, and copied."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.errors import UsageError
from headway.base.files import read_json

RUNTIME, TOKENIZERS = "onnxruntime-web", "@huggingface/tokenizers"
RUNTIME_SCRIPT, LOADER, BINARY = (
    "dist/ort.wasm.min.js",
    "dist/ort-wasm-simd-threaded.mjs",
    "dist/ort-wasm-simd-threaded.wasm",
)
TOKENIZER_SCRIPT = "dist/tokenizers.min.cjs"
FILES = {RUNTIME: (RUNTIME_SCRIPT, LOADER, BINARY), TOKENIZERS: (TOKENIZER_SCRIPT,)}
"""Package -> the files that the page contains."""
INSTALL = f"npm install {RUNTIME} {TOKENIZERS}"
FOLDER = "node_modules"
SECONDS = 60


@dataclass(frozen=True)
class Package:
    """An installed package. about: its package.json."""

    folder: Path
    about: dict[str, Any]

    @property
    def version(self) -> str:
        """The name and the version."""
        return f"{self.about['name']} {self.about['version']}"

    def read(self, file: str) -> bytes:
        """Return the contents of one of its `FILES`."""
        return (self.folder / file).read_bytes()

    @property
    def licence(self) -> str:
        """What its authors say about copying it: name, authors, licence, and its text if it has a
        file of it."""
        author = self.about.get("author", "")
        name = author.get("name", "") if isinstance(author, dict) else str(author)
        lines = [self.version, f"Licence: {self.about.get('license', 'unknown')}", name]
        texts = [
            path.read_text("utf-8", "replace")
            for path in sorted(self.folder.glob("LICEN[CS]E*"))
            if path.is_file()
        ]
        return "\n".join([line for line in lines if line] + ["", *texts])


def find_packages(folder: Path | None) -> dict[str, Package]:
    """Return the packages by name.

    They are searched in `folder` (where npm installed them), or else in the current folder and
    those above it, in the folders of NODE_PATH, and in npm's global folder. Raises UsageError if
    one is missing.
    """
    places = [folder, folder / FOLDER] if folder is not None else [*_usual_folders()]
    packages = {}
    for name in FILES:
        package = next((one for place in places if (one := _package(place, name))), None)
        if package is None:
            where = str(folder) if folder is not None else "this folder, those above it or globally"
            raise UsageError(
                f"the page needs the npm package {name}, which is not installed in {where}",
                hint=f"{INSTALL}, or --runtime FOLDER, where FOLDER has it in {FOLDER}",
            )
        packages[name] = package
    return packages


def _package(place: Path, name: str) -> Package | None:
    folder = place / name
    if not all((folder / file).is_file() for file in ("package.json", *FILES[name])):
        return None
    return Package(folder, read_json(folder / "package.json"))


def _usual_folders() -> Iterator[Path]:
    here = Path.cwd()
    for folder in (here, *here.parents):
        yield folder / FOLDER
    yield from map(Path, filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep)))
    npm = shutil.which("npm")
    if npm is not None:
        words = [npm, "root", "--global"]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=SECONDS, check=True
            )
        except (subprocess.SubprocessError, OSError):
            return  # npm itself is broken
        yield Path(done.stdout.strip())


def node() -> str:
    """Return the path of Node, which runs the page before it is kept. UsageError without it."""
    found = shutil.which("node")
    if found is None:
        raise UsageError(
            "Node runs the page before it is kept, but the command node is not found",
            hint=f"install Node.js 20 or later, which brings npm, then {INSTALL}",
        )
    return os.path.realpath(found)
