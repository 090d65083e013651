"""`headway train --help` and `headway eval --help`: recipes, settings, defaults of options."""

import re

import pytest

from headway.base.settings import fields_of
from headway.runs import recipes
from tests.fixtures.command_line import headway


def test_without_a_recipe_every_recipe_is_listed_with_its_first_sentence(tmp_path):
    text = headway("train", "--help", cwd=tmp_path).stdout
    for name in recipes():
        assert re.search(rf"^  {re.escape(name)} +\w", text, re.M), name


@pytest.mark.parametrize("name", recipes())
def test_every_setting_of_a_recipe_is_listed_once(name, tmp_path):
    text = headway("train", name, "--help", cwd=tmp_path).stdout.split("Most used", 1)[1]
    from headway.cli.flags import SHORT

    short = {key: flag for flag, key in SHORT.items()}
    for key in fields_of(recipes()[name]()):
        flag = short.get(key, key).replace("_", "-")
        lines = re.findall(rf"^  --{re.escape(flag)}(?: |$)", text, re.M)
        assert len(lines) == (0 if key == "recipe" else 1), key


def test_the_help_of_the_evaluation_shows_the_defaults_of_each_task(tmp_path):
    text = " ".join(headway("eval", "--help", cwd=tmp_path).stdout.replace("│", " ").split())
    assert "Beam width; 1 is greedy (default: 5)" in text
    assert (
        "maximum number of sentences for pseudo-perplexity, evenly spaced; 0: none (default" in text
    )


def test_the_help_of_a_task_is_that_of_its_first_recipe(tmp_path):
    task_help = headway("train", "tagging", "--help", cwd=tmp_path).stdout
    assert task_help == headway("train", "tag", "--help", cwd=tmp_path).stdout
    common = task_help.split("Most used")[1].split("\n\n")[0]
    assert "--data" in common and "--optimizer" not in common
    assert re.search(r"^  --from +\w", common, re.M) and "short: " not in common
    for section in ("data", "model", "optimizer", "schedule", "training", "checkpoint"):
        assert f"\n\n{section}:\n" in task_help
