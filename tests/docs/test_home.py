"""The home page, the summaries of results and speed, and what the site adds to its pages."""

from __future__ import annotations

import re

import pytest
from PIL import Image

from tests.fixtures.pages import DOCS, ROOT, docs_module

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.fixture(scope="module")
def tables():
    """The module docs/drawings/tables.py."""
    with docs_module("drawings.tables") as module:
        yield module


def text_of(page):
    return (DOCS / page).read_text(encoding="utf-8")


def numbers(text):
    return set(NUMBER.findall(text))


def size_of(path):
    """Width, height and number of frames of a picture."""
    with Image.open(path) as image:
        return *image.size, image.n_frames


def section(page, title):
    return text_of(page).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def measured_items():
    items = re.findall(
        r"^- \*\*(.+?)\*\* (.+?) \[(.+?)\]\((.+?)\)$", section("index.md", "Measured"), re.M
    )
    assert len(items) == 4
    return items


@pytest.mark.parametrize("item", range(4))
def test_each_number_of_the_home_page_is_in_the_row_that_it_names(tables, item):
    figure, words, name, page = measured_items()[item]
    rows = [
        " ".join([*table.columns, *row])
        for table in tables.tables(text_of(page))
        for row in table.rows
        if row[0] == tables.plain(name)
    ]
    assert rows, f"docs/{page} has no row {name!r}"
    missing = numbers(figure + " " + words) - numbers(rows[0])
    assert not missing, f"{missing} is not in the row {rows[0]}"


@pytest.mark.parametrize("page", ["results.md", "speed.md"])
def test_each_decimal_number_of_the_ten_sentences_is_in_a_table_below(tables, page):
    above, _, below = text_of(page).partition("\n## All measurements\n")
    sentences = re.findall(r"^\d+\. (.+(?:\n +.+)*)", above, re.MULTILINE)
    assert len(sentences) == 10
    cells = {
        n for table in tables.tables(below) for row in table.rows for n in numbers(" ".join(row))
    }
    for sentence in sentences:
        decimals = {number for number in numbers(sentence) if "." in number}
        assert decimals <= cells, f"{sentence}: {decimals - cells} is in no table"
    assert 2 <= above.count("](pictures/charts/") <= 3


def test_a_row_that_is_missing_is_an_error(tables):
    table = tables.Table(["a", "b"], [["x", "1"]])
    assert table.row("x") == {"a": "x", "b": "1"}
    with pytest.raises(ValueError, match="no row of the table with a, b is 'y'"):
        table.row("y")
    (read,) = tables.tables("| a | b |\n|---|--:|\n| **x**† | [1 `t`](u.md) |\n")
    assert read == tables.Table(["a", "b"], [["x", "1 t"]])


def test_times_are_read_in_minutes():
    with docs_module("drawings.charts") as charts:
        assert charts.minutes("Zen 5, 2 min 8 s") == pytest.approx(2 + 8 / 60)
        assert charts.minutes("Zen 5, 54 to 108 s, 1 thread") == pytest.approx(1.8)
        with pytest.raises(ValueError, match="no time"):
            charts.minutes("Zen 5")


def test_pictures_of_the_home_page_have_both_forms_and_the_film_is_small():
    with docs_module("screens") as screens:
        shown = re.findall(r"pictures/cards/([\w-]+)-light\.webp", text_of("index.md"))
        assert shown == list(screens.CARDS)
        for name in shown:
            sizes = {size_of(screens.FOLDER / f"{name}-{form}.webp") for form in screens.FORMS}
            assert len(sizes) == 1, f"{name}: the light and the dark picture have other sizes"
        film = DOCS / "pictures" / "inspect.webp"
        assert film.stat().st_size <= screens.MOST
        assert size_of(film)[2] == len(screens.FILM)
    assert (DOCS / "pictures" / "film.webp").stat().st_size <= 3_000_000
    assert "docs/pictures/inspect.webp" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_query_key_and_value_have_one_colour_each_in_drawings_equations_and_code():
    css = (DOCS / "_static" / "site.css").read_text(encoding="utf-8")
    with docs_module("drawings") as drawings:
        for name in drawings.kit.BOXES:
            assert (
                tuple(dict.fromkeys(re.findall(rf"--{name}: (#\w+)", css)))
                == (drawings.kit.COLOURS[name])
            )
    pytest.importorskip("latex2mathml")
    with docs_module("mathml") as mathml:
        html = mathml.mathml(r"\textcolor{query}{Q} \textcolor{red}{K}", "block")
        assert 'class="query"' in html and 'mathcolor="red"' in html
        assert mathml.parts(r"a = {b \quad c}, \quad d \qquad e") == [r"a = {b \quad c},", "d", "e"]
        code = '<span class="n">q</span> <span class="n">queue</span> <span class="n">v</span>'
        assert mathml.coloured(code).count('class="n value"') == 1
        assert 'class="n query">q<' in mathml.coloured(code)
        assert "queue" in mathml.coloured(code).partition('"n">')[2]


def test_the_api_page_names_functions_as_users_write_them():
    with docs_module("generate") as generate:
        page = generate.api_index()
    for name in ("Run", "train", "evaluate", "load", "tasks"):
        assert re.search(rf"^\.\. auto\w+:: headway\.{name}$", page, re.MULTILINE), name
    assert "headway.api" not in page
    assert "\n.. code-block:: python\n\n    run = headway.train(" in page


def test_programs_in_docstrings_become_code_and_prose_stays_prose():
    with docs_module("generate") as generate:
        made = generate.restructured(
            ["One line.", "", "x = f(1)", "print(x)", "", "A word", "", "Yes"]
        )
        assert made[2:6] == [".. code-block:: python", "", "    x = f(1)", "    print(x)"]
        assert made[-4:] == ["A word", "", "Yes", ""]


def test_the_first_occurrence_of_a_term_is_marked_and_a_file_name_is_not():
    pytest.importorskip("docutils")
    with docs_module("tooltips") as tooltips:
        seen = set()
        marked = [
            (shown, term.term)
            for shown, term in tooltips.parts("Softmax in kernel.py, not-softmax, softmaxes", seen)
            if term is not None
        ]
        assert marked == [("Softmax", "softmax")] and seen == {"softmax"}
        assert [term for _, term in tooltips.parts("a softmax", seen)] == [None]
