"""Folders with manifests: a crash leaves the old state or the new; all damage is detected."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import warnings

import pytest
from tests.fixtures.crashes import die_at, in_child, names

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.files import read_json, remove_unfinished_files, write_file
from headway.base.folders import new_folder, newest_verified, replaced_folder, verify_folder


def make(path, content=b"weights" * 9, number=3):
    with new_folder(path) as folder:
        write_file(folder / "model.bin", content)
        (folder / "inner").mkdir()
        write_file(folder / "inner" / "state.json", json.dumps({"step": number}).encode())


def replace_files(path, content, number):
    with replaced_folder(path) as folder:
        write_file(folder / "model.bin", content)
        write_file(folder / "config.json", json.dumps({"step": number}).encode())


@pytest.mark.parametrize("stage", range(4))
def test_a_write_that_is_killed_leaves_the_old_file_or_the_new(tmp_path, stage):
    write_file(tmp_path / "a", b"old")

    def action():
        die_at(stage)
        write_file(tmp_path / "a", b"new!")

    status = in_child(action)
    assert status == (42 if stage < 3 else 0)  # fsync of the file, replace, fsync of the folder
    assert (tmp_path / "a").read_bytes() == (b"old" if stage < 2 else b"new!")
    remove_unfinished_files(tmp_path)
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127, "n" * 240])
def test_the_longest_names_can_be_written(tmp_path, name):
    write_file(tmp_path / name, b"x")
    with new_folder(tmp_path / f"{name[1:]}f") as folder:
        (folder / "a").write_text("x")
    assert names(tmp_path) == sorted([name, f"{name[1:]}f"])


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
def test_an_error_inside_is_raised_and_leaves_no_folder(tmp_path, error):
    with pytest.raises(type(error)) as caught, new_folder(tmp_path / "a") as folder:
        write_file(folder / "model.bin", b"x")
        raise error
    assert caught.value is error
    assert names(tmp_path) == []


def test_a_full_disk_is_reported_and_leaves_no_folder(tmp_path):
    with pytest.raises(HeadwayError, match="bytes are free"), new_folder(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert names(tmp_path) == []


def test_links_and_odd_names_are_not_saved(tmp_path):
    (tmp_path / "secret").write_text("s")
    with pytest.raises(HeadwayError, match="plain"), new_folder(tmp_path / "a") as folder:
        (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(HeadwayError, match="plain"), new_folder(tmp_path / "a") as folder:
        (folder / "a\\b").write_text("s")
    assert names(tmp_path) == ["secret"]


def test_a_save_that_is_killed_at_any_stage_leaves_all_or_nothing(tmp_path):
    """The process ends before each fsync and each rename of a save in turn."""
    steps = []
    for stage in range(40):
        folder = tmp_path / str(stage)
        folder.mkdir()
        make(folder / "step-1", number=1)

        def action(folder=folder, stage=stage):
            die_at(stage)
            make(folder / "step-2", number=2)

        status = in_child(action)
        newest, damaged = newest_verified(folder, "step-*")
        assert damaged == {}
        verify_folder(newest)
        step = read_json(newest / "inner" / "state.json")["step"]
        assert newest.name == f"step-{step}"
        steps.append(step)
        remove_unfinished_files(folder)
        assert names(folder) == ["step-1", "step-2"][:step]
        if status == 0:
            break
        assert status == 42
    assert stage > 10
    assert steps == sorted(steps)  # the old checkpoint up to some stage, then the new one
    assert set(steps) == {1, 2}


def test_replacing_files_that_is_killed_at_any_stage_leaves_all_old_all_new_or_is_refused(tmp_path):
    states = []
    for stage in range(60):
        folder = tmp_path / str(stage)
        folder.mkdir()
        replace_files(folder / "model", b"old" * 9, 1)
        (folder / "model" / "notes.txt").write_text("mine")

        def action(folder=folder, stage=stage):
            die_at(stage)
            with replaced_folder(folder / "model") as model_folder:
                write_file(model_folder / "model.bin", b"new" * 9)
                write_file(model_folder / "config.json", json.dumps({"step": 2}).encode())
                write_file(model_folder / "added.bin", b"added")

        status = in_child(action)
        weights = (folder / "model" / "model.bin").read_bytes()
        config = read_json(folder / "model" / "config.json")["step"]
        state = (weights[:3], config, (folder / "model" / "added.bin").exists())
        try:
            verify_folder(folder / "model")
        except DataError as error:
            assert "two versions" in error.what
            state = None
        if state not in states:
            states.append(state)
        remove_unfinished_files(folder)
        assert names(folder) == ["model"]
        assert (folder / "model" / "notes.txt").read_text() == "mine"
        if status == 0:
            break
        assert status == 42
    assert stage > 12
    assert states == [(b"old", 1, False), None, (b"new", 2, True)]
    manifest = read_json(folder / "model" / "MANIFEST.json")
    assert sorted(manifest["files"]) == ["added.bin", "config.json", "model.bin"]
    assert "previous" not in manifest


def test_after_a_killed_replacement_a_third_content_is_still_refused(tmp_path):
    replace_files(tmp_path / "model", b"old" * 9, 1)

    def action(stage):
        die_at(stage)
        replace_files(tmp_path / "model", b"new" * 9, 2)

    stages = (
        stage
        for stage in range(40)
        if in_child(lambda stage=stage: action(stage)) == 42
        and "previous" in read_json(tmp_path / "model" / "MANIFEST.json")
    )
    assert next(stages) > 5
    (tmp_path / "model" / "model.bin").write_bytes(b"bad" * 9)
    with pytest.raises(DataError, match="differs from the manifest"):
        verify_folder(tmp_path / "model")


def test_an_error_while_the_new_files_are_written_changes_nothing(tmp_path):
    replace_files(tmp_path / "model", b"old" * 9, 1)
    with pytest.raises(ZeroDivisionError), replaced_folder(tmp_path / "model") as folder:
        write_file(folder / "model.bin", b"new" * 9)
        raise ZeroDivisionError
    verify_folder(tmp_path / "model")
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "model.bin").read_bytes() == b"old" * 9


def test_everything_is_on_disk_before_the_name_appears(tmp_path, monkeypatch):
    """After a power failure only flushed files are guaranteed to exist, in any order."""
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


def test_every_truncation_and_every_flipped_bit_is_detected(tmp_path):
    make(tmp_path / "step-1", number=1)
    make(tmp_path / "step-2", number=2)
    target = tmp_path / "step-2"
    generator = random.Random(5)
    for file in [p for p in target.rglob("*") if p.is_file()]:
        whole = file.read_bytes()
        cuts = [whole[:length] for length in {0, 1, 2, len(whole) // 2, len(whole) - 1}]
        longer = [whole + b"\0", whole + whole]
        flips = []
        for bit in generator.sample(range(8 * len(whole)), min(8 * len(whole), 400)):
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            flips.append(bytes(damaged))
        for damaged in flips:
            file.write_bytes(damaged)
            with pytest.raises(DataError):
                verify_folder(target)
        for damaged in [*cuts, *longer, flips[0]]:
            file.write_bytes(damaged)
            newest, reasons = newest_verified(tmp_path, "step-*")
            assert newest == tmp_path / "step-1", damaged
            assert list(reasons) == [target] and reasons[target]
        file.write_bytes(whole)
    assert newest_verified(tmp_path, "step-*") == (target, {})


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/hostname", "a/../../secret", "a\0b", "", ".", "./a", "a//b", "a\\b", "a/"],
)
def test_a_manifest_cannot_name_a_file_outside_its_folder(tmp_path, name):
    (tmp_path / "secret").write_text("s")
    make(tmp_path / "a")
    text = json.dumps({"version": 1, "files": {name: {"size": 1, "sha256": "0"}}})
    (tmp_path / "a" / "MANIFEST.json").write_text(text)
    with pytest.raises(DataError, match="invalid file name"):
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


def test_the_newest_is_chosen_by_number_and_skipped_folders_are_reported(tmp_path):
    for step in (9, 80, 100):
        make(tmp_path / f"step-{step}")
    (tmp_path / "step-100" / "model.bin").unlink()
    (tmp_path / "step-200").mkdir()
    (tmp_path / "step-300.tmp-0123456789ab").mkdir()
    newest, damaged = newest_verified(tmp_path, "step-*")
    assert newest == tmp_path / "step-80"
    assert [path.name for path in damaged] == ["step-200", "step-100"]
    assert newest_verified(tmp_path, "other-*") == (None, {})


def test_only_unfinished_files_with_names_of_this_protocol_are_removed(tmp_path):
    kept_names = ["a.tmp-0123", "a.tmp-0123456789aZ", "b.tmp", "c", ".tmp-0123456789ab"]
    for name in [*kept_names, "x.tmp-0123456789ab"]:
        (tmp_path / name).write_text("x")
    (tmp_path / "y.tmp-ffffffffffff" / "inner").mkdir(parents=True)
    assert len(remove_unfinished_files(tmp_path)) == 2
    assert names(tmp_path) == sorted(kept_names)


def killed(action):
    """Run `action` in a child that ends inside it, as if it were killed."""

    def until_the_end():
        action()
        os._exit(42)

    assert in_child(until_the_end) == 42


def unfinished(folder):
    """Leave half of a folder and half of a file."""
    with new_folder(folder / "a") as inside:
        (inside / "model.bin").write_bytes(b"half")
        die_at(0)
        write_file(folder / "vectors.npz", b"half")


@pytest.mark.parametrize(
    "write",
    [
        lambda path: make(path / "b"),
        lambda path: make(path / "a"),
        lambda path: write_file(path / "page.html", b"<html>"),
    ],
)
def test_what_a_killed_process_left_is_removed_by_the_next_write_beside_it(tmp_path, write):
    killed(lambda: unfinished(tmp_path))
    assert [name[:-12] for name in names(tmp_path)] == ["a.tmp-", "vectors.npz.tmp-"]
    write(tmp_path)
    assert not [name for name in names(tmp_path) if ".tmp-" in name]


def test_replacing_files_removes_what_a_killed_process_left_too(tmp_path):
    replace_files(tmp_path / "a", b"old", 1)
    killed(lambda: die_at(0) or replace_files(tmp_path / "a", b"new!", 2))
    assert len(names(tmp_path)) == 2
    replace_files(tmp_path / "a", b"newer", 3)
    assert names(tmp_path) == ["a"]


def test_what_another_process_is_writing_stays(tmp_path):
    written, finish = os.pipe(), os.pipe()

    def slow():
        with new_folder(tmp_path / "slow") as inside:
            os.write(written[1], b"x")
            os.read(finish[0], 1)
            (inside / "model.bin").write_bytes(b"whole")
        os._exit(0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's threads, see `in_child`
        child = os.fork()
    if child == 0:
        slow()
    os.read(written[0], 1)
    make(tmp_path / "other")
    assert remove_unfinished_files(tmp_path) == []
    os.write(finish[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for descriptor in [*written, *finish]:
        os.close(descriptor)
    assert (tmp_path / "slow" / "model.bin").read_bytes() == b"whole"
    assert names(tmp_path) == ["other", "slow"]


def test_a_temporary_that_another_process_removes_at_once_is_made_again(tmp_path, monkeypatch):
    made = []

    def removed_once(path):
        temporary = path.with_name(f"{path.name}.tmp-{len(made):012}")
        made.append(temporary)
        return temporary

    monkeypatch.setattr("headway.base.files.temporary_path", removed_once)
    monkeypatch.setattr("headway.base.folders.temporary_path", removed_once)
    lock_of = fcntl.flock

    def flock(descriptor, flags):
        if len(made) % 2:  # every first one
            raise BlockingIOError
        lock_of(descriptor, flags)

    monkeypatch.setattr("fcntl.flock", flock)
    write_file(tmp_path / "a", b"x")
    assert len(made) == 2 and (tmp_path / "a").read_bytes() == b"x"
