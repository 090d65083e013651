"""Atomic writes: a failure leaves the old file or the new; errors name path and remedy."""

from __future__ import annotations

import errno
import os

import pytest
from tests.fixtures.crashes import names

from headway.base.errors import HeadwayError
from headway.base.files import check_new_file, write_file


def test_a_file_is_replaced_by_bytes_or_by_chunks(tmp_path):
    write_file(tmp_path / "a", b"old")
    write_file(tmp_path / "a", (bytes([n]) for n in range(5)))
    assert (tmp_path / "a").read_bytes() == bytes(range(5))
    assert names(tmp_path) == ["a"]


def test_chunks_that_fail_half_way_leave_only_the_old_file(tmp_path):
    def chunks():
        yield b"new"
        raise KeyboardInterrupt

    write_file(tmp_path / "a", b"old")
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", chunks())
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_is_reported_with_path_and_free_bytes(tmp_path, monkeypatch, code, call):
    write_file(tmp_path / "a", b"old")

    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(HeadwayError, match=os.strerror(code)) as caught:
        write_file(tmp_path / "a", b"new")
    assert str(tmp_path / "a") in str(caught.value)
    assert "bytes are free" in str(caught.value)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_device_that_is_really_full(tmp_path, monkeypatch):
    (tmp_path / "full").symlink_to("/dev/full")
    opened = type(tmp_path).open
    monkeypatch.setattr(
        type(tmp_path), "open", lambda path, mode: opened(tmp_path / "full", mode.replace("x", "w"))
    )
    with pytest.raises(HeadwayError, match="No space left"):
        write_file(tmp_path / "a", b"x" * 10_000)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("missing/a/b", "missing/a does not exist: make that folder"),
        ("n" * 300, "a shorter name: file systems allow 255 bytes"),
        ("folder", "the path is a folder"),
        ("file/a", "file is a file, not a folder"),
    ],
)
def test_an_impossible_path_is_an_error_that_says_how_to_fix_it(tmp_path, name, advice):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(HeadwayError, match="cannot write") as caught:
        write_file(tmp_path / name, b"x")
    assert advice in caught.value.hint and "free" not in caught.value.hint
    assert caught.value.where == str(tmp_path / name)
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EACCES, "no permission for"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "another"),
    ],
)
def test_the_advice_depends_on_the_error_of_the_system(tmp_path, monkeypatch, code, advice):
    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(HeadwayError, match=os.strerror(code)) as caught:
        write_file(tmp_path / "a", b"new")
    assert advice in caught.value.hint and "free" not in caught.value.hint


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    check_new_file(tmp_path / "a")
    (tmp_path / "a").touch()
    for path, message in (
        ("a", "exists already"),
        ("b/c", "b does not exist"),
        ("a/c", "not a folder"),
        ("n" * 256, "256 bytes"),
    ):
        with pytest.raises(HeadwayError, match=message):
            check_new_file(tmp_path / path)
