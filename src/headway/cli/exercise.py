"""`headway exercise`: exercises that are checked step by step, then plugged into a real model."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headway.base.errors import DataError, UsageError
from headway.base.files import check_new_file, json_bytes, read_json, write_file
from headway.base.settings import setting
from headway.cli.flags import TEXT, PrintFlags, as_flags, check_name
from headway.exercises import CATALOGUE, EXERCISES, Exercise
from headway.terminal.console import data, program, result, say, talk

NAME = Parameter(help="Name of the exercise.")

HINTS = ".headway-hints.json"
"""File beside the learner's files: exercise -> number of hints that were shown."""


def list_exercises(*, flags: PrintFlags = TEXT) -> None:
    """List the exercises in the order of a course."""
    width = max(map(len, CATALOGUE))
    for name, entry in CATALOGUE.items():
        row = {"name": name, "title": entry.title, "section": entry.tour, "trains": entry.trains}
        result(row, f"{name:<{width}}  {entry.title}", as_json=flags.json)
    if not flags.json:
        first = next(iter(CATALOGUE))
        say(f"begin     {program()} exercise start {first}")


@as_flags
class StartFlags:
    file: Path | None = setting(None, "Path of the new file. If unset, NAME.py in this folder.")
    overwrite: bool = setting(False, "Replace the file if it exists.")


def start(name: Annotated[str, NAME], /, *, flags: StartFlags = StartFlags()) -> None:
    """Write the file of an exercise: equation, shapes, and a function to complete."""
    exercise = named(name)
    path = path_of(name, flags.file)
    if path.exists() and not path.is_file():
        raise UsageError("expected a file, found a folder", str(path), "choose another --file")
    if path.exists() and not flags.overwrite:
        raise UsageError(
            "the file exists already", str(path), "replace it with --overwrite, or choose --file"
        )
    if not path.exists():
        check_new_file(path)
    write_file(path, exercise.start.encode())
    say(f"{exercise.title} ({exercise.tour})")
    say(f"\n{exercise.equation.strip()}\n")
    say(f"written   {path}")
    say(f"next      complete it, then: {command('check', name, flags.file)}")


@as_flags
class HintFlags:
    file: Path | None = setting(None, "Your file. If unset, NAME.py in this folder.")
    again: bool = setting(False, "Begin with the first hint again.")


def hint(name: Annotated[str, NAME], /, *, flags: HintFlags = HintFlags()) -> None:
    """Print the next hint of an exercise.

    The number of hints so far is kept in .headway-hints.json beside your file.
    """
    exercise = named(name)
    record = path_of(name, flags.file).parent / HINTS
    shown = hints_of(record)
    number = 0 if flags.again else shown.get(name, 0)
    total = len(exercise.hints)
    if number >= total:
        say(f"all {total} hints of {name} were shown; see them with --again")
        say(f"next      {program()} exercise solution {name}")
        return
    write_file(record, json_bytes({**shown, name: number + 1}))
    data(f"hint {number + 1} of {total}: {exercise.hints[number]}")


@as_flags
class SolutionFlags:
    yes: bool = setting(False, "Print without confirmation.")


def solution(name: Annotated[str, NAME], /, *, flags: SolutionFlags = SolutionFlags()) -> None:
    """Print a solution of an exercise; asks for confirmation first."""
    exercise = named(name)
    if not flags.yes:
        if sys.stdin is None or not sys.stdin.isatty():
            raise UsageError(
                "the solution needs a confirmation, and standard input is no terminal",
                hint=f"{program()} exercise solution {name} --yes",
            )
        talk.print(f"Show the solution of {name}? [y/N] ", end="", markup=False)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            talk.print("not shown")
            return
    data(exercise.solution.rstrip("\n"))


def named(name: str) -> Exercise:
    """The exercise of that name. UsageError if there is none."""
    check_name(name, EXERCISES, "exercise", f"{program()} exercise list")
    return EXERCISES[name]


def path_of(name: str, file: Path | None) -> Path:
    """The file of a learner: --file, or NAME.py in this folder."""
    return Path(f"{name}.py") if file is None else file


def command(verb: str, name: str, file: Path | None) -> str:
    """The command line of a subcommand."""
    return f"{program()} exercise {verb} {name}" + ("" if file is None else f" --file {file}")


def hints_of(record: Path) -> dict[str, int]:
    """The hints shown so far. DataError if the file is not the one that `hint` writes."""
    if not record.exists():
        return {}
    shown = read_json(record)
    if not isinstance(shown, dict) or not all(type(n) is int and n >= 0 for n in shown.values()):
        raise DataError(
            "expected a JSON object of numbers of hints", str(record), "remove this file"
        )
    return shown
