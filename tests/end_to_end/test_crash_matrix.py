"""The crash matrix: what is written, times what happens while it is written.

In each cell a reader finds the former state or the new one, whole, or an error that names the
damaged file; the same call again completes the work, and no temporary file is left. A cell does so
at some of the operations on files; the slow ones do at all of them.

`python -m pytest -m "slow or not slow" tests/end_to_end/test_crash_matrix.py` tests all cells.
"""

import errno
import os
import shutil
import time
from pathlib import Path

import pytest

from headway.base.errors import HeadwayError
from headway.cli.main import explained
from headway.data import token_shards
from tests.fixtures.file_operations import (
    REMOVING,
    WRITING,
    failing,
    operations_of,
    power_losses,
    temporary_files,
    watched,
    written,
)
from tests.fixtures.saved_things import Saved, saved_things, write_texts

NAMES = tuple(saved_things(Path()))
SOME = 3
"""Number of operations of a cell that are disturbed every time."""
COUNTS = [
    pytest.param(SOME, id="some"),
    pytest.param(1_000_000, id="all", marks=pytest.mark.slow),
]
MAY_BE_NAMED = {"best model"}
"""What may be damaged by a crash, in which case the error names the file."""


@pytest.fixture(scope="module", autouse=True)
def _small_shards():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(token_shards, "SHARD_BYTES", 200)
        yield


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    return saved_things(write_texts(tmp_path_factory.mktemp("texts")))


@pytest.fixture(scope="module")
def before(things, tmp_path_factory):
    """A folder with the former state of each thing."""
    folder = tmp_path_factory.mktemp("before")
    for name, thing in things.items():
        (folder / name).mkdir()
        thing.old(folder / name)
    return folder


@pytest.fixture(scope="module")
def losses():
    """Name -> the states in which a loss of power leaves a thing, once they are known."""
    return {}


class Cell:
    """A thing with its former state, of which every disturbance gets a copy."""

    def __init__(self, name: str, thing: Saved, before: Path, folder: Path) -> None:
        self.name, self.thing, self.before, self.folder = name, thing, before / name, folder
        self.copies = 0
        self.old = thing.read(self.copy())
        done = self.copy()
        thing.new(done)
        self.new = thing.read(done)
        assert self.old != self.new, "the action changes nothing"

    def copy(self) -> Path:
        self.copies += 1
        return Path(shutil.copytree(self.before, self.folder / f"copy-{self.copies}"))

    def check(self, folder: Path) -> str:
        """Check what a reader finds, and return whether it is old, new, a part, or damaged."""
        try:
            found = self.thing.read(folder)
        except HeadwayError as error:
            assert self.name in MAY_BE_NAMED and str(folder) in str(error.where), error
            return "damaged"
        if found == self.old:
            return "old"
        if found == self.new:
            return "new"
        assert self.thing.parts(found, self.old, self.new), found
        return "part"

    def check_again(self, folder: Path) -> None:
        """Check that the same call again completes the work and removes what was left."""
        self.thing.new(folder)
        assert self.check(folder) == "new"
        assert not temporary_files(folder), "the same call has not removed what was left"


@pytest.fixture
def cell(things, before, tmp_path, request):
    name = request.getfixturevalue("name")
    return Cell(name, things[name], before, tmp_path)


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` of the numbers below `count`, evenly spaced, with the last one."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("model", ["written", "flushed", "names first"])
@pytest.mark.parametrize("name", NAMES)
def test_a_loss_of_power_leaves_the_old_state_or_the_new(cell, losses, name, model, count):
    if name not in losses:
        folder = cell.copy()
        losses[name] = list(power_losses(folder, lambda: cell.thing.new(folder)))
    states = [state for state in losses[name] if state[0] == model]
    chosen = spread(len(states), count)
    found = set()
    for number in chosen:
        _, is_end, tree = states[number]
        left = written(tree, cell.folder / f"state-{number}")
        state = cell.check(left)
        assert not is_end or state == "new", f"{model}: what was saved is lost"
        found.add(state)
        cell.check_again(left)
    assert "new" in found and (count == SOME or "old" in found)


FAULTS = {
    "I/O error": (errno.EIO, None),
    "full disk": (errno.ENOSPC, WRITING),
    "read-only from now on": (errno.EROFS, WRITING | REMOVING),
    "out of memory": (MemoryError, None),
    "Ctrl-C": (KeyboardInterrupt, None),
}
"""What happens -> the error of an operation, and the kinds of later operations that fail, too."""


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_failed_operation_is_reported_and_leaves_the_old_state_or_the_new(
    cell, name, fault, count
):
    error, later = FAULTS[fault]
    folder = cell.copy()
    operations = operations_of(folder, lambda: cell.thing.new(folder))
    numbers = [o.number for o in operations if later is None or o.name in later]
    last_write = max(o.number for o in operations if o.name in WRITING)
    for number in (numbers[i] for i in spread(len(numbers), count)):
        folder = cell.copy()
        raised = None
        try:
            with watched(folder, failing(number, error, later)):
                cell.thing.new(folder)
        except (Exception, KeyboardInterrupt) as caught:
            raised = caught
        where = f"{operations[number]}: {raised!r}"
        if isinstance(error, int) and raised is not None:
            assert os.strerror(error) in str(explained(raised)), where
        elif raised is not None:
            assert isinstance(raised, error), where
        state = cell.check(folder)
        assert raised is not None or state == "new", where
        if later is None and number <= last_write:  # what follows only removes temporary files
            assert not temporary_files(folder), where
        cell.check_again(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_clock_that_goes_back_changes_nothing(cell, name, monkeypatch):
    folder = cell.copy()
    later = time.time() + 1e6
    for path in folder.rglob("*"):
        os.utime(path, (later, later))
    clock = iter(range(10**6, 0, -1))
    for name_of_clock in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name_of_clock, lambda: float(next(clock)))
    cell.thing.new(folder)
    assert cell.check(folder) == "new"
    cell.check_again(folder)
