"""`headway train --help`: every recipe on a line, and the settings of one recipe by section."""

import re

import pytest

from headway.runs import RECIPES
from headway.settings import fields_of
from tests.fixtures.command_line import headway


def test_without_a_recipe_every_recipe_is_listed_with_its_first_sentence(tmp_path):
    text = headway("train", "--help", cwd=tmp_path).stdout
    for name in RECIPES:
        assert re.search(rf"^  {re.escape(name)} +\w", text, re.M), name


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_of_a_recipe_is_listed_once(name, tmp_path):
    text = headway("train", name, "--help", cwd=tmp_path).stdout.split("Most used", 1)[1]
    from headway.cli.train import SHORT

    short = {key: flag for flag, key in SHORT.items()}
    for key in fields_of(RECIPES[name]()):
        flag = short.get(key, key).replace("_", "-")
        lines = re.findall(rf"^  --{re.escape(flag)}(?: |$)", text, re.M)
        assert len(lines) == (0 if key == "recipe" else 1), key


def test_the_help_of_a_task_is_that_of_its_first_recipe(tmp_path):
    task_help = headway("train", "tagging", "--help", cwd=tmp_path).stdout
    assert task_help == headway("train", "tag", "--help", cwd=tmp_path).stdout
    common = task_help.split("Most used")[1].split("\n\n")[0]
    assert "--data" in common and "--optimizer" not in common
    for section in ("data", "model", "optimizer", "schedule", "training", "checkpoint"):
        assert f"\n\n{section}:\n" in task_help
