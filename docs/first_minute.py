"""Ten tasks of a stranger's first minute: clicks and seconds, measured in a headless browser.

    python docs/first_minute.py FOLDER             the table of docs/inspection_page.md
    python docs/first_minute.py FOLDER --before    the same tasks on pages of the revision BEFORE

docs/inspection_page.md has the commands that make the pages of FOLDER: translator.html,
report.html, runs.html and site/index.html. A task whose answer does not appear is an error.

Seconds are what a person needs by the keystroke-level model (Card, Moran and Newell, 1980: each
action is decided, the pointer is moved, a button or key is pressed), plus what the page needs,
which is measured: to open, and to show the answer.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BEFORE = "33084f7f^"
"""The last revision before the new drawings of the page, the report and the site."""
THINK, POINT, PRESS = 1.35, 1.1, 0.2
"""Seconds of a decision, a movement of the pointer, and a click or a key."""
PATIENCE = 20_000  # milliseconds until a task has failed
WINDOW = {"width": 1440, "height": 900}


@dataclass(frozen=True)
class Act:
    """What a person does once. clicks: how often a button or key is pressed for it."""

    target: str
    """The selector of an element, or the name of a key."""
    at: tuple[int, int] | None = None
    """The place inside the element in pixels; its centre, if None."""
    option: str = ""
    """The value to choose, if the element is a list."""
    is_key: bool = False

    @property
    def clicks(self) -> int:
        return 2 if self.option else 1

    @property
    def seconds(self) -> float:
        moved = 0 if self.is_key else self.clicks * POINT
        return THINK + moved + self.clicks * PRESS

    def do(self, page: Page) -> None:
        if self.is_key:
            page.keyboard.press(self.target)
            return
        element = page.locator(self.target).first
        if self.option:
            element.select_option(self.option, timeout=PATIENCE)
        elif self.at is None:
            element.click(timeout=PATIENCE)
        else:
            x, y = self.at
            element.click(position={"x": x, "y": y}, timeout=PATIENCE)


def view(name: str) -> Act:
    """A click on the name of a view."""
    return Act(f'nav button:text-is("{name}")')


def says(selector: str, words: str) -> str:
    return f'{selector}:visible:has-text("{words}")'


@dataclass(frozen=True)
class Way:
    """How a task is done. seen: a selector that matches when the answer is on the screen."""

    acts: Sequence[Act]
    seen: str


@dataclass(frozen=True)
class Task:
    """What a stranger wants. page: what is open. before: None if there was no way."""

    wants: str
    page: str
    now: Way
    before: Way | None


TASKS = (
    Task(
        "Copy the command that starts everything",
        "site/index.html",
        Way([Act(".home .copy")], says(".copy", "copied")),
        None,
    ),
    Task(
        "See which words *avec* attends to",
        "translator.html",
        Way([view("Text"), Act(says(".token", "avec"))], says(".sentence", "avec")),
        Way([view("Text"), Act(says(".token", "avec"))], says(".sentence", "avec")),
    ),
    Task(
        "Watch the words travel through the layers",
        "translator.html",
        Way([Act(".play")], says(".play", "Pause")),
        None,
    ),
    Task(
        "See what head 2 of layer 1 reads",
        "translator.html",
        Way([view("Matrix"), Act(".mini canvas", (86, 29))], says(".chosen", "Layer 1 · Head 2")),
        Way(
            [
                view("Matrix"),
                Act('select[aria-label="Layer"]', option="0"),
                Act('select[aria-label="Head"]', option="1"),
            ],
            says(".sentence", "attends"),
        ),
    ),
    Task(
        "See which word breaks without a head",
        "translator.html",
        Way([Act('button:has-text("Switch head")')], ".falls:visible"),
        None,
    ),
    Task(
        "Find the line of code that computes the scores",
        "translator.html",
        Way([], says(".part code", ".py")),
        Way([view("Walkthrough"), Act(says("ol button", "Scores"))], says(".source code", ".py")),
    ),
    Task(
        "See what else it could have written for *roux*",
        "translator.html",
        Way([view("Predictions")], says(".body h3", "roux")),
        Way([view("Predictions"), Act(says(".chip", "roux"))], says(".body h3", "roux")),
    ),
    Task(
        "Watch a model learn",
        "report.html",
        Way([], says("h3", "Watch it learn")),
        None,
    ),
    Task(
        "See in which settings two runs differ",
        "runs.html",
        Way([], says("caption", "Settings that differ")),
        None,
    ),
    Task(
        "Show the page to a room: full screen, large type",
        "translator.html",
        Way([Act("f", is_key=True)], ".presenter"),
        None,
    ),
)


@dataclass(frozen=True)
class Measured:
    """clicks: of a person. seconds: of the person and of the page."""

    clicks: int
    seconds: float


def measured(browser: Browser, path: Path, way: Way) -> Measured:
    """Do a task in a new window. An error of the browser if its answer does not appear."""
    context = browser.new_context(viewport=WINDOW)  # type: ignore[arg-type]
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    begun = time.monotonic()
    page.goto(path.resolve().as_uri())
    for act in way.acts:
        act.do(page)
    page.locator(way.seen).first.wait_for(state="attached", timeout=PATIENCE)
    waited = time.monotonic() - begun
    context.close()
    clicks = sum(act.clicks for act in way.acts)
    return Measured(clicks, waited + sum(act.seconds for act in way.acts))


def main(words: Sequence[str]) -> None:
    """Print a row for each task."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--before", action="store_true", help=f"pages of {BEFORE}")
    given = parser.parse_args(words)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for task in TASKS:
            way = task.before if given.before else task.now
            if way is None:
                print(f"| {task.wants} | no way | |", flush=True)
                continue
            one = measured(browser, given.folder / task.page, way)
            print(f"| {task.wants} | {one.clicks} | {one.seconds:.1f} |", flush=True)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
