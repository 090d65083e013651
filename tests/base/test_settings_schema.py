"""The schema for editors accepts the files that Headway reads, and refuses what it refuses."""

import json
from pathlib import Path

import pytest
import yaml
from tests.fixtures.json_schemas import validator as validator_of

from headway.base.config_files import write_yaml
from headway.base.errors import UsageError
from headway.base.settings import fields_of, override
from headway.base.settings_schema import schema_of
from headway.cli.config import schema as print_schema
from headway.cli.config import show
from headway.runs import recipe
from headway.tasks.registry import OWN

RECIPES = [name for entry in OWN.values() for name in entry.recipes]


def validator(name):
    return validator_of(schema_of(recipe(name), name))


@pytest.mark.parametrize("name", RECIPES)
def test_the_written_settings_of_each_recipe_are_valid(name):
    assert not list(validator(name).iter_errors(yaml.safe_load(write_yaml(recipe(name)))))


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer.lr": 0},
        {"optimizer.lr": "fast"},
        {"optimizer.lrr": 0.1},
        {"model.dropout": 1.0},
        {"model.norm": "middle"},
        {"training.steps": 0.5},
        {"machine.dtype": None},
    ],
)
def test_what_headway_refuses_is_marked_nested_and_dotted(changes):
    with pytest.raises(UsageError):
        override(recipe("translate"), changes, "a test")
    check = validator("translate")
    nested = {}
    for key, value in changes.items():
        section, name = key.split(".")
        nested[section] = {name: value}
    assert not check.is_valid(changes) and not check.is_valid(nested)


def test_every_setting_has_its_help_its_default_and_both_forms():
    config = recipe("translate")
    schema = schema_of(config, "translate")
    for key, field in fields_of(config).items():
        node = schema
        for part in key.split("."):
            node = node["properties"][part]
        assert node["description"] == field.help
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        assert node["default"] == (str(default) if isinstance(default, Path) else default)
        assert key in schema["properties"]


def test_the_command_writes_the_schema_that_the_file_of_settings_names(capsys):
    show("vision")
    shown = capsys.readouterr().out.split("\n")
    assert shown[:2] == [
        "# headway schema vision > vision.schema.json",
        "# yaml-language-server: $schema=vision.schema.json",
    ]
    print_schema("vision")
    schema = json.loads(capsys.readouterr().out)
    assert schema == schema_of(recipe("vision"), "Settings of headway train vision")
