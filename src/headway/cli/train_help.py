"""The end of `headway train --help`: the recipes, or the settings of one recipe."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from inspect import getdoc
from typing import TYPE_CHECKING, Any

from headway.cli.console import data

if TYPE_CHECKING:
    from headway.base.settings import Field

COLUMN = 36  # where the help of a setting begins
RECIPES_COLUMN = 22
WIDEST = 110


OWN_FLAGS = {"--quiet", "-q", "--json", "--dry-run"}
"""Flags of the commands without a value; all others are followed by one."""


def check_name(words: Sequence[str]) -> None:
    """UsageError if the words of `headway train` or `compare`, which ask for help, name what is no
    recipe, plan or file of a plan."""
    from headway.cli.train import split_words

    command, *rest = [word for word in words if word not in OWN_FLAGS]
    arguments, _ = split_words(rest)
    if not arguments:
        return
    from headway.comparisons.plans import is_file_of_plan, named_plan
    from headway.lectures.plans import PLANS
    from headway.runs import recipe, resolved

    if any(resolved(word) is not None for word in rest):
        return
    if command == "train":
        recipe(arguments[0])
    elif not is_file_of_plan(arguments[0]):
        named_plan(arguments[0], PLANS)


def show_help(words: Sequence[str]) -> None:
    """Print the settings of the recipe or task that the words name, else one line per recipe.

    For a recipe whose settings depend on a teacher, these are the settings for --teacher.
    """
    from headway.base.settings import COMMAND_LINE
    from headway.cli.train import SHORT, split_words
    from headway.runs import RECIPES, recipe, resolved
    from headway.tasks.registry import tasks

    name = next((word for word in words if resolved(word) is not None), None)
    if name is None:
        data("Recipes by task (headway train RECIPE --help lists the settings of one):")
        for task_name, recipes in tasks().items():
            data(f"\n{task_name}:")
            for recipe_name in recipes:
                help = _first_sentence(RECIPES[recipe_name])
                data(_line(recipe_name, help, RECIPES_COLUMN))
        return
    make = RECIPES[str(resolved(name))]
    data(f"Recipe {resolved(name)}:")
    data(textwrap.indent(getdoc(make) or "", "  "))
    _, flags = split_words(words)
    teacher = {key: flags[key] for key in flags if key == SHORT["teacher"]}
    for line in settings_lines(recipe(name, (COMMAND_LINE, teacher))):
        data(line)


def settings_lines(config: Any) -> Iterator[str]:
    """Yield lines on every setting (flag, default, help): the most used first, then by section."""
    from headway.base.settings import fields_of
    from headway.cli.train import SHORT

    fields = fields_of(config)
    common = {key: flag for flag, key in SHORT.items() if key in fields}
    yield "\nMost used settings, by their short names (DATA is --data.train):"
    if sizes := type(config.model).sizes:
        yield _line(
            "--model SIZE", f"model size, which sets several model settings: {', '.join(sizes)}"
        )
    for key, flag in common.items():
        help = fields[key].help.replace(f" (short: --{flag})", "")
        yield _setting(flag, replace(fields[key], help=help))
    section = ""
    for key, field in fields.items():
        name, dot, _ = key.partition(".")
        if key in common or not dot:
            continue
        if name != section:
            section = name
            yield f"\n{name}:"
        yield _setting(key, field)


def _setting(flag: str, field: Field) -> str:
    from headway.base.settings import plain

    default = plain(field.default)
    shown = "" if default in (None, "", []) else str(default).lower()
    if isinstance(default, str | int | float) and not isinstance(default, bool):
        shown = str(default)
    choices = f" ({field.expects})" if field.expects.startswith("one of") else ""
    return _line(f"--{flag.replace('_', '-')} {shown}".rstrip(), field.help + choices)


def _line(name: str, help: str, column: int = COLUMN) -> str:
    """The name, and the help in a column beside it, or below a longer name."""
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    lines = textwrap.wrap(help, max(30, width - column), break_on_hyphens=False) or [""]
    first = f"  {name}"
    beside = first.ljust(column) + lines.pop(0) if len(first) < column else first
    return "\n".join([beside, *(" " * column + line for line in lines)]).rstrip()


def _first_sentence(make: Any) -> str:
    """The first sentence of a docstring."""
    paragraph = " ".join((getdoc(make) or "").split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."
