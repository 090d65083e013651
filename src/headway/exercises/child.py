"""Runs a learner's file in a process of its own, with a time limit.

The process writes one JSON line for each event into a file; a crash or an infinite loop ends the
process only, and what was written before it is kept.
"""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.base.errors import DataError

START_LIMIT = 240.0
CHECK_LIMIT = 30.0
TRAINING_LIMIT = 240.0
Event = dict[str, Any]


def run_child(
    name: str, path: Path, *, train: bool, limit: float, listen: Callable[[Event], None]
) -> str:
    """Check a learner's file in a new process, or train with it; return why it ended, '' if well.

    limit: seconds, from the moment when the process is ready to run the file. listen: called with
    each event after the process has ended, or while it runs.
    """
    source = str(Path(__file__).resolve().parents[2])
    paths = [source, os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.jsonl"
        events.touch()
        kind = "train" if train else "check"
        words = [sys.executable, "-P", "-m", "headway.exercises.child", kind, name]
        process = subprocess.Popen(
            [*words, str(path.resolve()), str(events)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        try:
            with events.open(encoding="utf-8") as lines:
                late = not _follow(process, lines, limit, listen)
        finally:
            process.kill()
            code = process.wait()
    if late:
        return (
            f"not finished after {limit:g} s and stopped: probably an infinite loop, or a machine "
            "that is busy with other programs"
        )
    if code < 0:
        return f"the process of your code was ended by signal {-code}"
    return f"the process of your code ended with exit code {code}" if code else ""


def _follow(
    process: subprocess.Popen[bytes], lines: Any, limit: float, listen: Callable[[Event], None]
) -> bool:
    """Pass on events until the process ends; False if the limit was reached first.

    The imports before the event "ready" do not count, as they can take long on a busy machine.
    """
    waited, unread, allowed = 0.0, "", START_LIMIT
    while True:
        try:
            process.wait(0.1)
            ended = True
        except subprocess.TimeoutExpired:
            ended, waited = False, waited + 0.1
        unread += lines.read()
        *complete, unread = unread.split("\n")
        for event in map(json.loads, complete):
            if event["kind"] == "ready":
                waited, allowed = 0.0, limit
            else:
                listen(event)
        if ended or waited >= allowed:
            return ended


def load_function(path: Path, function: str) -> Any:
    """Import a learner's file and return its function. DataError if the file has none."""
    spec = importlib.util.spec_from_file_location("learner", path)
    if spec is None or spec.loader is None:
        raise DataError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["learner"] = module
    spec.loader.exec_module(module)
    learner = getattr(module, function, None)
    if not callable(learner):
        raise DataError(
            f"expected a function {function}, found none", hint=f"name your function {function}"
        )
    return learner


def main(kind: str, name: str, path: str, events: str) -> None:
    """Check or train, and write events of these kinds: ready, rung, line, trained, broken."""
    from dataclasses import asdict

    from headway.base.threads import settle_threads
    from headway.exercises import EXERCISES
    from headway.exercises.ladder import climb, learner_lines
    from headway.exercises.tiny_translator import train

    settle_threads()
    exercise, file = EXERCISES[name], Path(path)
    with open(events, "a", encoding="utf-8", buffering=1) as out:

        def emit(**event: object) -> None:
            out.write(json.dumps(event) + "\n")

        emit(kind="ready")
        try:
            with contextlib.redirect_stdout(None):
                learner = load_function(file, exercise.function)
                if kind == "train":
                    trained = train(exercise, learner, lambda line: emit(kind="line", text=line))
                    emit(**{"kind": "trained", **asdict(trained)})
                    return
                for result in climb(exercise, learner, file):
                    emit(**{"kind": "rung", **result.as_dict()})
        except DataError as error:
            emit(kind="broken", text=str(error))
        except (Exception, SystemExit) as error:  # the learner's code may raise anything
            emit(kind="broken", text=learner_lines(error, file))


if __name__ == "__main__":
    main(*sys.argv[1:])
