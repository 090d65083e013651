"""The end of `headway train --help`: the recipes, or the settings of one recipe."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from inspect import getdoc

from headway.base.settings import COMMAND_LINE, Field, fields_of, plain
from headway.cli.flags import SHORT, spelled, split_words
from headway.runs import AnyRunConfig, recipe, recipes, resolved
from headway.tasks.registry import tasks
from headway.terminal.console import data

COLUMN = 36  # where the help of a setting begins
RECIPES_COLUMN = 22
WIDEST = 110


def show_help(words: Sequence[str]) -> None:
    """Print the settings of the recipe or task that the words name, else one line per recipe.

    For a recipe whose settings depend on a teacher, these are the settings for --teacher.
    """
    name = next((word for word in words if resolved(word) is not None), None)
    if name is None:
        data("Recipes by task (headway train RECIPE --help lists the settings of one):")
        for task_name, names in tasks().items():
            data(f"\n{task_name}:")
            for recipe_name in names:
                help = _first_sentence(recipes()[recipe_name])
                data(_line(recipe_name, help, RECIPES_COLUMN))
        return
    make = recipes()[str(resolved(name))]
    data(f"Recipe {resolved(name)}:")
    data(textwrap.indent(getdoc(make) or "", "  "))
    _, flags = split_words(words)
    teacher = {key: flags[key] for key in flags if key == SHORT["teacher"]}
    for line in settings_lines(recipe(name, (COMMAND_LINE, teacher))):
        data(line)


def settings_lines(config: AnyRunConfig) -> Iterator[str]:
    """Yield lines on every setting (flag, default, help): the most used first, then by section."""
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
    default = plain(field.default)
    shown = "" if default in (None, "", []) else str(default).lower()
    if isinstance(default, str | int | float) and not isinstance(default, bool):
        shown = str(default)
    choices = f" ({field.expects})" if field.expects.startswith("one of") else ""
    return _line(f"{spelled(flag)} {shown}".rstrip(), field.help + choices)


def _line(name: str, help: str, column: int = COLUMN) -> str:
    """The name, and the help in a column beside it, or below a longer name."""
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    lines = textwrap.wrap(help, max(30, width - column), break_on_hyphens=False) or [""]
    first = f"  {name}"
    beside = first.ljust(column) + lines.pop(0) if len(first) < column else first
    return "\n".join([beside, *(" " * column + line for line in lines)]).rstrip()


def _first_sentence(make: object) -> str:
    """The first sentence of a docstring."""
    paragraph = " ".join((getdoc(make) or "").split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."
