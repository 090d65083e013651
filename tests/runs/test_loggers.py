"""The log of a run for other tools: each number once, and no failure that ends the run."""

import json

import pytest

from headway.base.errors import HeadwayWarning, UsageError
from headway.runs import loggers
from headway.runs.loggers import Logger


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run.yaml").write_text("recipe: gpt-tiny\noptimizer.lr: 0.001\n")
    return tmp_path


class Fake:
    """A log in memory. fails: raises an error at the second row."""

    def __init__(self, place, rows, fails=False):
        self.place, self.rows, self.fails = place, rows, fails

    def row(self, step, values):
        if self.fails and self.rows:
            raise OSError("no space left")
        self.rows.append((step, dict(values)))

    def close(self):
        self.rows.append("closed")


def train(listener, first, last):
    for step in range(first, last + 1):
        listener({"kind": "train", "step": step, "loss": 1 / step, "time": 7.0})
    listener({"kind": "sample", "step": last, "output": "x"})
    listener({"kind": "valid", "step": last, "bleu": 30, "is_best": True, "time": 7.0})


def test_the_numbers_of_a_run_are_written_with_the_names_of_their_events(run):
    rows = []
    places = []

    def make(place):
        places.append(place)
        return Fake(place, rows)

    logger = Logger("fake", run, make)
    train(logger, 1, 2)
    logger.close()
    assert rows == [
        (1, {"train/loss": 1.0}),
        (2, {"train/loss": 0.5}),
        (2, {"valid/bleu": 30.0}),
        "closed",
    ]
    assert places[0].settings == {"recipe": "gpt-tiny", "optimizer.lr": 0.001}


def test_a_resumed_run_continues_the_same_log_without_doubles(run):
    rows, ids = [], []

    def make(place):
        ids.append(place.id)
        return Fake(place, rows)

    train(Logger("fake", run, make), 1, 5)  # killed at step 5, with a checkpoint of step 3
    train(Logger("fake", run, make), 4, 7)
    steps = [(step, name) for step, values in rows for name in values]
    assert len(steps) == len(set(steps))
    assert {step for step, name in steps if name == "train/loss"} == set(range(1, 8))
    assert ids == [ids[0]] * 2
    note = json.loads((run / "logs" / "fake.json").read_text())
    assert note == {"id": ids[0], "train": 7, "valid": 7}


def test_a_log_that_fails_is_left_out_after_one_warning(run):
    rows = []
    logger = Logger("fake", run, lambda place: Fake(place, rows, fails=True))
    with pytest.warns(HeadwayWarning, match="fake: OSError: no space left") as warned:
        train(logger, 1, 5)
        logger.close()
    assert len(warned) == 1 and rows == [(1, {"train/loss": 1.0})]


def test_what_a_tool_prints_is_no_result(run, capsys):
    def make(place):
        print("hello from a tool")
        return Fake(place, [])

    train(Logger("fake", run, make), 1, 1)
    assert capsys.readouterr() == ("", "hello from a tool\n")


def test_a_tool_that_is_not_installed_is_named_before_the_training(run, monkeypatch):
    monkeypatch.setattr(loggers, "WRITERS", {"absent": ("no_such_module", Fake)})
    match = "absent is not installed"
    with pytest.raises(UsageError, match=match), loggers.loggers(["absent"], run):
        pass
