"""The command line in the folder of a test file."""

import pytest

from headway.terminal import progress
from tests.fixtures.command_line import headway


@pytest.fixture(autouse=True)
def no_progress_of_a_slow_machine(monkeypatch):
    """Standard error has no lines that depend on the speed of the machine."""
    monkeypatch.setattr(progress, "FIRST_SECONDS", 600.0)


@pytest.fixture
def run_headway(working_folder):
    """Run the command line in the folder that the test file's `working_folder` made.

    The function returns the standard output and the standard error, and expects the exit code
    `code`.
    """

    def run(*words: str, standard_input: str | bytes = "", code: int = 0) -> tuple[str, str]:
        done = headway(*words, cwd=working_folder, text=standard_input, check=code)
        return done.stdout, done.stderr

    return run
