"""The progress of work that takes longer than two seconds."""

import threading
from itertools import chain, repeat
from types import SimpleNamespace

import pytest

from headway.inspection import watch
from headway.inspection.watch import ANALYSES, SLOW
from headway.terminal import progress as module
from headway.terminal.progress import progress
from tests.fixtures.bundles import bert_classifier, gpt
from tests.fixtures.command_line import headway


@pytest.fixture
def pipe(monkeypatch):
    """Standard error as a pipe. lines: what was printed; some: set when there is a line."""
    printed = SimpleNamespace(lines=[], some=threading.Event(), is_terminal=False)

    def note(line, markup):
        printed.lines.append(line)
        printed.some.set()

    printed.print = note
    monkeypatch.setattr(module, "talk", printed)
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.0)
    clock = chain([0.0], repeat(60.0))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    return printed


def test_a_pipe_gets_a_line_with_the_remaining_time(pipe):
    with progress("inspecting") as report:
        report(0.25)
        assert pipe.some.wait(60)
    assert pipe.lines[0] in ("inspecting: 60 s", "inspecting: 25%, ETA 0:03:00")


def test_short_work_prints_nothing(pipe, monkeypatch):
    monkeypatch.setattr(module, "FIRST_SECONDS", 60.0)
    with progress("inspecting") as report:
        report(0.5)
    assert not pipe.lines


@pytest.mark.parametrize(
    ("fraction", "line"), [(0.0, "inspecting: 30 s"), (0.25, "inspecting: 25%, ETA 0:01:30")]
)
def test_a_line_names_the_work_and_the_remaining_time(fraction, line):
    assert module._line("inspecting", fraction, 30.0) == line


def test_an_inspection_reports_what_is_done():
    fractions = []
    watch(gpt(), "the fox", analyses=(*ANALYSES, *SLOW), report=fractions.append)
    assert len(fractions) > 4 and fractions == sorted(fractions)
    assert fractions[0] < 0.2 and fractions[-1] == pytest.approx(1, abs=0.05)


def test_the_commands_show_it(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.0)
    gpt().save(tmp_path / "gpt")
    bert_classifier().save(tmp_path / "classifier")
    (tmp_path / "text.txt").write_text("the fox runs\n" * 5)
    for words, line in (
        (("inspect", "gpt", "the fox", "--json"), "inspecting: "),
        (("eval", "gpt", "text.txt"), "evaluating: "),
        (("generate", "gpt", "the", "fox", "--max-tokens", "3"), "generating for 2 prompts: "),
        (("classify", "classifier", "the fox", "a dog"), "predicted 0 texts: "),
        (("quantize", "gpt", "--to", "int8"), "quantising to int8: "),
        (("export", "gpt", "--to", "hf", "-o", "new"), "writing new, and running it: "),
    ):
        assert line in headway(*words, cwd=tmp_path).stderr
