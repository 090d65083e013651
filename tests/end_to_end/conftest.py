"""The command line in the folder of a test file."""

import pytest

from tests.fixtures.command_line import headway


@pytest.fixture
def here(place):
    """Runs words in the folder that the test file's `place` made: (standard output, talk)."""

    def run(*words: str, given: str | bytes = "", code: int = 0) -> tuple[str, str]:
        done = headway(*words, cwd=place, text=given, check=code)
        return done.stdout, done.stderr

    return run
