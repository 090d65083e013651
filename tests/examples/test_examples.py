"""The examples as a reader runs them."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@cache
def run(name: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_fits_on_two_screens_and_says_how_to_run_it(path):
    text = path.read_text()
    assert len(text.split("\n")) <= 100
    assert f"python examples/{path.name}" in text


def test_the_dictionary_raises_where_attention_answers():
    said = run("soft_lookup.py")
    assert "KeyError: 'orange'" in said
    assert "0.1 pomme + 0.1 banane + 0.8 citron" in said and "nearest to citron" in said


def test_the_room_of_a_name_that_is_not_in_the_table_is_a_mixture_of_rooms():
    said = run("soft_lookup.py")
    # By hand: Smith, Summer and Smeeth share 1, 4 and 3 of the 11 pairs of letters.
    assert re.findall(r"S\w+ +20\d +(0\.\d\d)", said) == ["0.19", "0.47", "0.34"]
    assert "room 201.16" in said and "most like Summer" in said


def test_the_rooms_can_be_asked_for_any_name():
    assert "most like Smeeth, in 202" in run("soft_lookup.py", "Smeeth")
    nothing_alike = run("soft_lookup.py", "Zoë")
    assert re.findall(r"S\w+ +20\d +(0\.\d\d)", nothing_alike) == ["0.33"] * 3


def test_every_step_is_the_same_permuted_until_positions_are_added():
    without, with_positions = run("permutation.py").split("WITH SINUSOIDAL POSITIONS")
    assert without.count("  same, permuted") == 7 and "NOT the same" not in without
    assert without.count("rows and columns") == 2
    assert with_positions.count("NOT the same") == 7 and "  same" not in with_positions


def test_both_orders_show_the_same_rows():
    """Read back from the screen: each word's output on the left stands on the right as well."""
    without = run("permutation.py").split("WITH SINUSOIDAL POSITIONS")[0]
    outputs = without.split("outputs (weights v) W_O\n")[1].split("\n")[:4]
    rows = [line.split() for line in outputs]
    assert [row[0] for row in rows] == ["the", "quick", "brown", "fox"]
    left = {row[0]: row[1:5] for row in rows}
    right = {row[5]: row[6:10] for row in rows}
    assert list(right) == ["brown", "the", "fox", "quick"]
    for word, cells in left.items():
        assert [float(c) for c in right[word]] == pytest.approx(
            [float(c) for c in cells], abs=0.011
        )


def test_a_language_model_learns_to_count_on_tensors_of_ones_own():
    assert run("own_loop.py").split() == [*"7890123456"]


def test_a_model_built_from_blocks_learns_to_sort_and_is_recorded():
    said = run("own_model.py")
    share = int(re.search(r"(\d+)% of the digits", said)[1])
    assert share >= 90
    assert said.rstrip().endswith("encoder.blocks.0.attention, encoder.blocks.1.attention")
