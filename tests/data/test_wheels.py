"""Wheels are read only as pinned, in memory, and within limits."""

import io
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.datasets import wheels
from headway.datasets.interface_strings import PINS
from headway.datasets.wheels import PinnedWheel, Wheel, download, read_pins
from tests.fixtures.cpu_time import within
from tests.fixtures.wheels import archive, package_files, write_wheel

NAME = "shop/locale/fr/LC_MESSAGES/django.mo"


def opened(folder: Path, content: bytes) -> Wheel:
    return Wheel(write_wheel(folder, "shop", content), folder)


def quiet(done: int, total: int, following: str) -> None:
    pass


def test_the_list_of_the_project_names_permissive_packages_once() -> None:
    pins = read_pins(PINS)
    assert len({pin.package for pin in pins}) == len(pins) >= 10
    assert {pin.license for pin in pins} <= {"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0"}
    assert {language for pin in pins for language in pin.languages} == {"de", "fr"}
    for pin in pins:
        assert len(pin.sha256) == 64 and int(pin.sha256, 16)
        assert pin.file.startswith(f"{pin.package.replace('-', '_')}-{pin.version}-")
        assert "/" not in pin.file


def test_a_list_with_another_key_is_refused_with_the_keys(tmp_path: Path) -> None:
    (tmp_path / "pins.json").write_text('[{"program": "shop"}]')
    with pytest.raises(DataError, match="keys program, package, version, file, sha256"):
        read_pins(tmp_path / "pins.json")


def test_files_are_read_from_the_wheel_and_nothing_is_unpacked(tmp_path: Path) -> None:
    wheel = opened(tmp_path, archive([("shop/", b""), (NAME, b"content"), ("x.py", b"1 / 0")]))
    assert wheel.names() == [NAME, "x.py"]
    assert wheel.read(NAME) == b"content"
    assert [path.name for path in tmp_path.iterdir()] == [wheel.pin.file]


def test_a_missing_wheel_and_one_with_another_hash_are_refused(tmp_path: Path) -> None:
    pin = write_wheel(tmp_path, "shop", archive([(NAME, b"content")]))
    path = tmp_path / pin.file
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DataError, match=f"must be {pin.sha256}, but is ") as caught:
        Wheel(pin, tmp_path)
    assert str(path) in str(caught.value)
    path.unlink()
    with pytest.raises(UsageError, match=r"shop-1\.0") as missing:
        Wheel(pin, tmp_path)
    assert "pip download --no-deps --only-binary :all: -d FOLDER shop==1.0" in str(missing.value)


def changed(old: bytes, new: bytes) -> bytes:
    """An archive whose directory and headers have other bytes."""
    content = archive([(NAME, b"content" * 100)])
    assert old in content
    return content.replace(old, new)


def encrypted() -> bytes:
    content = bytearray(archive([(NAME, b"content")]))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    return bytes(content)


def twice() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as wheel:
        wheel.writestr(NAME, b"one")
        with pytest.warns(UserWarning, match="Duplicate name"):
            wheel.writestr(NAME, b"two")
    return stream.getvalue()


def lying() -> bytes:
    """A member whose headers state fewer bytes than it has."""
    content = bytearray(archive([(NAME, b"\0" * 30_000_000)]))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.index(signature) + offset
        content[start : start + 4] = struct.pack("<I", 1000)
    return bytes(content)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "no zip": (lambda: b"PK but no archive", "must be a zip archive"),
    "empty": (lambda: b"", "must be a zip archive"),
    "truncated": (lambda: archive([(NAME, b"x" * 999)])[:-30], "must be a zip archive"),
    "parent": (lambda: archive([(f"../../{NAME}", b"x")]), "plain relative path"),
    "absolute": (lambda: archive([(f"/{NAME}", b"x")]), "plain relative path"),
    "inner parent": (lambda: archive([(f"shop/../{NAME}", b"x")]), "plain relative path"),
    "backslash": (lambda: archive([(r"..\fr\LC_MESSAGES\x.mo", b"x")]), "plain relative path"),
    "drive": (lambda: archive([(f"C:{NAME}", b"x")]), "plain relative path"),
    "nul": (lambda: changed(b"django.mo", b"django\0mo"), "plain relative path"),
    "encrypted": (encrypted, "encrypted"),
    "twice": (twice, "occurs twice"),
    "bomb": (lambda: archive([(NAME, b"\0" * 30_000_000)]), "at most 100 times"),
    "lying": (lying, "cannot be decompressed"),
    "damaged": (
        lambda: changed(archive([(NAME, b"content" * 100)])[70:76], b"\xff" * 6),
        "cannot be decompressed",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_wheels_are_refused_in_seconds_with_the_file_and_the_place(
    tmp_path: Path, name: str
) -> None:
    make, message = HOSTILE[name]
    content = make()
    with within(5), pytest.raises(DataError, match=message) as caught:
        opened(tmp_path, content).read(NAME)
    assert str(tmp_path / "shop-1.0-py3-none-any.whl") in str(caught.value.where)


def test_the_limits_of_files_and_bytes_hold(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(wheels, "MEMBER_LIMIT", 100)
    monkeypatch.setattr(wheels, "UNPACKED_LIMIT", 150)
    monkeypatch.setattr(wheels, "MEMBERS_LIMIT", 3)
    wheel = opened(tmp_path, archive([("a", b"x" * 100), ("b", b"x" * 51), ("c", b"x" * 101)]))
    assert len(wheel.read("a")) == 100
    with pytest.raises(DataError, match="more than 50 bytes"):
        wheel.read("b")
    with pytest.raises(DataError, match="more than"):
        opened(tmp_path, archive([("c", b"x" * 101)])).read("c")
    with pytest.raises(DataError, match="has 4 files; at most 3"):
        opened(tmp_path, archive([(str(n), b"") for n in range(4)]))


@pytest.fixture
def index(tmp_path: Path, monkeypatch) -> Path:
    """A folder of wheels that pip uses instead of a package index."""
    pytest.importorskip("pip")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    return tmp_path / "index"


def test_pip_downloads_pinned_wheels_and_progress_names_them(tmp_path: Path, index: Path) -> None:
    pin = write_wheel(index, "shop", archive(package_files("shop", {"x.mo": b"content"})))
    (tmp_path / "new").mkdir()
    seen: list[tuple[int, int, str]] = []
    download([pin], tmp_path / "new", lambda *event: seen.append(event))
    assert seen == [(0, 1, "shop==1.0"), (1, 1, "")]
    assert Wheel(pin, tmp_path / "new").read("shop/locale/x.mo") == b"content"


def test_a_wheel_with_another_hash_and_an_unknown_package_are_refused_with_pips_message(
    tmp_path: Path, index: Path
) -> None:
    pin = write_wheel(index, "shop", archive(package_files("shop", {})))
    other = PinnedWheel(**{**vars(pin), "sha256": "0" * 64})
    with pytest.raises(HeadwayError, match=r"shop==1\.0") as caught:
        download([other], tmp_path, quiet)
    assert "--from" in str(caught.value.hint)
    unknown = PinnedWheel(**{**vars(pin), "package": "unknown"})
    with pytest.raises(HeadwayError, match="No matching distribution"):
        download([unknown], tmp_path, quiet)


def test_without_pip_and_after_the_time_limit_the_error_says_so(
    tmp_path: Path, index: Path, monkeypatch
) -> None:
    pin = write_wheel(index, "shop", archive(package_files("shop", {})))
    monkeypatch.setattr(wheels, "_SECONDS", 0.01)
    with pytest.raises(HeadwayError, match="it was stopped after"):
        download([pin], tmp_path, quiet)
    monkeypatch.setattr(wheels, "_SECONDS", 60)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(HeadwayError, match="exit code 1"):
        download([pin], tmp_path, quiet)
