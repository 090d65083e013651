"""The notebooks run from top to bottom and are stored without outputs.

By default in their small form; the long ones, and all as they are written, with `-m slow`.
"""

import json
import re
import tomllib

import matplotlib as mpl
import pytest

from tests.fixtures.notebook_runner import NOTEBOOKS, cells, run_notebook
from tests.fixtures.pages import ROOT, docs_module
from tests.fixtures.snippets import wrong_calls

FAST = ("1_", "8_")
"""Notebooks that run in a second in their small form."""


def by_name(path):
    return path.stem


@pytest.fixture(autouse=True)
def no_window():
    mpl.use("agg")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=by_name)
def test_a_notebook_is_stored_without_outputs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"] and cell["execution_count"] is None
            assert cell["metadata"].keys() <= {"small"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}, (
        "a version of Python is stored"
    )
    title, *_ = notebook["cells"]
    assert "".join(title["source"]).startswith("# ")
    assert "## To try" in "".join(notebook["cells"][-1]["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=by_name)
def test_a_notebook_calls_headway_as_it_is(path):
    assert not list(wrong_calls("\n".join(cell.code for cell in cells(path)), path.name))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=by_name)
def test_the_sizes_of_the_small_form_are_set_in_their_cell(path):
    small = [cell for cell in cells(path) if cell.small]
    assert len(small) <= 1
    for cell in small:
        assert all(f"{name} = " in cell.code for name in cell.small)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if path.name.startswith(FAST) else pytest.mark.slow)
        for path in NOTEBOOKS
    ],
    ids=by_name,
)
def test_a_notebook_runs_in_its_small_form(path, tmp_path):
    outputs = run_notebook(path, tmp_path, small=True)
    assert any(outputs.values())


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=by_name)
def test_a_notebook_runs_as_it_is_written(path, tmp_path):
    outputs = run_notebook(path, tmp_path, small=False)
    assert any(outputs.values())


def test_a_missing_package_of_the_site_is_named_with_what_installs_it():
    with docs_module("packages") as packages:
        assert packages.problem({"json": "json"}, "the site") == ""
        message = packages.problem({"json": "json", "no_such": "no-such"}, "the site")
        assert message.startswith("the site needs no-such, not installed here")
        assert ".[docs]" in message
        modules = packages.BUILDING | packages.RUNNING
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    installed = [re.match(r"[\w-]+", line)[0] for line in extras["docs"] + extras["notebooks"]]
    assert set(modules.values()) <= set(installed)
