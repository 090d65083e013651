"""Setup of all tests: seeds, threads, temporary folders, and the fixture of real data."""

import functools
import gc
import os
import shutil
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from zlib import crc32

import pytest
import torch
from hypothesis import settings

from headway.base import devices
from tests import shape_checks

shape_checks.install()
# Deadlines would fail on a busy machine; derandomised examples make failures reproducible.
settings.register_profile("headway", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("every example", deadline=None, derandomize=True)


@functools.wraps(devices.dtype_for)
def _same_on_every_processor(device: str, dtype: str) -> str:
    """What `auto` selects in tests: float32, whatever the processor multiplies."""
    return "float32" if dtype == "auto" else dtype


devices.dtype_for = _same_on_every_processor
MEMORY, NEEDED = Path("/dev/shm"), 4 * 2**30
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > NEEDED:
    # Runs are flushed to disk at every save; in memory that takes no time.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_configure(config: pytest.Config) -> None:
    """Hide GPUs from all tests but those marked `gpu`: the others compare bits, and what the
    command line computes on the device that it selects with what Python computes on the CPU.

    Without a GPU, Triton's interpreter executes its kernels on the CPU.
    """
    expression = config.getoption("markexpr", "")
    settings.load_profile("headway" if "not slow" in expression else "every example")
    if "gpu" not in expression or "not gpu" in expression:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # torch reads it when CUDA is first used
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    if not torch.accelerator.is_available():
        # The plain function writes down the stack for each kind of device that is absent, in case
        # it appears: half a millisecond, twenty thousand times.
        torch.manual_seed = lambda seed: torch.default_generator.manual_seed(int(seed))


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """One worker more than there are cores: some tests wait for a browser or for a process."""
    return (yield) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `slow` all but one in n cases of each test that is marked `turns(n)`.

    Checksums of their names choose: which ones run has nothing to do with the order of parameters.
    """
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("turns"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for group in cases.values():
        (turns,) = group[0].get_closest_marker("turns").args
        group.sort(key=lambda item: crc32(item.nodeid.encode()))
        for item in group[-(-len(group) // turns) :]:
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    gc.freeze()  # imported modules are permanent, so garbage collections can skip them


@pytest.fixture(autouse=True, scope="module")
def _shapes_checked_anew() -> None:
    shape_checks.start_file()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Before the fixtures of a file, too: their models are compared bit by bit in its tests.

    A server or a probe of threads in an earlier test leaves the product's library with the number
    of threads it used, in the whole process.
    """
    torch.set_num_threads(1)  # with tiny tensors a second thread only waits
    shape_checks.start_test()


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    torch.manual_seed(0)


@pytest.fixture
def real_data():
    """real_data("mt/x.tsv.gz") -> its path, or the test is skipped with that name."""

    def find(name: str) -> Path:
        folder = os.environ.get("HEADWAY_DATA")
        if folder is None:
            pytest.skip(f"{name}: HEADWAY_DATA is not set")
        path = Path(folder) / name
        if not path.exists():
            pytest.skip(f"{name} does not exist")
        return path

    return find
