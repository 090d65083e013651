"""A real browser, cut off from every network: whatever goes wrong in a page fails the test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, Route, sync_playwright

from headway.inspection.page import encode, write_page
from tests.fixtures.documents import everything, hostile, report

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WATCH = """
addEventListener("securitypolicyviolation", (event) => {
  console.error("policy: " + event.violatedDirective);
});
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("no chromium is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory) -> dict[str, Path]:
    """Pages that tests only read: "all" has every view, "hostile" every nasty string."""
    folder = tmp_path_factory.mktemp("pages")
    made = {"all": encode(everything(), report=report()), "hostile": encode(hostile())}
    for name, encoded in made.items():
        write_page(folder / f"{name}.html", encoded)
    return {name: folder / f"{name}.html" for name in made}


class Tabs:
    """Pages in one context without a network, used again: a new one is two new processes."""

    def __init__(self, browser: Browser) -> None:
        self.wrong: list[str] = []
        self.free: list[Page] = []
        self._context = browser.new_context()
        self._context.set_offline(True)
        self._context.route("**/*", self._route)

    def _route(self, route: Route) -> None:
        if route.request.url.startswith(("http:", "https:", "ws:", "wss:", "ftp:")):
            self.wrong.append(f"request: {route.request.url}")
            route.abort()
        else:
            route.continue_()

    def new(self, script: str) -> Page:
        """script: run in every document before its own."""
        page = self._context.new_page()
        page.add_init_script(WATCH + script)
        page.on("console", lambda said: said.type == "error" and self.wrong.append(said.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", self._dismiss)
        return page

    def _dismiss(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture(scope="session")
def tabs(browser) -> Tabs:
    return Tabs(browser)


@pytest.fixture
def opened(tabs, pages):
    """opened(file or name, "view=text") -> a page. Requests, errors, violations fail the test."""
    used: list[Page] = []

    def open_page(
        file: Path | str,
        hash_: str = "",
        *,
        width=1200,
        height=900,
        scheme="light",
        motion="no-preference",
        script="",
    ) -> Page:
        page = tabs.free.pop() if tabs.free and not script else tabs.new(script)
        if not script:
            used.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, reduced_motion=motion)
        path = pages[file] if isinstance(file, str) else file
        page.goto(f"file://{path}#{hash_}")
        page.locator("nav button[aria-current]").wait_for()
        return page

    tabs.wrong.clear()
    yield open_page
    for page in used:
        page.mouse.move(0, 0)
        page.goto("about:blank")
    tabs.free += used
    assert not tabs.wrong, tabs.wrong
