"""A real browser, cut off from every network: whatever goes wrong in a page fails the test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from headway.inspection.page import encode, write_page
from tests.inspection.page.documents import everything, hostile, report

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


@pytest.fixture
def opened(browser, pages):
    """opened(file or name, "view=text") -> a page. Requests, errors, violations fail the test."""
    wrong: list[str] = []
    contexts = []

    def open_page(
        file: Path | str,
        hash_: str = "",
        *,
        width=1200,
        height=900,
        scheme="light",
        script=None,
        **more,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **more
        )
        contexts.append(context)
        page = context.new_page()

        def route(request):
            if request.request.url.startswith(("http:", "https:", "ws:", "wss:", "ftp:")):
                wrong.append(f"request: {request.request.url}")
                request.abort()
            else:
                request.continue_()

        context.route("**/*", route)
        context.set_offline(True)
        page.add_init_script(WATCH + (script or ""))
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        path = pages[file] if isinstance(file, str) else file
        page.goto(f"file://{path}#{hash_}")
        page.locator("nav button[aria-current]").wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong, wrong
