"""`headway exercise check` and `report`: the checks of exercises, in processes of their own."""

import os
from pathlib import Path
from typing import Annotated

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.settings import setting
from headway.cli.exercise import HINTS, NAME, command, hints_of, named, path_of
from headway.cli.flags import TEXT, PrintFlags, as_flags
from headway.exercises import EXERCISES, Exercise
from headway.exercises.child import CHECK_LIMIT, TRAINING_LIMIT, Event, run_child
from headway.exercises.contract import SECONDS, STEPS
from headway.terminal.console import data, data_json, program, say, talk


@as_flags
class CheckFlags:
    file: Path | None = setting(None, "Your file. If unset, NAME.py in this folder.")
    train: bool = setting(True, "Train the tiny translator with a solution that passes.")
    json: bool = setting(False, "Print one JSON object instead of text; nothing is trained.")


def check(name: Annotated[str, NAME], /, *, flags: CheckFlags = CheckFlags()) -> None:
    """Check a solution step by step; the first failure is explained.

    A solution that passes becomes a part of a tiny translator, which is trained in less than a
    minute. Your code runs in a process of its own with a time limit. Exit code 1 if a check fails.
    """
    exercise, path = named(name), _existing(name, flags.file)
    outcome = _check(exercise, path)
    if flags.json:
        data_json({"exercise": name, "file": str(path), **outcome})
    else:
        _print_outcome(outcome)
    if not outcome["passed"]:
        if not flags.json:
            say(f"next      {command('hint', name, flags.file)}")
        raise SystemExit(1)
    if not flags.json:
        if flags.train and exercise.plug is not None:
            _train(exercise, path)
        else:
            talk.print("all checks passed")
        _print_next(name)


def report(folder: Path, /, *, flags: PrintFlags = TEXT) -> None:
    """Check all files of a learner, or of several: one folder for each, with files named NAME.py.

    headway exercise report . checks your own. Files without the name of an exercise are ignored.
    Nothing is trained.

    Parameters
    ----------
    folder
        Folder of a learner, or folder that contains a folder for each learner.
    """
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
        hints = hints_of(learner / HINTS)
        for exercise, outcome in outcomes.items():
            outcome["hints"] = hints.get(exercise, 0)
        _report_learner(name, outcomes, flags.json)


def _report_learner(learner: str, outcomes: dict[str, Event], as_json: bool) -> None:
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


def _existing(name: str, file: Path | None) -> Path:
    path = path_of(name, file)
    if not path.is_file():
        raise UsageError("no such file", str(path), command("start", name, file))
    return path


def _check(exercise: Exercise, path: Path) -> Event:
    """Check a file in a process of its own; return the result as JSON values."""
    events: list[Event] = []
    ending = run_child(exercise.name, path, train=False, limit=CHECK_LIMIT, listen=events.append)
    rungs = [event for event in events if event["kind"] == "rung"]
    passed = [event["rung"] for event in rungs if event["passed"]]
    names = exercise.rungs
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


def _print_outcome(outcome: Event) -> None:
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
    plug = exercise.plug
    assert plug is not None
    say(f"plugged   into a tiny translator: your code is {plug.part}")
    results: list[Event] = []

    def listen(event: Event) -> None:
        if event["kind"] == "line":
            say(f"  {event['text']}")
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
        say(
            f"stopped   by the limit of {SECONDS:g} s after {trained['steps']} of {STEPS} steps, "
            f"{correct}: too few steps to judge your code, which passed all checks"
        )
        say("again     when fewer other programs run")
        return
    talk.print(
        f"trained   {trained['steps']} steps in {trained['seconds']:.0f} s, {correct}", markup=False
    )


def _print_next(name: str) -> None:
    names = list(EXERCISES)
    following = names[names.index(name) + 1 :][:1]
    if following:
        say(f"next      {program()} exercise start {following[0]}")
