"""`headway train --help`: every recipe in a line, and the settings of one by section."""

import re

import pytest

from headway.runs import RECIPES
from headway.settings import fields_of
from tests.fixtures.command_line import headway


@pytest.fixture
def working_folder(tmp_path):
    return tmp_path


def test_without_a_recipe_every_recipe_stands_there_with_its_first_sentence(working_folder):
    text = headway("train", "--help", cwd=working_folder).stdout
    for name in RECIPES:
        assert re.search(rf"^  {re.escape(name)} +\w", text, re.M), name


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_of_a_recipe_stands_there_once(name, working_folder):
    text = headway("train", name, "--help", cwd=working_folder).stdout.split("Most used", 1)[1]
    from headway.cli.train import SHORT

    short = {key: flag for flag, key in SHORT.items()}
    for key in fields_of(RECIPES[name]()):
        flag = short.get(key, key).replace("_", "-")
        lines = re.findall(rf"^  --{re.escape(flag)}(?: |$)", text, re.M)
        assert len(lines) == (0 if key == "recipe" else 1), key


def test_a_task_is_shown_by_its_first_recipe(working_folder):
    of_task = headway("train", "tagging", "--help", cwd=working_folder).stdout
    assert of_task == headway("train", "tag", "--help", cwd=working_folder).stdout
    common = of_task.split("Most used")[1].split("\n\n")[0]
    assert "--data" in common and "--optimizer" not in common
    for section in ("data", "model", "optimizer", "schedule", "training", "checkpoint"):
        assert f"\n\n{section}:\n" in of_task
