"""Readers with size limits, and folders locked by one process."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.files import lock, parse_json, read_bytes, read_json
from tests.fixtures.cpu_time import within


def test_a_file_above_the_limit_is_refused_and_named(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", 5) == b"12345"
    with pytest.raises(DataError, match="the file has 5 bytes; at most 4"):
        read_bytes(tmp_path / "a", 4)


@pytest.mark.parametrize("name", ["missing", ".", "a\0b"])
def test_an_unreadable_path_is_a_data_error(tmp_path, name):
    with pytest.raises(DataError, match="cannot be read"):
        read_bytes(tmp_path / name, 10)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero here")
def test_an_endless_device_is_refused_at_once(tmp_path):
    (tmp_path / "a").symlink_to("/dev/zero")
    with pytest.raises(DataError, match="not a plain file"):
        read_bytes(tmp_path / "a", 2**40)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b'{"a": 1} x', b"\xff", b"\xef\xbb\xbf{}", b'{"a": 1, "a": 2}'),
        *(b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b"[-1e400]"),
        *(b"[" * 100_000, b'{"a":' * 100_000, b"1" * 10_000, b'"\\ud800"', b'{"\\udc00": 1}'),
    ],
    ids=lambda text: text[:20].decode("latin-1") + f"({len(text)})",
)
def test_json_that_parsers_read_differently_is_refused_quickly(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text)
    with within(1), pytest.raises(DataError, match="not valid JSON") as caught:
        read_json(tmp_path / "a.json")
    assert str(tmp_path / "a.json") in str(caught.value)


def test_plain_json_is_read():
    text = '{"a": [1, 2.5, true, null], "b": "\\u00e9\\ud83d\\ude00 é"}'
    assert parse_json(text.encode(), "here") == {"a": [1, 2.5, True, None], "b": "é😀 é"}


def test_an_error_message_never_repeats_a_whole_file(tmp_path):
    (tmp_path / "a.json").write_bytes(b"9" * 100_000)
    with pytest.raises(DataError) as caught:
        read_json(tmp_path / "a.json")
    assert len(str(caught.value)) < 1000


# the lock


HOLD = """
import sys, time
from pathlib import Path
from headway.base.files import lock
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_at_once_and_a_killed_one_frees_the_folder(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        message = f"in use by process {holder.pid}"
        with pytest.raises(UsageError, match=message), lock(tmp_path / "run"):
            pass
        assert holder.poll() is None  # it was not awaited
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with lock(tmp_path / "run"):
        assert (tmp_path / "run" / ".lock").read_text() == str(os.getpid())
    with lock(tmp_path / "run"):
        pass


def test_a_lock_that_is_a_link_does_not_empty_its_target(tmp_path):
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(HeadwayError, match="cannot write"), lock(tmp_path):
        pass
    assert (tmp_path / "precious").read_text() == "keep me"


def test_a_folder_that_cannot_be_created_is_an_error_with_its_path(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(HeadwayError, match=r"file/run/\.lock"), lock(tmp_path / "file" / "run"):
        pass


def test_an_error_inside_the_lock_is_raised_unchanged(tmp_path):
    with pytest.raises(BlockingIOError), lock(tmp_path):
        raise BlockingIOError(errno.EAGAIN, "something else")


@pytest.mark.parametrize("text", [r'{"a": "x\ud800y"}', r'{"\udfff": 1}', r'["\ude00\ud83d"]'])
def test_a_lone_surrogate_in_json_is_refused_by_its_code(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=r"lone surrogate \\u[0-9a-f]{4}, which is not a character"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text(r'["\ud83d\ude00"]')
    assert read_json(tmp_path / "a.json") == ["\N{GRINNING FACE}"]
