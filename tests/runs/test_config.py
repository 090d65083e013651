"""Settings of runs: times with a unit, and those that a recipe leaves to the machine."""

import pytest

from headway.base.devices import MachineConfig
from headway.base.errors import UsageError
from headway.runs import recipe, recipes
from headway.training.budget import parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("0.5s", 0.5),
        ("30m", 1800),
        ("1.5h", 5400),
        ("1h30m", 5400),
        ("1h 30m 5s", 5405),
        (" 2 h ", 7200),
        ("366d", 366 * 86_400),
    ],
)
def test_a_time_is_a_number_with_a_unit(text, seconds):
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["5", "5.5", "0", "600"])
def test_a_number_without_a_unit_is_refused_with_examples(text):
    with pytest.raises(UsageError, match=f"training.time={text} has no unit") as caught:
        parse_time(text)
    assert "30m (minutes)" in caught.value.hint


@pytest.mark.parametrize(
    "text", ["soon", "", "nan", "inf", "nans", "-5m", "1e9s", "m", "5w", "٣s5"]
)
def test_an_invalid_time_is_refused_with_examples(text):
    with pytest.raises(UsageError, match="is not a time") as caught:
        parse_time(text)
    assert "1h30m" in caught.value.hint


@pytest.mark.parametrize("text", ["0s", "0.0m", "367d", "9" * 400 + "s"])
def test_a_time_of_zero_and_one_of_years_are_refused(text):
    with pytest.raises(UsageError, match="at most 366d"):
        parse_time(text)


def test_a_recipe_refuses_a_time_at_once():
    with pytest.raises(UsageError, match="has no unit"):
        recipe("gpt-tiny", ("test", {"training.time": "5"}))


@pytest.mark.parametrize("name", recipes())
def test_no_recipe_decides_what_the_machine_does(name):
    """Its device, dtype, threads, graphs and parts of batches suit the machine at hand."""
    assert recipes()[name]().machine == MachineConfig()
