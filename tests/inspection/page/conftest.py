"""A real browser without network access: every error in a page fails the test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, Route, expect, sync_playwright

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
expect.set_options(timeout=60_000)  # milliseconds; a busy machine takes more than the usual 5,000
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
    """Return pages that tests only read: "all" has every view, "hostile" every malicious string."""
    folder = tmp_path_factory.mktemp("pages")
    documents = {"all": encode(everything(), report=report()), "hostile": encode(hostile())}
    for name, encoded in documents.items():
        write_page(folder / f"{name}.html", encoded)
    return {name: folder / f"{name}.html" for name in documents}


class Tabs:
    """Reusable pages in one context without network access; a new page needs two new processes."""

    def __init__(self, browser: Browser) -> None:
        self.errors: list[str] = []
        self.free: list[Page] = []
        self._context = browser.new_context()
        self._context.set_offline(True)
        self._context.route("**/*", self._route)

    def _route(self, route: Route) -> None:
        if route.request.url.startswith(("http:", "https:", "ws:", "wss:", "ftp:")):
            self.errors.append(f"request: {route.request.url}")
            route.abort()
        else:
            route.continue_()

    def new(self, script: str) -> Page:
        """Open a page that runs `script` in every document before the scripts of the document."""
        page = self._context.new_page()
        page.add_init_script(WATCH + script)
        page.on(
            "console", lambda message: message.type == "error" and self.errors.append(message.text)
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", self._dismiss)
        return page

    def _dismiss(self, dialog: Dialog) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture(scope="session")
def tabs(browser) -> Tabs:
    return Tabs(browser)


@pytest.fixture
def opened(tabs, pages):
    """opened(file or name, "view=text") -> a page; requests, errors and violations fail it."""
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
        wait=True,
    ) -> Page:
        page = tabs.free.pop() if tabs.free and not script else tabs.new(script)
        if not script:
            used.append(page)
        page.bring_to_front()  # the browser slows down timers and downloads of other tabs
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, reduced_motion=motion)
        path = pages[file] if isinstance(file, str) else file
        page.goto(f"file://{path}#{hash_}")
        if wait:
            page.locator("nav button[aria-current]").wait_for()
        return page

    tabs.errors.clear()
    yield open_page
    for page in used:
        page.mouse.move(0, 0)
        page.goto("about:blank")
    tabs.free += used
    assert not tabs.errors, tabs.errors
