"""The command line in the tests' own process, where torch is loaded already."""

import io

import pytest

from headway.cli.main import main


@pytest.fixture
def here(place, monkeypatch, capsys):
    """Runs words in the folder that the test file's `place` made: (standard output, talk)."""
    monkeypatch.chdir(place)

    def run(*words: str, given: str | bytes = "", code: int = 0) -> tuple[str, str]:
        raw = given.encode() if isinstance(given, str) else given
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
        with pytest.raises(SystemExit) as leaving:
            main(words)
        said = capsys.readouterr()
        assert leaving.value.code == code, said.err
        assert "Traceback" not in said.err
        return said.out, said.err

    return run
