"""Every code block of README.md, CONTRIBUTING.md and the site runs.

By default with training shortened to a few steps; `-m slow` runs the pages as they are written,
with at most a minute for each training run.
Marks above a block (HTML comments): `slow` (minutes: only parsed by default), `record` (a
measurement on data that is not part of Headway: only parsed), `interactive` (waits for a person:
only parsed), `example` (the output below depends on the training: not compared). The comment `runs:
NAME` above the title names runs of other pages that exist already.
"""

from __future__ import annotations

import shutil

import pytest

from tests.fixtures.block_runner import RUNS, PageRunner, check_command, check_output
from tests.fixtures.pages import RUN, blocks, commands, marks_of_page, name_of, page_paths
from tests.fixtures.snippets import wrong_calls

LANGUAGES = {*RUN, "text", "json", "yaml", "toml", "markdown", "{toctree}", "{include}", "{live}"}
PARSED_ONLY = {"record", "interactive"}
PAGES = {name_of(path): path for path in page_paths()}


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory):
    """shared_run(name, shortened) -> the folder of a run that several pages use, trained once."""
    folders = {}

    def find(name, shortened):
        key = name, shortened
        if key not in folders:
            folder = tmp_path_factory.mktemp("shared")
            PageRunner(folder, shortened=shortened).headway(RUNS[name].split())
            folders[key] = folder / "runs" / name
        return folders[key]

    return find


def run_page(path, folder, shared_run, *, shortened):
    """Run the blocks of a page in order, and compare the outputs that it shows."""
    marks = marks_of_page(path.read_text(encoding="utf-8"))
    names = [mark.removeprefix("runs: ") for mark in marks if mark.startswith("runs: ")]
    for name in ", ".join(names).split(", ") if names else ():
        shutil.copytree(shared_run(name, shortened), folder / "runs" / name)
    runner = PageRunner(folder, shortened=shortened)
    skipped = PARSED_ONLY | ({"slow"} if shortened else set())
    output = None
    for block in blocks(path):
        if block.language in RUN:
            output = None if skipped & block.marks else runner.run(block)
        elif block.follows and output is not None and "example" not in block.marks:
            check_output(output, block.text, block.where)


def runnable(path):
    return [
        block for block in blocks(path) if block.language in RUN and not PARSED_ONLY & block.marks
    ]


@pytest.mark.parametrize("name", PAGES)
def test_every_block_has_a_language_and_every_command_exists_with_its_flags(name):
    for block in blocks(PAGES[name]):
        assert block.language in LANGUAGES, (
            f"{block.where}: the code block needs a language (bash, python, text ...), found "
            f"{block.language!r}; CONTRIBUTING.md explains how blocks are tested"
        )
        if block.language in ("bash", "console"):
            for command in commands(block):
                check_command(command, f"{name}:{command.line}")


@pytest.mark.parametrize("name", PAGES)
def test_python_calls_headway_as_it_is(name):
    code = "\n".join(block.text for block in blocks(PAGES[name]) if block.language == "python")
    assert not list(wrong_calls(code, name))


def test_a_call_that_headway_does_not_allow_is_found():
    code = """import headway
from headway.inspection import show, no_such
headway.load("run")
headway.load("run", no_such=1)
headway.no_such()
show(*views, **options)
show()
"""
    assert [found.partition(": ")[0] for found in wrong_calls(code, "page")] == [
        f"page, line {line}" for line in (2, 4, 5, 7)
    ]


WITH_BLOCKS = [
    name
    for name, path in PAGES.items()
    if any("slow" not in block.marks for block in runnable(path))
]


OFTEN = ("README.md", "docs/start/")
"""Beginnings of the names of the pages whose blocks run in every test run."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name.startswith(OFTEN) else pytest.mark.slow)
        for name in WITH_BLOCKS
    ],
)
def test_the_blocks_of_a_page_run(name, tmp_path, shared_run):
    run_page(PAGES[name], tmp_path, shared_run, shortened=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, path in PAGES.items() if runnable(path)])
def test_the_blocks_of_a_page_run_as_written(name, tmp_path, shared_run):
    run_page(PAGES[name], tmp_path, shared_run, shortened=False)
