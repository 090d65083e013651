"""What every test shares: seeds, threads, and the door to real data."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from tests import shape_checks

shape_checks.install()
# A busy machine is no failure, and a run that is red must be red again.
settings.register_profile("headway", deadline=None, derandomize=True)
settings.load_profile("headway")


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported stays: no collection need look through it again


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    shape_checks.start_test()


@pytest.fixture(autouse=True)
def _reproducible() -> Iterator[None]:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # tiny tensors: a second thread only waits
    yield


@pytest.fixture
def real_data():
    """real_data("mt/x.tsv.gz") -> its path, or the test is skipped with that name."""

    def find(name: str) -> Path:
        folder = os.environ.get("HEADWAY_DATA")
        if folder is None:
            pytest.skip(f"{name}: HEADWAY_DATA is not set")
        path = Path(folder) / name
        if not path.exists():
            pytest.skip(f"{name} is not there")
        return path

    return find
