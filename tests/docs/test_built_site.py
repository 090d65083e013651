"""The site as Sphinx builds it: no warning, no network, no clipped text, accessible, searchable."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from urllib.parse import unquote

import pytest

from tests.fixtures.pages import DOCS, ROOT

NEEDED = ("sphinx", "myst_nb", "furo", "latex2mathml")
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
CLIPPED = """() => {
  const faults = [];
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 1) faults.push(`the page is ${wide} pixels wider than the window`);
  for (const box of document.querySelectorAll("article *, .sidebar-drawer *")) {
    if (box.clientWidth < 2 || !box.textContent.trim()) continue;
    const hides = ["hidden", "clip"].includes(getComputedStyle(box).overflowX);
    if (hides && box.scrollWidth > box.clientWidth + 1) faults.push(box.outerHTML.slice(0, 100));
  }
  for (const text of document.querySelectorAll("article svg.drawing text")) {
    const box = text.getBoundingClientRect();
    const sheet = text.ownerSVGElement.getBoundingClientRect();
    const isInside = box.left > sheet.left - 1 && box.right < sheet.right + 1
      && box.top > sheet.top - 1 && box.bottom < sheet.bottom + 1;
    if (!isInside) faults.push(text.textContent);
  }
  return faults;
}"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in NEEDED),
        reason="the site is not built: a package of the extra docs is not installed (make docs)",
    ),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the site, built without live pages: they take minutes of training."""
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "-q", "-W", "-j", "auto", "-b", "html", "-d", folder / "trees"]
    # tests/docs/test_live.py and test_notebooks.py test what these run
    words += ["-D", "live_pages=0", "-D", "nb_execution_mode=off"]
    paths = os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])
    proxies = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, *words, DOCS, folder / "html"],
        capture_output=True,
        text=True,
        env={**os.environ, **proxies, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    api = pytest.importorskip("playwright.sync_api")
    if not os.path.exists(CHROMIUM):
        pytest.skip("no chromium is installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def open_page(built, browser):
    """A function that opens a page of the site in a window; it notes requests to other hosts."""
    contexts = []

    def opened(name, width=1440, form="light", script=True):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=form, java_script_enabled=script
        )
        contexts.append(context)
        page = context.new_page()
        page.remote = []
        page.on("request", lambda request: _note(page, request.url))
        path, mark, query = name.partition("?")
        page.goto(f"{(built / path).as_uri()}.html{mark}{query}")
        return page

    yield opened
    for context in contexts:
        context.close()


def _note(page, url):
    if not url.startswith(("file:", "data:", "blob:")):
        page.remote.append(url)


def test_sphinx_builds_the_site_without_a_warning_or_a_network(built):
    """Nothing on the pages is loaded from elsewhere, and search works from the file."""
    assert (built / "llms.txt").read_text().startswith("# Headway\n")
    assert (built / "searchindex.js").is_file()
    loaded = re.compile(r"<(?:script|img|link)\b[^>]*?(?:src|href)=\"(https?:[^\"]+)\"")
    for page in built.rglob("*.html"):
        text = page.read_text()
        assert not (remote := loaded.findall(text)), f"{page.name}: {remote}"
        for target in set(re.findall(r'href="([^"#?:]+)["#?]', text)):
            is_there = (page.parent / unquote(target)).exists() or page.parent.name == "_modules"
            assert is_there, f"{page.relative_to(built)}: {target}"


def test_the_api_page_has_no_base_that_every_class_has(built):
    text = (built / "reference" / "generated" / "api.html").read_text()
    assert 'id="headway.Run"' in text and "headway.api.Run" not in text
    assert not re.search(r"Bases:\s*<code[^>]*>\s*<span[^>]*>object</span>", text)


def visited(page, built):
    """Open every page of the site after another in the same window, and yield its name."""
    pages = [path for path in sorted(built.rglob("*.html")) if "_modules" not in path.parts]
    assert len(pages) > 80
    for path in pages:
        page.goto(path.as_uri())
        page.wait_for_timeout(100)  # the theme and the tooltips set up the page
        yield path.relative_to(built).as_posix()


@pytest.mark.parametrize("width", [390, 800, 1440])
def test_no_text_is_clipped_on_any_page(open_page, built, width):
    page = open_page("index", width)
    faults = {name: page.evaluate(CLIPPED) for name in visited(page, built)}
    assert not {name: found for name, found in faults.items() if found}
    assert not page.remote


def test_clipped_text_is_found(open_page):
    page = open_page("index", 390)
    style = "width: 60px; overflow: hidden; white-space: nowrap"
    page.evaluate(
        "(html) => document.querySelector('article').insertAdjacentHTML('beforeend', html)",
        f'<p id="planted" style="{style}">much too long a line</p>',
    )
    assert ["planted" in fault for fault in page.evaluate(CLIPPED)] == [True]


@pytest.mark.parametrize("form", ["light", "dark"])
def test_no_page_has_serious_accessibility_findings(open_page, built, form):
    pytest.importorskip("axe_playwright_python")
    from tests.fixtures.accessibility import findings

    page = open_page("index", form=form)
    violations = {name: findings(page) for name in visited(page, built)}
    assert not {name: found for name, found in violations.items() if found}


def test_a_term_shows_its_definition_to_pointer_and_keyboard(open_page):
    page = open_page("tour/attention")
    term, box = page.locator("a.term").first, page.locator("#definition")
    term.focus()
    assert box.is_visible() and box.inner_text() == term.get_attribute("data-definition")
    assert term.get_attribute("aria-describedby") == "definition"
    page.keyboard.press("Escape")
    assert box.is_hidden() and term.get_attribute("aria-describedby") is None
    page.mouse.move(0, 0)
    term.hover()
    page.wait_for_timeout(600)
    assert box.is_visible()


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("beam search", "translation"),
        ("attention", "tour/attention"),
        ("quantize int8", "quantisation"),
        ("resume", "howto/runs"),
    ],
)
def test_the_page_that_a_stranger_needs_is_among_the_first_five_results(open_page, words, first):
    page = open_page(f"search?q={words.replace(' ', '+')}")
    page.wait_for_function("document.querySelectorAll('ul.search li').length > 4")
    links = page.locator("ul.search li > a").evaluate_all(
        "all => all.slice(0, 5).map((a) => a.href)"
    )
    assert any(f"{first}.html" in link for link in links), links
    scores = page.locator("ul.search li > a").evaluate_all(
        "all => all.map((a) => +a.dataset.score)"
    )
    assert scores == sorted(scores, reverse=True) and len(set(scores)) > 2


def test_a_command_is_copied_with_one_click(open_page):
    page = open_page("index")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".home .copy").first.click()
    page.locator(".copy", has_text="copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "make demo"
