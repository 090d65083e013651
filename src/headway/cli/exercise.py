"""`headway exercise`: exercises that are checked step by step, then plugged into a real model."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from headway.base.errors import DataError, HeadwayError, UsageError, did_you_mean
from headway.cli.console import data, data_json, program, talk

if TYPE_CHECKING:
    from headway.exercises import Exercise

exercise_app = App(
    name="exercise", help="Write parts of a Transformer yourself, with checks that explain."
)

HINTS = ".headway-hints.json"
"""File beside the learner's files: exercise -> number of hints that were shown."""


@exercise_app.command(name="list")
def list_exercises(*, json: bool = False) -> None:
    """List the exercises in the order of a course.

    Parameters
    ----------
    json
        Print one JSON object per exercise.
    """
    from headway.exercises import CATALOGUE

    width = max(map(len, CATALOGUE))
    for name, entry in CATALOGUE.items():
        if json:
            row = {"name": name, "title": entry.title, "section": entry.tour}
            data_json({**row, "trains": entry.trains})
        else:
            data(f"{name:<{width}}  {entry.title}")
    if not json:
        first = next(iter(CATALOGUE))
        talk.print(f"begin     {program()} exercise start {first}", markup=False)


@exercise_app.command
def start(name: str, /, *, file: Path | None = None, overwrite: bool = False) -> None:
    """Write the file of an exercise: equation, shapes, and a function to complete.

    Parameters
    ----------
    name
        Name of the exercise.
    file
        Path of the new file. If unset, NAME.py in this folder.
    overwrite
        Replace the file if it exists.
    """
    from headway.base.files import check_new_file, write_file

    exercise = _exercise(name)
    path = _path(name, file)
    if path.exists() and not path.is_file():
        raise UsageError("expected a file, found a folder", str(path), "choose another --file")
    if path.exists() and not overwrite:
        raise UsageError(
            "the file exists already", str(path), "replace it with --overwrite, or choose --file"
        )
    if not path.exists():
        check_new_file(path)
    write_file(path, exercise.start.encode())
    talk.print(f"{exercise.title} ({exercise.tour})", markup=False)
    talk.print(f"\n{exercise.equation.strip()}\n", markup=False)
    talk.print(f"written   {path}", markup=False)
    talk.print(f"next      complete it, then: {_command('check', name, file)}", markup=False)


@exercise_app.command
def check(
    name: str,
    /,
    *,
    file: Path | None = None,
    train: bool = True,
    json: bool = False,
) -> None:
    """Check a solution step by step; the first failure is explained.

    A solution that passes becomes a part of a tiny translator, which is trained in less than a
    minute. Your code runs in a process of its own with a time limit. Exit code 1 if a check fails.

    Parameters
    ----------
    name
        Name of the exercise.
    file
        Your file. If unset, NAME.py in this folder.
    train
        Train the tiny translator with a solution that passes.
    json
        Print one JSON object instead of text; nothing is trained.
    """
    exercise, path = _exercise(name), _existing(name, file)
    outcome = _check(exercise, path)
    if json:
        data_json({"exercise": name, "file": str(path), **outcome})
    else:
        _print_outcome(outcome)
    if not outcome["passed"]:
        if not json:
            talk.print(f"next      {_command('hint', name, file)}", markup=False)
        raise SystemExit(1)
    if not json:
        if train and exercise.plug is not None:
            _train(exercise, path)
        else:
            talk.print("all checks passed")
        _print_next(name)


@exercise_app.command
def hint(name: str, /, *, file: Path | None = None, again: bool = False) -> None:
    """Print the next hint of an exercise.

    The number of hints so far is kept in .headway-hints.json beside your file.

    Parameters
    ----------
    name
        Name of the exercise.
    file
        Your file. If unset, NAME.py in this folder.
    again
        Begin with the first hint again.
    """
    from headway.base.files import json_bytes, write_file

    exercise = _exercise(name)
    record = _path(name, file).parent / HINTS
    shown = _hints(record)
    number = 0 if again else shown.get(name, 0)
    total = len(exercise.hints)
    if number >= total:
        talk.print(f"all {total} hints of {name} were shown; see them with --again", markup=False)
        talk.print(f"next      {program()} exercise solution {name}", markup=False)
        return
    write_file(record, json_bytes({**shown, name: number + 1}))
    data(f"hint {number + 1} of {total}: {exercise.hints[number]}")


@exercise_app.command
def solution(name: str, /, *, yes: bool = False) -> None:
    """Print a solution of an exercise; asks for confirmation first.

    Parameters
    ----------
    name
        Name of the exercise.
    yes
        Print without confirmation.
    """
    exercise = _exercise(name)
    if not yes:
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


@exercise_app.command
def report(folder: Path, /, *, json: bool = False) -> None:
    """Check all files of a learner, or of several: one folder for each, with files named NAME.py.

    headway exercise report . checks your own. Files without the name of an exercise are ignored.
    Nothing is trained.

    Parameters
    ----------
    folder
        Folder of a learner, or folder that contains a folder for each learner.
    json
        Print one JSON object per learner.
    """
    from headway.exercises import EXERCISES

    if not folder.is_dir():
        raise UsageError("no such folder", str(folder), "check the path")
    learners = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    submissions = {
        learner: [name for name in EXERCISES if (learner / f"{name}.py").is_file()]
        for learner in learners
    }
    if not any(submissions.values()):
        raise DataError(
            "expected files such as layer-norm.py, or a folder for each learner with such files, "
            "found none",
            str(folder),
            "name the files as headway exercise start does",
        )
    for learner, names in submissions.items():
        if not names and (learner == folder or submissions[folder]):
            continue  # no learner, such as __pycache__ beside the learner's own files
        name = Path(os.path.abspath(learner)).name
        with talk.status(f"checking {name}"):
            outcomes = {n: _check(EXERCISES[n], learner / f"{n}.py") for n in names}
        hints = _hints(learner / HINTS)
        for exercise, outcome in outcomes.items():
            outcome["hints"] = hints.get(exercise, 0)
        _report_learner(name, outcomes, json)


def _report_learner(learner: str, outcomes: dict[str, dict[str, Any]], as_json: bool) -> None:
    passed = [name for name, outcome in outcomes.items() if outcome["passed"]]
    if as_json:
        data_json({"learner": learner, "passed": len(passed), "exercises": outcomes})
        return
    data(f"{learner}: {len(passed)} of {len(outcomes)} passed")
    for name, outcome in outcomes.items():
        state = "passed" if outcome["passed"] else f"fails at: {outcome['failed']}"
        used = f"  hints: {outcome['hints']}" if outcome["hints"] else ""
        data(f"  {name:<22} {state}{used}")
        if outcome["mistake"]:
            data(f"  {'':<22} {outcome['mistake']}")


def _exercise(name: str) -> Exercise:
    from headway.exercises import EXERCISES

    if name not in EXERCISES:
        raise UsageError(
            f"unknown exercise {name!r}" + did_you_mean(name, EXERCISES),
            hint=f"{program()} exercise list",
        )
    return EXERCISES[name]


def _path(name: str, file: Path | None) -> Path:
    return Path(f"{name}.py") if file is None else file


def _existing(name: str, file: Path | None) -> Path:
    path = _path(name, file)
    if not path.is_file():
        raise UsageError("no such file", str(path), _command("start", name, file))
    return path


def _command(verb: str, name: str, file: Path | None) -> str:
    return f"{program()} exercise {verb} {name}" + ("" if file is None else f" --file {file}")


def _hints(record: Path) -> dict[str, int]:
    """The hints shown so far. DataError if the file is not the one that `hint` writes."""
    from headway.base.files import read_json

    if not record.exists():
        return {}
    shown = read_json(record)
    if not isinstance(shown, dict) or not all(type(n) is int and n >= 0 for n in shown.values()):
        raise DataError(
            "expected a JSON object of numbers of hints", str(record), "remove this file"
        )
    return shown


def _check(exercise: Exercise, path: Path) -> dict[str, Any]:
    """Check a file in a process of its own; return the result as JSON values."""
    from headway.exercises.child import CHECK_LIMIT, run_child
    from headway.exercises.ladder import rung_names

    events: list[dict[str, Any]] = []
    ending = run_child(exercise.name, path, train=False, limit=CHECK_LIMIT, listen=events.append)
    rungs = [event for event in events if event["kind"] == "rung"]
    passed = [event["rung"] for event in rungs if event["passed"]]
    names = rung_names(exercise)
    outcome = {"passed": len(passed) == len(names), "rungs": passed, "mistake": ""}
    if outcome["passed"]:
        return outcome
    last = next((event for event in rungs if not event["passed"]), None)
    broken = next((event["text"] for event in events if event["kind"] == "broken"), ending)
    if last is None:
        rung = names[len(passed)] if rungs or ending else "import"
        return {**outcome, "failed": rung, "message": broken or "the checks ended early"}
    return {
        **outcome,
        **{"failed": last["rung"], "message": last["message"], "mistake": last["mistake"]},
    }


def _print_outcome(outcome: dict[str, Any]) -> None:
    for rung in outcome["rungs"]:
        data(f"✓ {rung}")
    if not outcome["passed"]:
        data(f"✗ {outcome['failed']}")
        for line in outcome["message"].split("\n"):
            data(f"    {line}")
        if outcome["mistake"]:
            data(f"  likely mistake: {outcome['mistake']}")


def _train(exercise: Exercise, path: Path) -> None:
    """Train the tiny translator with the learner's code; print samples and attention."""
    from headway.exercises.child import TRAINING_LIMIT, run_child
    from headway.exercises.tiny_translator import SECONDS, STEPS

    plug = exercise.plug
    assert plug is not None
    talk.print(f"plugged   into a tiny translator: your code is {plug.part}", markup=False)
    results: list[dict[str, Any]] = []

    def listen(event: dict[str, Any]) -> None:
        if event["kind"] == "line":
            talk.print(f"  {event['text']}", markup=False)
        else:
            results.append(event)

    ending = run_child(exercise.name, path, train=True, limit=TRAINING_LIMIT, listen=listen)
    trained = next((event for event in results if event["kind"] == "trained"), None)
    if trained is None:
        text = "\n".join(event["text"] for event in results if event["kind"] == "broken")
        raise HeadwayError(
            f"all checks passed, but the training with your code failed: {text or ending}",
            str(path),
            "--no-train skips the training",
        )
    for source, reference, output in trained["samples"]:
        sign = "=" if output == reference else "≠"
        data(f"  source     {source}\n  reference  {reference}\n{sign} output     {output}")
    data(f"\n{trained['attention']}\n")
    correct = f"{100 * trained['correct']:.0f} % of 20 held-out sentences correct"
    if trained["out_of_time"]:
        talk.print(
            f"stopped   by the limit of {SECONDS:g} s after {trained['steps']} of {STEPS} steps, "
            f"{correct}: too few steps to judge your code, which passed all checks",
            markup=False,
        )
        talk.print("again     when fewer other programs run", markup=False)
        return
    talk.print(
        f"trained   {trained['steps']} steps in {trained['seconds']:.0f} s, {correct}", markup=False
    )


def _print_next(name: str) -> None:
    from headway.exercises import EXERCISES

    names = list(EXERCISES)
    following = names[names.index(name) + 1 :][:1]
    if following:
        talk.print(f"next      {program()} exercise start {following[0]}", markup=False)
