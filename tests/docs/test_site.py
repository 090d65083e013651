"""The pages of the site: every page is in its tree, and links and anchors exist."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import PurePosixPath
from urllib.parse import unquote

import pytest

from tests.fixtures.pages import (
    ROOT,
    anchors,
    generated,
    name_of,
    page_paths,
    reached,
    site,
    slug,
    without_code,
)

LINK = re.compile(r"(?<!\\)!?\[[^\]]*\]\(([^)\s]+)\)")


def problems(page: str, text: str) -> list[str]:
    """The links of a page (by path in the repository) whose file or heading does not exist."""
    faults = []
    for target in LINK.findall(without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = os.path.normpath(PurePosixPath(page).parent / file) if file else page
        inside = site().get(path.removeprefix("docs/")) if path.startswith("docs/") else None
        exists = not file or inside is not None or (ROOT / path).exists()
        if not exists:
            faults.append(f"{page}: {target}: there is no {path}")
        elif file and inside is None and path.endswith(".md") and page.startswith("docs/"):
            faults.append(f"{page}: {target}: {path} is no page of the site")
        elif anchor and path.endswith(".md"):
            other = text if not file else inside or (ROOT / path).read_text(encoding="utf-8")
            if anchor not in anchors(other):
                faults.append(f"{page}: {target}: there is no heading #{anchor}")
    return faults


def test_every_page_is_once_in_the_tree_of_the_site():
    counts = Counter(reached())
    repeated = [page for page, count in counts.items() if count > 1]
    assert not repeated, f"in several toctrees: {repeated}"
    missing, unknown = set(site()) - set(counts), set(counts) - set(site())
    assert not missing, f"in no toctree: {sorted(missing)}"
    assert not unknown, f"in a toctree, but no such page: {sorted(unknown)}"


@pytest.mark.parametrize("path", page_paths(), ids=name_of)
def test_the_links_of_a_written_page_exist(path):
    assert not (faults := problems(name_of(path), path.read_text(encoding="utf-8"))), faults


def test_the_links_of_the_generated_pages_exist():
    for name, text in generated().items():
        assert not (faults := problems(f"docs/{name}", text)), faults


def unmarked(text: str) -> list[str]:
    """The links to generated pages, which the repository does not have, without a word on it."""
    faults = []
    prose = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    for paragraph in prose.split("\n\n"):
        for line in paragraph.split("\n") if paragraph.startswith("|") else [paragraph]:
            links = [target for target in LINK.findall(line) if "reference/generated/" in target]
            faults += [target for target in links if "`make docs`" not in line]
    return faults


@pytest.mark.parametrize("path", page_paths(), ids=name_of)
def test_a_link_to_a_page_that_only_the_site_has_says_so_beside_it(path):
    assert not (faults := unmarked(path.read_text(encoding="utf-8"))), faults
    for target in LINK.findall(without_code(path.read_text(encoding="utf-8"))):
        file = target.partition("#")[0]
        is_local = file and not re.match(r"[a-z]+:", target)
        if is_local and "reference/generated/" not in file:
            assert (path.parent / unquote(file)).exists(), f"there is no {file} in the repository"


def test_unmarked_links_to_generated_pages_are_found():
    link = "[settings](../reference/generated/settings.md)"
    assert unmarked(f"All {link}.\n\n`make docs` makes pages.") == [
        "../reference/generated/settings.md"
    ]
    assert not unmarked(f"All {link}, a page that\n`make docs` generates.")
    assert len(unmarked(f"| {link} |\n| `make docs` |")) == 1


def test_the_link_checker_reports_planted_faults():
    text = "# A title\n\n[a](nowhere.md) [b](#a-title) [c](#other) [d](results.md#nothing) `[e](f)`"
    text += " [g](../README.md)"
    assert [fault.split(": ")[1] for fault in problems("docs/x.md", text)] == [
        "nowhere.md",
        "#other",
        "results.md#nothing",
        "../README.md",
    ]
    assert slug("(a) RNN < RNN with *attention* < `Transformer`") == (
        "a-rnn--rnn-with-attention--transformer"
    )


def clicks_from_home() -> dict[str, int]:
    """Page -> the least number of links to follow from the home page, in the text of pages."""
    distance, waiting = {"index.md": 0}, ["index.md"]
    for page in waiting:
        for target in LINK.findall(without_code(site()[page])):
            path = os.path.normpath(PurePosixPath(page).parent / target.partition("#")[0])
            if path in site() and path not in distance:
                distance[path] = distance[page] + 1
                waiting.append(path)
    return distance


def test_every_question_is_answered_at_most_two_clicks_from_the_home_page():
    rows = re.findall(r"^\| (.+\?.*) \| (.+) \|$", site()["start/answers.md"], re.MULTILINE)
    assert len(rows) == 20
    clicks = clicks_from_home()
    for question, answer in rows:
        for target in LINK.findall(answer):
            page = os.path.normpath(PurePosixPath("start") / target.partition("#")[0])
            assert clicks[page] <= 2, f"{question}: {page} is {clicks[page]} clicks away"
        assert LINK.search(answer), f"{question}: no page"


def test_the_table_of_features_is_counted_right_and_names_paths_that_exist():
    text = site()["features.md"]
    rows = re.findall(r"^\| (\d+) \|.+?(?<!\\)\| (yes|partial|no) \|(.*)\|$", text, re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, 91))
    answers = Counter(answer for _, answer, _ in rows)
    words = {"yes": "yes", "partial": "partial", "no": "not yet"}
    counted = ", ".join(f"{answers[one]} {word}" for one, word in words.items() if answers[one])
    assert text.endswith(f"\n{counted}.\n")
    for number, _, shown in rows:
        for path in re.findall(r"`((?:src|tests|docs|bench)/[^`]+)`", shown):
            assert (ROOT / path).exists(), f"row {number}: there is no {path}"


def test_every_page_has_one_title():
    for name, text in site().items():
        outside = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
        titles = re.findall(r"^# .+$", outside, re.MULTILINE)
        assert len(titles) == 1, f"docs/{name} has {len(titles)} titles"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split("\n")) <= 122
