"""The examples, run as scripts."""

import contextlib
import io
import re
import runpy
import sys
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@cache
def run(name: str, *words: str) -> str:
    """Run an example as a script in this process, and return its output."""
    path, output, errors = ROOT / "examples" / name, io.StringIO(), io.StringIO()
    redirected = contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors)
    with redirected[0], redirected[1], patch.object(sys, "argv", [str(path), *words]):
        runpy.run_path(str(path), run_name="__main__")
    assert errors.getvalue() == ""
    return output.getvalue()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_at_most_100_lines_and_documents_its_command(path):
    text = path.read_text()
    assert len(text.split("\n")) <= 100
    assert f"python examples/{path.name}" in text


def test_attention_returns_a_mixture_where_a_dictionary_raises_an_error():
    output = run("soft_lookup.py")
    assert "KeyError: 'orange'" in output
    assert "0.1 pomme + 0.1 banane + 0.8 citron" in output and "nearest to citron" in output


def test_the_room_of_an_unknown_name_is_a_mixture_of_rooms():
    output = run("soft_lookup.py")
    # By hand: Smith, Summer and Smeeth share 1, 4 and 3 of the 11 pairs of letters.
    assert re.findall(r"S\w+ +20\d +(0\.\d\d)", output) == ["0.19", "0.47", "0.34"]
    assert "room 201.16" in output and "most like Summer" in output


def test_any_name_can_be_the_query():
    assert "most like Smeeth, in 202" in run("soft_lookup.py", "Smeeth")
    no_common_bigrams = run("soft_lookup.py", "Zoë")
    assert re.findall(r"S\w+ +20\d +(0\.\d\d)", no_common_bigrams) == ["0.33"] * 3


def test_self_attention_is_permutation_equivariant_only_without_positions():
    without, with_positions = run("permutation.py").split("WITH SINUSOIDAL POSITIONS")
    assert without.count("  same, permuted") == 7 and "NOT the same" not in without
    assert without.count("rows and columns") == 2
    assert with_positions.count("NOT the same") == 7 and "  same" not in with_positions


def test_both_orders_have_the_same_outputs():
    """The printed output of each word on the left is also printed on the right."""
    without = run("permutation.py").split("WITH SINUSOIDAL POSITIONS")[0]
    outputs = without.split("outputs (weights v) W_O\n")[1].split("\n")[:4]
    rows = [line.split() for line in outputs]
    assert [row[0] for row in rows] == ["the", "quick", "brown", "fox"]
    original = {row[0]: row[1:5] for row in rows}
    permuted = {row[5]: row[6:10] for row in rows}
    assert list(permuted) == ["brown", "the", "fox", "quick"]
    for word, cells in original.items():
        assert [float(c) for c in permuted[word]] == pytest.approx(
            [float(c) for c in cells], abs=0.011
        )


def test_a_language_model_learns_to_count_from_the_users_tensors():
    assert run("own_loop.py").split() == [*"7890123456"]


def test_a_model_built_from_blocks_learns_to_sort_and_is_recorded():
    output = run("own_model.py")
    percentage = int(re.search(r"(\d+)% of the digits", output)[1])
    assert percentage >= 90
    assert output.rstrip().endswith("encoder.blocks.0.attention, encoder.blocks.1.attention")
