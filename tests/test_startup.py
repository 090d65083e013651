"""Imports of commands: nothing that takes seconds and is not needed."""

import json
import subprocess
import sys

import pytest

from headway.cli.main import SUBCOMMANDS, application
from headway.interop import write_text_model
from tests.fixtures.bundles import gpt, translator

SLOW_IMPORTS = {
    *("torch._dynamo", "torch._inductor", "sympy", "transformers", "scipy", "sklearn", "pandas"),
    *("matplotlib", "pyarrow", "PIL", "IPython", "sacrebleu", "comet"),
}


def imported_by(program: str) -> set[str]:
    """Return the modules that a new process has imported after `program`."""
    program += "\nimport json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.strip().split("\n")[-1]))


def running(*commands: str | list[str]) -> str:
    """A program that runs a command line, or several in turn."""
    lines = [commands] if isinstance(commands[0], str) else list(commands)
    return f"""
from headway.cli.main import main
for words in {[list(words) for words in lines]!r}:
    try:
        main(words)
    except SystemExit as end:
        assert end.code == 0, (words, end.code)
"""


@pytest.fixture
def run(tmp_path):
    """The folder of a finished run of a language model, as `headway train` writes it."""
    folder = tmp_path / "runs" / "tiny"
    gpt().save(folder / "model")
    (folder / "run.yaml").write_text("recipe: gpt-tiny\nevaluation.metric: nats\n")
    events = [
        {"kind": "train", "step": 5, "loss": 2.5, "nats": 2.5, "seconds": 1.0},
        {"kind": "valid", "step": 5, "nats": 2.25, "is_best": True},
        {"kind": "finished", "step": 5, "stop": "all steps", "seconds": 1.0},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return folder


def test_importing_headway_imports_only_what_must_come_before_torch():
    modules = imported_by("import headway")
    ours = {m for m in modules if m.startswith("headway")}
    assert ours == {"headway", "headway.base", "headway.base.waiting"}
    assert not {*SLOW_IMPORTS, "torch"} & modules


def test_help_imports_the_command_line_and_the_names_of_tasks():
    modules = imported_by(running("--help"))
    packages = {m.split(".")[1] for m in modules if m.startswith("headway.")}
    assert packages <= {"base", "cli", "tasks", "terminal"}, packages
    assert not {*SLOW_IMPORTS, "torch"} & modules


def test_lists_versions_and_names_of_devices_import_no_torch():
    commands = (["--version"], ["exercise", "list"], ["exercise", "list", "--json"])
    program = running(*commands) + "\nimport headway.base.devices"
    assert not {*SLOW_IMPORTS, "torch"} & imported_by(program)


def test_help_of_groups_and_lists_of_runs_import_no_torch(run):
    helps = [[name, "--help"] for name in SUBCOMMANDS]
    listed = [["runs", "ls", str(run.parent)], ["runs", "show", str(run)]]
    assert not {*SLOW_IMPORTS, "torch"} & imported_by(running(*helps, *listed))


def test_checks_of_data_and_help_of_commands_without_a_model_import_no_torch(tmp_path):
    commands = ["data check", "data clean", "data fetch", "exercise check", "exercise report"]
    commands += ["config show", "config explain", "report"]
    helps = [[*command.split(), "--help"] for command in commands]
    (tmp_path / "pairs.tsv").write_text("a fox\tein Fuchs\na dog\tein Hund\n")
    (tmp_path / "tagged.conll").write_text("Ada B-person\nwalks O\n\n")
    checks = [["data", "check", str(tmp_path / name)] for name in ("pairs.tsv", "tagged.conll")]
    assert not {*SLOW_IMPORTS, "torch"} & imported_by(running(*helps, *checks))


def test_a_recipe_imports_its_own_task_only():
    program = """
from headway.runs import recipe
from headway.tasks.registry import task_of_config
assert task_of_config(recipe("translate")).name == "translation"
"""
    modules = imported_by(program)
    assert {m for m in modules if m.endswith(".task")} == {
        "headway.tasks.task",
        "headway.tasks.translation.task",
    }


def test_an_unknown_command_imports_no_command():
    program = """
from headway.cli.main import main
for words in (["trian"], ["exercise", "lst"], ["exercise", "lst", "--help"]):
    try:
        main(words)
    except SystemExit as end:
        assert end.code == 2
"""
    assert not {*SLOW_IMPORTS, "torch"} & imported_by(program)


def test_verbs_that_need_torch_import_nothing_else_that_is_slow(run, tmp_path):
    """All in one process; a verb that trains or downloads runs its help."""
    (text := tmp_path / "text.txt").write_text("the fox runs\n")
    model, from_hf = str(run / "model"), str(tmp_path / "hf")
    bundle = gpt()
    write_text_model(bundle.model, bundle.tokenizer, from_hf, "gpt2")
    translator().save(tmp_path / "translator")
    commands = [
        *([name, "--help"] for name in application() if not name.startswith("-")),
        ["train", "gpt-tiny", "--help"],
        ["config", "show", "gpt-tiny"],
        ["doctor"],
        ["lecture"],
        ["plan", "tiny"],
        ["report", str(run)],
        ["generate", model, "the fox", "--max-tokens", "3"],
        ["generate", from_hf, "the fox", "--max-tokens", "3"],
        ["translate", str(tmp_path / "translator"), "the fox"],
        ["inspect", model, "the fox"],
        ["eval", model, str(text)],
    ]
    modules = imported_by(running(*commands))
    assert "torch" in modules
    assert not SLOW_IMPORTS & modules
