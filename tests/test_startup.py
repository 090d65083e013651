"""Imports of commands: nothing that takes seconds and is not needed."""

import json
import subprocess
import sys

import pytest

from tests.fixtures.bundles import gpt, translator

SLOW_IMPORTS = {
    *("torch._dynamo", "torch._inductor", "sympy", "transformers", "scipy", "sklearn", "pandas"),
    *("matplotlib", "pyarrow", "PIL", "IPython"),
}


def imported_by(program: str) -> set[str]:
    """Return the modules that a new process has imported after `program`."""
    program += "\nimport json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.strip().split("\n")[-1]))


def running(*arguments: str) -> str:
    """Return a program that runs the command line with these arguments."""
    return f"""
from headway.cli.main import main
try:
    main({list(arguments)!r})
except SystemExit as end:
    assert end.code == 0, end.code
"""


@pytest.mark.parametrize("program", ["import headway", running("--help"), running("train", "-h")])
def test_help_imports_no_torch(program):
    heavy = {*SLOW_IMPORTS, "torch"} - ({"torch"} if "train" in program else set())
    assert not heavy & imported_by(program)


def test_importing_headway_imports_one_module_of_it():
    assert {m for m in imported_by("import headway") if m.startswith("headway")} == {"headway"}


def test_help_imports_the_command_line_and_the_names_of_tasks():
    packages = {m.split(".")[1] for m in imported_by(running("--help")) if m.startswith("headway.")}
    foundation = {"config_files", "errors", "extensions", "files", "former_names", "machine"}
    assert packages <= foundation | {"settings", "cli", "tasks"}, packages


def test_a_translator_is_loaded_and_run_without_the_compiler(tmp_path):
    translator().save(tmp_path / "model")
    program = running("translate", str(tmp_path / "model"), "the fox")
    assert "torch" in (modules := imported_by(program))
    assert not SLOW_IMPORTS & modules


def test_a_hugging_face_language_model_is_loaded_and_run_without_the_compiler(tmp_path):
    from headway.interop import export

    bundle = gpt()
    export(bundle.model, bundle.tokenizer, tmp_path / "hf", "gpt2")
    program = running("generate", str(tmp_path / "hf"), "the fox", "--max-tokens", "3")
    assert not SLOW_IMPORTS & imported_by(program)
