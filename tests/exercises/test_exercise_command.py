"""`headway exercise`: files, checks in a process of their own, hints, solutions, reports."""

import json
import subprocess
from types import SimpleNamespace

import pytest

from headway.exercises import EXERCISES, child
from tests.fixtures.command_line import fork, headway, rows

NAME = "softmax-and-masks"
pytestmark = pytest.mark.usefixtures("forks")


@pytest.fixture
def forks(monkeypatch):
    """The process of a learner's file is a fork of this one, which has imported torch already."""

    def popen(command, **settings):
        kind, name, path, events = command[-4:]
        del settings["env"]
        return fork(lambda: child.main(kind, name, path, events), **settings)

    forking = SimpleNamespace(**{**vars(subprocess), "Popen": popen})
    monkeypatch.setattr(child, "subprocess", forking)


def write(folder, body=None, name=NAME):
    """Write a solution, or a function with another body."""
    exercise = EXERCISES[name]
    text = exercise.solution
    if body is not None:
        text = text.split(exercise.signature)[0] + f"{exercise.signature}\n    {body}\n"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def test_the_list_names_every_exercise(tmp_path):
    done = headway("exercise", "list", cwd=tmp_path)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(EXERCISES)
    done = headway("exercise", "list", "--json", cwd=tmp_path)
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == list(EXERCISES)


def test_start_writes_a_file_and_never_replaces_one(tmp_path):
    headway("exercise", "start", NAME, cwd=tmp_path)
    path = tmp_path / f"{NAME}.py"
    assert path.read_text() == EXERCISES[NAME].start
    path.write_text("mine")
    done = headway("exercise", "start", NAME, cwd=tmp_path, check=2)
    assert "exists already" in done.stderr and "--overwrite" in done.stderr
    assert path.read_text() == "mine"
    headway("exercise", "start", NAME, "--overwrite", cwd=tmp_path)
    assert path.read_text() == EXERCISES[NAME].start


def test_errors_of_names_and_files_say_what_to_do(tmp_path):
    done = headway("exercise", "start", "softmax-and-mask", cwd=tmp_path, check=2)
    assert f"Did you mean {NAME}?" in done.stderr
    done = headway("exercise", "check", NAME, cwd=tmp_path, check=2)
    assert f"exercise start {NAME}" in done.stderr
    done = headway("exercise", "start", NAME, "--file", "no/x.py", cwd=tmp_path, check=None)
    assert done.returncode and not (tmp_path / "no").exists()


def test_a_solution_passes_and_nothing_is_trained_with_no_train(tmp_path, monkeypatch):
    monkeypatch.undo()  # in a new interpreter, as for a learner
    write(tmp_path)
    done = headway("exercise", "check", NAME, "--no-train", cwd=tmp_path)
    assert done.stdout.count("✓") == 6 and "✗" not in done.stdout
    assert "exercise start scaled-dot-product" in done.stderr


@pytest.mark.slow
def test_a_solution_is_trained_in_the_translator(tmp_path):
    write(tmp_path, name="scaled-dot-product")
    done = headway("exercise", "check", "scaled-dot-product", cwd=tmp_path)
    assert "step 400  loss" in done.stderr
    assert "held-out sentences correct" in done.stderr
    assert done.stdout.count("= output") == 3
    assert "weights from" in done.stdout


def test_a_mistake_is_named(tmp_path):
    write(tmp_path, "return scores.softmax(-1)")
    done = headway("exercise", "check", NAME, cwd=tmp_path, check=1)
    assert "✓ worked example" in done.stdout and "✗ causal mask" in done.stdout
    assert "likely mistake: the mask is forgotten" in done.stdout
    done = headway("exercise", "check", NAME, "--json", cwd=tmp_path, check=1)
    outcome = json.loads(done.stdout)
    assert outcome["failed"] == "causal mask" and outcome["rungs"] == ["shape", "worked example"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import os; os._exit(7)", "exit code 7"),
        ("return None", "a `return` is missing"),
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("raise SystemExit", "SystemExit"),
        ("return (", "SyntaxError"),
        ("return masked_softmax(scores, allowed)", "RecursionError"),
        ("print('to standard output'); return scores.int()", "found     a tensor"),
    ],
)
def test_code_that_breaks_gives_a_sentence(tmp_path, body, message):
    write(tmp_path, body)
    done = headway("exercise", "check", NAME, cwd=tmp_path, check=1)
    assert message in done.stdout
    assert "headway/exercises" not in done.stdout


@pytest.mark.slow
def test_the_learners_line_is_shown(tmp_path):
    path = write(tmp_path, "return scores.nothing")
    number = path.read_text().split("\n").index("    return scores.nothing") + 1
    done = headway("exercise", "check", NAME, cwd=tmp_path, check=1)
    assert f"line {number}: return scores.nothing" in done.stdout
    assert "AttributeError" in done.stdout and "headway/exercises" not in done.stdout


@pytest.mark.turns(2)
@pytest.mark.parametrize("at_import", [False, True])
def test_an_infinite_loop_is_stopped(tmp_path, monkeypatch, at_import):
    monkeypatch.setattr("headway.cli.exercise_check.CHECK_LIMIT", 1.0)
    path = write(tmp_path, "while True: pass")
    if at_import:
        path.write_text("while True: pass\n")
    done = headway("exercise", "check", NAME, cwd=tmp_path, check=1)
    assert "probably an infinite loop" in done.stdout


def test_a_training_that_its_limit_ended_does_not_judge_a_right_solution(tmp_path, monkeypatch):
    run_child = child.run_child

    def slow(name, path, *, train, limit, listen):
        if not train:
            return run_child(name, path, train=train, limit=limit, listen=listen)
        trained = {"steps": 37, "seconds": 60.4, "correct": 0.0, "out_of_time": True}
        listen({"kind": "trained", "samples": [], "attention": "", **trained})
        return ""

    monkeypatch.setattr("headway.cli.exercise_check.run_child", slow)
    write(tmp_path)
    done = headway("exercise", "check", NAME, cwd=tmp_path)
    assert "limit of 60 s after 37 of 400 steps, 0 % of 20 held-out sentences" in done.stderr
    assert "too few steps to judge your code, which passed all checks" in done.stderr


@pytest.mark.slow
def test_a_file_without_the_function_is_named(tmp_path):
    write(tmp_path).write_text("x = 1\n")
    done = headway("exercise", "check", NAME, cwd=tmp_path, check=1)
    assert "expected a function masked_softmax" in done.stdout


def test_hints_follow_one_another(tmp_path):
    hints = EXERCISES[NAME].hints
    for number, text in enumerate(hints, 1):
        done = headway("exercise", "hint", NAME, cwd=tmp_path)
        assert done.stdout == f"hint {number} of {len(hints)}: {text}\n"
    done = headway("exercise", "hint", NAME, cwd=tmp_path)
    assert not done.stdout and "exercise solution" in done.stderr
    assert headway("exercise", "hint", NAME, "--again", cwd=tmp_path).stdout.startswith("hint 1")
    (tmp_path / ".headway-hints.json").write_text("[1]")
    done = headway("exercise", "hint", NAME, cwd=tmp_path, check=3)
    assert ".headway-hints.json" in done.stderr


def test_a_solution_needs_a_confirmation(tmp_path):
    done = headway("exercise", "solution", NAME, cwd=tmp_path, check=2)
    assert not done.stdout and "--yes" in done.stderr
    done = headway("exercise", "solution", NAME, "--yes", cwd=tmp_path)
    assert done.stdout == EXERCISES[NAME].solution


def test_a_report_has_every_learner(tmp_path):
    write(tmp_path / "ada")
    headway("exercise", "hint", NAME, cwd=tmp_path / "ada")
    write(tmp_path / "ben", "return scores.softmax(-1)")
    (report := tmp_path / "report.jsonl").write_text(
        headway("exercise", "report", ".", "--json", cwd=tmp_path).stdout
    )
    ada, ben = rows(report)
    assert ada["exercises"][NAME]["hints"] == 1 and ada["passed"] == 1
    assert "the mask is forgotten" in ben["exercises"][NAME]["mistake"]


@pytest.mark.slow
def test_a_report_has_a_line_for_each_learner(tmp_path):
    write(tmp_path / "ada")
    headway("exercise", "hint", NAME, cwd=tmp_path / "ada")
    write(tmp_path / "ben", "return scores.softmax(-1)")
    write(tmp_path / "ben", name="lora")
    done = headway("exercise", "report", ".", cwd=tmp_path)
    assert "ada: 1 of 1 passed" in done.stdout and "hints: 1" in done.stdout
    assert "ben: 1 of 2 passed" in done.stdout and "fails at: causal mask" in done.stdout


def test_a_report_of_ones_own_folder_has_its_name(tmp_path):
    own = tmp_path / "ada"
    write(own)
    headway("exercise", "hint", NAME, cwd=own)
    (own / "__pycache__").mkdir()
    lines = headway("exercise", "report", ".", cwd=own).stdout.splitlines()
    assert lines[0] == "ada: 1 of 1 passed" and "hints: 1" in lines[1] and len(lines) == 2


def test_a_report_of_a_folder_without_learners_is_refused(tmp_path):
    done = headway("exercise", "report", ".", cwd=tmp_path, check=3)
    assert "a folder for each learner" in done.stderr
    headway("exercise", "report", "nowhere", cwd=tmp_path, check=2)
