"""Output that cannot be written, or not in the encoding of the terminal."""

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.main import main
from headway.terminal.console import on_output
from tests.fixtures.command_line import ROOT, headway, headway_process, start

FULL = Path("/dev/full")
RUN = "recipe: gpt-tiny\n"
NAME = "cœur-é"
LONG = "n" * 300


@pytest.fixture
def working_folder(tmp_path):
    """A folder with one run whose name is not ASCII."""
    (tmp_path / "runs" / NAME).mkdir(parents=True)
    (tmp_path / "runs" / NAME / "run.yaml").write_text(RUN)
    return tmp_path


def python(words, cwd, environment=None, **streams):
    """Start the command line in a new interpreter, for what Python does at its own start."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **(environment or {})}
    return subprocess.Popen(
        [sys.executable, "-m", "headway", *words], cwd=cwd, env=settings, **streams
    )


def on_terminal(words, cwd, environment) -> str:
    """Return what a terminal shows of standard output and standard error."""
    controller, terminal = pty.openpty()
    process = python(words, cwd, environment, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(controller, 4096):
            shown += part
    except OSError:  # on Linux, the other end is closed
        pass
    os.close(controller)
    assert process.wait() == 0, shown
    return shown.decode("latin-1")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["runs ls", "--help", "config explain", "doctor"])
def test_a_full_device_is_an_error_of_every_verb(working_folder, words):
    with FULL.open("w") as full:
        process = start(words.split(), working_folder, stdout=full, stderr=subprocess.PIPE)
        stderr = process.communicate()[1].decode()
    assert stderr == "error: cannot write standard output: No space left on device\n"
    assert process.returncode == 1


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_device_is_an_error_without_buffers_too(working_folder):
    with FULL.open("w") as full:
        environment = {"PYTHONUNBUFFERED": "1"}
        process = python(
            ["runs", "ls"], working_folder, environment, stdout=full, stderr=subprocess.PIPE
        )
        stderr = process.communicate()[1].decode()
    assert stderr == "error: cannot write standard output: No space left on device\n"
    assert process.returncode == 1


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["runs", "ls"], ["runs", "show", "nowhere"]])
def test_the_exit_code_reports_a_failure_if_nothing_can_be_written(working_folder, words):
    with FULL.open("w") as full:
        assert start(words, working_folder, stdout=full, stderr=full).wait() == 1


def test_a_pipe_closed_by_its_reader_is_no_failure(working_folder):
    process = start(
        ["config", "explain"], working_folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def test_a_run_is_not_ended_by_the_reader_of_its_messages(working_folder):
    reader, writer = os.pipe()
    os.close(reader)
    words = ["runs", "show", "nowhere"]
    assert start(words, working_folder, stdout=subprocess.DEVNULL, stderr=writer).wait() == 2
    os.close(writer)


@pytest.mark.parametrize(
    ("words", "closed", "code"),
    [
        (["runs", "ls"], [2], 0),
        (["runs", "show", "nowhere"], [1], 2),
        (["runs", "show", "nowhere"], [2], 2),
        (["translate", "nowhere"], [0], 2),
        (["doctor"], [0, 2], 0),
    ],
)
def test_closed_streams_without_data_are_no_failure(working_folder, words, closed, code):
    done = headway_process(*words, cwd=working_folder, closed=closed, check=code)
    assert (NAME in done.stdout) == (words == ["runs", "ls"])


def test_data_for_a_closed_standard_output_is_a_failure(working_folder):
    """In a new interpreter: what it puts in the place of closed streams is its own affair."""
    command = shlex.join([sys.executable, "-m", "headway", "runs", "ls"])
    done = subprocess.run(
        ["bash", "-c", f"{command} >&-"],
        cwd=working_folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot write standard output: it is closed" in done.stderr


def test_in_a_folder_that_was_removed_every_verb_is_refused(working_folder, capsys, monkeypatch):
    gone = working_folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SystemExit) as end:
        main(["runs", "ls"])
    monkeypatch.undo()
    assert end.value.code == 2
    assert "the current folder cannot be used: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("1", (40, 10)),
        ("0", (80, 25)),
        ("-5", (80, 25)),
        ("abc", (80, 25)),
        ("²", (80, 25)),
        ("100000000", (80, 25)),
        ("9999", (500, 500)),
        ("120", (120, 120)),
    ],
)
def test_text_is_arranged_for_a_usable_size_whatever_the_environment(value, size, monkeypatch):
    monkeypatch.setenv("COLUMNS", value)
    monkeypatch.setenv("LINES", value)
    assert on_output(stderr=True).size == size
    console = on_output()
    console.size = (3, 4)
    assert console.size == (40, 10)


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_data_in_a_pipe_is_utf_8_whatever_the_locale(working_folder, environment):
    (working_folder / "runs" / "a").mkdir()
    (working_folder / "runs" / "a" / "run.yaml").write_text(f"recipe: {NAME}\n", encoding="utf-8")
    words = ["runs", "show", "runs/a"]
    process = python(
        words, working_folder, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    shown, errors = process.communicate()
    assert process.returncode == 0, errors
    assert f"({NAME})" in shown.decode()


def test_a_terminal_gets_backslash_escapes_for_characters_outside_its_encoding(working_folder):
    latin = on_terminal(["runs", "ls"], working_folder, {"PYTHONIOENCODING": "latin-1"})
    assert "c\\u0153ur-é" in latin
    plain = on_terminal(["runs", "ls"], working_folder, {"PYTHONIOENCODING": "ascii"})
    assert "c\\u0153ur-\\xe9" in plain


def test_an_argument_that_is_not_utf_8_is_refused(working_folder):
    process = python(
        ["runs", "show", b"caf\xe9"], working_folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert b"is not UTF-8" in process.communicate()[1]
    assert process.returncode == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["translate", LONG, "hello"], 1),
        (["train", "gpt-tiny", LONG], 1),
        (["train", "gpt-tiny", __file__, "--run", LONG], 2),
        (["train", "--resume", LONG], 1),
        (["runs", "show", LONG], 1),
        (["inspect", "run", "text", "--html", f"{LONG}.html"], 2),
        (["embed", "run", "text", "--output", f"{LONG}.npz"], 2),
        (["lecture", "order", "--output", LONG], 1),
    ],
)
def test_a_name_that_is_too_long_is_refused_with_the_limit(working_folder, words, code):
    stderr = headway(*words, cwd=working_folder, check=code).stderr
    error = stderr[stderr.index("error:") :].strip()
    assert "255" in error and len(error.split("\n")) == 3, error
    assert "unexpected" not in error and os.listdir(working_folder) == ["runs"]


def test_output_into_a_missing_folder_is_refused_before_the_computation(working_folder):
    stderr = headway(
        "embed", "nowhere", "text", "--plot", "a/b/c.svg", cwd=working_folder, check=2
    ).stderr
    assert "cannot write: No such file or directory" in stderr
    assert "a/b does not exist: make that folder" in stderr and "free" not in stderr


def test_only_the_console_writes_to_the_streams():
    # two speak with their parents, one has the text of a program that is written for the user
    own_process = {"template_child.py", "llama_cpp.py", "pt2_loaders.py"}
    writes = re.compile(r"(?<![.\w])print\(|sys\.std(out|err)\.(write|flush|buffer)|Console\(")
    for path in (ROOT / "src" / "headway").rglob("*.py"):
        is_writer = path.name in {"console.py", *own_process}
        allowed = is_writer or not (match := writes.search(path.read_text()))
        assert allowed, f"{path}: {match}"
