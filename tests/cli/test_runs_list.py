"""The list of runs fits the terminal; in a pipe it is whole."""

from types import SimpleNamespace

import pytest

from headway.cli import runs
from headway.cli.runs import _print_table

ROWS = [
    ("runs/translator", "12,000", "BLEU 39.11", "2026-01-02 03:04", "translate"),
    ("runs/b", "5", "-", "2026-01-02 03:05", "gpt-tiny"),
]


def test_a_pipe_gets_all_columns_without_headings(capsys):
    _print_table(ROWS)
    shown = capsys.readouterr()
    assert not shown.err
    assert [line.split()[-1] for line in shown.out.splitlines()] == ["translate", "gpt-tiny"]


@pytest.mark.parametrize(
    "width, last", [(62, "changed"), (40, "best"), (20, "run"), (80, "recipe")]
)
def test_a_terminal_gets_the_columns_that_fit(capsys, monkeypatch, width, last):
    monkeypatch.setattr(runs, "on_output", lambda: SimpleNamespace(width=width, is_terminal=True))
    _print_table(ROWS)
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].split()[-1] == last
    assert all(len(line) <= width for line in (shown.err + shown.out).splitlines())
