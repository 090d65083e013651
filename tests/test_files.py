"""Whatever happens while writing, there is the old state or the new; damage is always found."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings

import pytest

from headway import files
from headway.errors import (
    DataError,
    HeadwayError,
    Interrupted,
    OutOfMemory,
    UsageError,
    closest,
)
from headway.files import (
    lock,
    new_folder,
    newest_verified,
    parse_json,
    read_bytes,
    read_json,
    sweep,
    verify_folder,
    write_file,
)


def in_child(action):
    """Run `action` in a forked child; its exit status. Nothing of the child's is cleaned up."""
    with warnings.catch_warnings():
        # Python 3.12 warns that torch's threads are missing in the child, which needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            action()
        except BaseException:
            os._exit(99)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(stage):
    """Let the process end at the stage-th call of the system's that makes things durable."""
    calls = 0

    def wrap(original):
        def wrapped(*arguments):
            nonlocal calls
            if calls == stage:
                os._exit(42)
            calls += 1
            return original(*arguments)

        return wrapped

    for name in ("fsync", "rename", "replace"):
        setattr(os, name, wrap(getattr(os, name)))


def make(path, content=b"weights" * 9, number=3):
    with new_folder(path) as place:
        write_file(place / "model.bin", content)
        (place / "inner").mkdir()
        write_file(place / "inner" / "state.json", json.dumps({"step": number}).encode())


def names(folder):
    return sorted(p.name for p in folder.iterdir())


# errors


def test_an_error_has_three_parts_on_three_lines_and_an_exit_code():
    error = HeadwayError("what", "where", "do this")
    assert str(error).split("\n") == ["what", "  at   where", "  try  do this"]
    assert (error.what, error.where, error.hint) == ("what", "where", "do this")
    assert str(DataError("what")) == "what"
    kinds = (HeadwayError, UsageError, DataError, OutOfMemory, Interrupted)
    assert [kind.exit_code for kind in kinds] == [1, 2, 3, 4, 130]
    assert isinstance(error, ValueError)


def test_a_misspelt_name_is_recognised():
    assert closest("lrr", ["lr", "steps"]) == "lr"
    assert closest("zebra", ["lr", "steps"]) is None


# one file


def test_a_file_is_replaced_by_bytes_or_by_pieces(tmp_path):
    write_file(tmp_path / "a", b"old")
    write_file(tmp_path / "a", (bytes([n]) for n in range(5)))
    assert (tmp_path / "a").read_bytes() == bytes(range(5))
    assert names(tmp_path) == ["a"]


def test_pieces_that_fail_half_way_leave_the_old_file_and_nothing_else(tmp_path):
    def pieces():
        yield b"new"
        raise KeyboardInterrupt

    write_file(tmp_path / "a", b"old")
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", pieces())
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("stage", range(4))
def test_a_write_that_is_killed_leaves_the_old_file_or_the_new(tmp_path, stage):
    write_file(tmp_path / "a", b"old")

    def action():
        die_at(stage)
        write_file(tmp_path / "a", b"new!")

    status = in_child(action)
    assert status == (42 if stage < 3 else 0)  # fsync of the file, replace, fsync of the folder
    assert (tmp_path / "a").read_bytes() == (b"old" if stage < 2 else b"new!")
    sweep(tmp_path)
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_is_said_with_place_and_free_bytes(tmp_path, monkeypatch, code, call):
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


@pytest.mark.parametrize("name", ["missing/a", "n" * 300, "folder"])
def test_an_impossible_place_is_an_error_that_names_it(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(HeadwayError, match="cannot write"):
        write_file(tmp_path / name, b"x")
    assert names(tmp_path) == ["folder"]


# a folder


def test_a_folder_appears_complete_with_its_manifest(tmp_path):
    make(tmp_path / "step-3")
    verify_folder(tmp_path / "step-3")
    manifest = read_json(tmp_path / "step-3" / "MANIFEST.json")
    assert sorted(manifest["files"]) == ["inner/state.json", "model.bin"]
    assert manifest["files"]["model.bin"]["size"] == 63
    assert names(tmp_path) == ["step-3"]


def test_nothing_is_overwritten_not_even_a_dangling_link(tmp_path):
    make(tmp_path / "step-3")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("step-3", "link"):
        with pytest.raises(UsageError, match="exists already"):
            make(tmp_path / name)
    assert names(tmp_path) == ["link", "step-3"]


@pytest.mark.parametrize("error", [KeyError("k"), KeyboardInterrupt(), FileNotFoundError(2, "no")])
def test_an_error_inside_passes_through_and_leaves_nothing(tmp_path, error):
    with pytest.raises(type(error)) as caught, new_folder(tmp_path / "a") as place:
        write_file(place / "model.bin", b"x")
        raise error
    assert caught.value is error
    assert names(tmp_path) == []


def test_a_full_disk_inside_is_said_and_leaves_nothing(tmp_path):
    with pytest.raises(HeadwayError, match="bytes are free"), new_folder(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert names(tmp_path) == []


def test_links_and_odd_names_are_not_saved(tmp_path):
    (tmp_path / "secret").write_text("s")
    with pytest.raises(HeadwayError, match="plain"), new_folder(tmp_path / "a") as place:
        (place / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(HeadwayError, match="plain"), new_folder(tmp_path / "a") as place:
        (place / "a\\b").write_text("s")
    assert names(tmp_path) == ["secret"]


def test_a_save_that_is_killed_at_any_stage_leaves_all_or_nothing(tmp_path):
    """Ends the process before every single fsync and rename of a save."""
    seen = []
    for stage in range(40):
        folder = tmp_path / str(stage)
        folder.mkdir()
        make(folder / "step-1", number=1)

        def action(folder=folder, stage=stage):
            die_at(stage)
            make(folder / "step-2", number=2)

        status = in_child(action)
        newest, skipped = newest_verified(folder, "step-*")
        assert skipped == []
        verify_folder(newest)
        step = read_json(newest / "inner" / "state.json")["step"]
        assert newest.name == f"step-{step}"
        seen.append(step)
        sweep(folder)
        assert names(folder) == ["step-1", "step-2"][:step]
        if status == 0:
            break
        assert status == 42
    assert stage > 10
    assert seen == sorted(seen)  # first the old one, from some stage on the new
    assert set(seen) == {1, 2}


def test_everything_is_on_disk_before_the_name_appears(tmp_path, monkeypatch):
    """After a power cut only what was flushed is sure to be there, in whatever order."""
    log = []
    flush, rename = os.fsync, os.rename

    def flushed(descriptor):
        log.append(os.fstat(descriptor).st_ino)
        flush(descriptor)

    def renamed(old, new):
        log.append("rename")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "rename", renamed)
    make(tmp_path / "a")
    inside = {p.stat().st_ino for p in [tmp_path / "a", *(tmp_path / "a").rglob("*")]}
    moment = log.index("rename")
    assert inside <= set(log[:moment])
    assert log[moment + 1 :] == [tmp_path.stat().st_ino]


def test_every_truncation_and_every_flipped_bit_is_found(tmp_path):
    make(tmp_path / "step-1", number=1)
    make(tmp_path / "step-2", number=2)
    target = tmp_path / "step-2"
    generator = random.Random(5)
    for file in [p for p in target.rglob("*") if p.is_file()]:
        whole = file.read_bytes()
        cuts = [whole[:length] for length in {0, 1, 2, len(whole) // 2, len(whole) - 1}]
        longer = [whole + b"\0", whole + whole]
        flips = []
        for place in generator.sample(range(8 * len(whole)), min(8 * len(whole), 400)):
            damaged = bytearray(whole)
            damaged[place // 8] ^= 1 << place % 8
            flips.append(bytes(damaged))
        for damaged in flips:
            file.write_bytes(damaged)
            with pytest.raises(DataError):
                verify_folder(target)
        for damaged in [*cuts, *longer, flips[0]]:
            file.write_bytes(damaged)
            newest, skipped = newest_verified(tmp_path, "step-*")
            assert newest == tmp_path / "step-1", damaged
            assert len(skipped) == 1 and skipped[0].startswith("step-2: ")
        file.write_bytes(whole)
    assert newest_verified(tmp_path, "step-*") == (target, [])


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/hostname", "a/../../secret", "a\0b", "", ".", "./a", "a//b", "a\\b", "a/"],
)
def test_a_manifest_cannot_name_what_is_outside(tmp_path, name):
    (tmp_path / "secret").write_text("s")
    make(tmp_path / "a")
    text = json.dumps({"version": 1, "files": {name: {"size": 1, "sha256": "0"}}})
    (tmp_path / "a" / "MANIFEST.json").write_text(text)
    with pytest.raises(DataError, match="odd name"):
        verify_folder(tmp_path / "a")


@pytest.mark.parametrize("link", ["model.bin", "inner"])
def test_a_link_in_place_of_a_listed_file_is_refused(tmp_path, link):
    make(tmp_path / "a")
    (tmp_path / "a" / link).rename(tmp_path / "outside")
    (tmp_path / "a" / link).symlink_to(tmp_path / "outside")
    with pytest.raises(DataError, match="link"):
        verify_folder(tmp_path / "a")


@pytest.mark.parametrize(
    "manifest",
    ["{}", "[]", "null", '{"files": []}', '{"version": 2, "files": {}}', '{"files": {}}'],
)
def test_a_manifest_of_another_form_is_refused(tmp_path, manifest):
    make(tmp_path / "a")
    (tmp_path / "a" / "MANIFEST.json").write_text(manifest)
    with pytest.raises(DataError, match="manifest"):
        verify_folder(tmp_path / "a")


def test_newest_goes_by_number_and_says_what_it_skipped(tmp_path):
    for step in (9, 80, 100):
        make(tmp_path / f"step-{step}")
    (tmp_path / "step-100" / "model.bin").unlink()
    (tmp_path / "step-200").mkdir()
    (tmp_path / "step-300.tmp-0123456789ab").mkdir()
    newest, skipped = newest_verified(tmp_path, "step-*")
    assert newest == tmp_path / "step-80"
    assert [line.split(":")[0] for line in skipped] == ["step-200", "step-100"]
    assert newest_verified(tmp_path, "other-*") == (None, [])


def test_sweep_removes_only_names_of_this_protocol(tmp_path):
    keep = ["a.tmp-0123", "a.tmp-0123456789aZ", "b.tmp", "c", ".tmp-0123456789ab"]
    for name in [*keep, "x.tmp-0123456789ab"]:
        (tmp_path / name).write_text("x")
    (tmp_path / "y.tmp-ffffffffffff" / "inner").mkdir(parents=True)
    assert len(sweep(tmp_path)) == 2
    assert names(tmp_path) == sorted(keep)


# reading


def test_a_file_above_the_limit_is_refused_and_named(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", 5) == b"12345"
    with pytest.raises(DataError, match="5 bytes, more than the 4"):
        read_bytes(tmp_path / "a", 4)


@pytest.mark.parametrize("name", ["missing", ".", "a\0b"])
def test_what_cannot_be_read_is_bad_data(tmp_path, name):
    with pytest.raises(DataError, match="cannot be read"):
        read_bytes(tmp_path / name, 10)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero here")
def test_an_endless_device_is_refused_at_once(tmp_path):
    (tmp_path / "a").symlink_to("/dev/zero")
    with pytest.raises(DataError, match="no plain file"):
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
def test_json_that_readers_disagree_about_is_refused_quickly(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text)
    begin = time.perf_counter()
    with pytest.raises(DataError, match="not valid JSON") as caught:
        read_json(tmp_path / "a.json")
    assert time.perf_counter() - begin < 1
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
from headway.files import lock
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_at_once_and_a_killed_one_frees_the_folder(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        begin = time.perf_counter()
        message = f"in use by process {holder.pid}"
        with pytest.raises(UsageError, match=message), lock(tmp_path / "run"):
            pass
        assert time.perf_counter() - begin < 1
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


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(HeadwayError, match=r"file/run/\.lock"), lock(tmp_path / "file" / "run"):
        pass


def test_an_error_of_the_block_under_the_lock_stays_itself(tmp_path):
    with pytest.raises(BlockingIOError), lock(tmp_path):
        raise BlockingIOError(errno.EAGAIN, "something else")
    assert files.MANIFEST == "MANIFEST.json"
