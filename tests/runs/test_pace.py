"""What a time limit buys: a batch size that suits it, and what the plan says."""

import pytest

import headway
from headway.base.errors import UsageError
from headway.runs import pace, recipe
from headway.runs.pace import Pace
from headway.training.budget import parse_time
from tests.fixtures.command_line import write_corpus
from tests.fixtures.tiny_settings import TRANSLATOR

TINY = {**TRANSLATOR, "machine.threads": 1, "training.tokens": 256, "training.updates": 800}
TIMED = {**TINY, "training.time": "0.4s", "training.steps": 9}


@pytest.fixture
def slow(monkeypatch):
    """A machine on which a step takes 0.2 ms for each token of its batch; the measured sizes."""
    sizes = []

    def measured(job, machine):
        sizes.append(job.config.training.tokens)
        seconds = parse_time(job.config.training.time)
        step_seconds = sizes[-1] / 5000
        return Pace(step_seconds, int(seconds / step_seconds), 1.0, is_limited_by_time=True)

    monkeypatch.setattr(pace, "measured", measured)
    return sizes


@pytest.fixture
def train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "corpus")

    def run(**changes):
        settings = {**TIMED, **{key.replace("__", "."): value for key, value in changes.items()}}
        return headway.train("translate", data="corpus", run="x", settings=settings, quiet=True)

    return run


@pytest.mark.parametrize(
    ("updates", "size", "measured"),
    [(7, 256, [256]), (15, 128, [256, 128]), (800, 64, [256, 128, 64]), (0, 256, [256])],
)
def test_the_batch_is_halved_until_the_time_is_enough(train, slow, updates, size, measured):
    run = train(training__updates=updates, training__steps=10**6)
    assert slow == measured and run.config.training.tokens == size
    assert run.stop == "time"


def test_a_batch_size_of_the_user_stays(slow):
    assert recipe("translate", ("x", {"training.tokens": 256})).training.updates == 0
    assert recipe("gpt", ("x", {"training.batch_size": 4})).training.updates == 0
    assert recipe("gpt", ("x", {"training.accumulate": 2})).training.updates == 0
    both = recipe("gpt", ("x", {"training.batch_size": 4, "training.updates": 7}))
    assert both.training.updates == 7


def test_steps_that_the_time_is_enough_for_change_no_batch(train, slow):
    run = train(training__steps=3, training__time="60s")
    assert slow == [256] and run.config.training.tokens == 256 and run.stop == "done"


def test_a_batch_of_half_the_size_that_is_no_faster_is_not_used(train, monkeypatch):
    """On a busy machine, a step takes as long as its threads wait for each other."""
    busy = Pace(0.5, 4, 0.1, is_limited_by_time=True)
    monkeypatch.setattr(pace, "measured", lambda job, machine: busy)
    assert train().config.training.tokens == 256


def test_the_same_command_resumes_with_the_batch_of_the_run(train, slow):
    first = train()
    assert first.config.training.tokens == 128
    slow.clear()
    second = train()
    assert not slow and second.config.training.tokens == 128
    with pytest.raises(UsageError, match=r"training\.tokens: 128 in the run, 32 now"):
        train(training__tokens=32, training__updates=0)


def test_the_same_command_takes_no_further_step_once_the_time_is_used_up(train, slow):
    first = train(training__steps=10**6, training__time="0.2s")
    steps = first.history("finished")[-1]["step"]
    second = train(training__steps=10**6, training__time="0.2s")
    assert (second.stop, second.history("finished")[-1]["step"]) == ("time", steps)


def test_the_plan_says_what_the_time_buys(train):
    (plan,) = train(training__steps=10**6, training__time="1s").history("plan")
    assert plan["buys"].startswith("1s is enough for about ")


@pytest.mark.parametrize(
    ("updates", "is_limited", "is_warned"),
    [(90, True, True), (300, True, False), (90, False, False)],
)
def test_a_time_that_is_too_short_is_said_to_be(updates, is_limited, is_warned):
    text = Pace(1.0, updates, 0.32, is_limited_by_time=is_limited).describe("5m")
    assert text.startswith(f"5m is enough for about {updates} updates, 0.32 epochs")
    assert ("too little for a good model" in text) == is_warned
