"""Modules as one script: in the right order, and only what is understood."""

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from headway.inspection.page.bundling import bundle

ROOT = Path(__file__).resolve().parents[3]
ASSETS = files("headway.inspection.page") / "assets"
MODULES = sorted(entry.name for entry in ASSETS.iterdir() if entry.name.endswith(".js"))


def test_what_is_needed_comes_first_and_names_of_modules_do_not_meet():
    made = bundle(
        {
            "a": 'import {b} from "./b.js";\nconst own = 1;\nb(own);\n',
            "b": "const own = 2;\nexport function b(x) { return x + own; }\n",
        }
    )
    assert made.index("module_b = ") < made.index("module_a = ")
    assert "const {b} = module_b;" in made and "return {b};" in made
    assert "import" not in made and "export" not in made


@pytest.mark.parametrize(
    "modules, said",
    [
        (
            {"a": 'import {b} from "./b.js";\n', "b": "const b = 1;\n"},
            "a.js imports b, but b.js does not export it",
        ),
        ({"a": 'import {b} from "./c.js";\n'}, "a.js imports b, but c.js does not export it"),
        ({"a": 'import * as b from "./b.js";\n', "b": ""}, "not supported: import"),
        ({"a": "export default 1;\n"}, "not supported: export"),
        (
            {
                "a": 'import {b} from "./b.js";\nexport const a = 1;\n',
                "b": 'import {a} from "./a.js";\nexport const b = 1;\n',
            },
            "import each other",
        ),
    ],
)
def test_what_is_not_understood_is_named(modules, said):
    with pytest.raises(ValueError, match=said):
        bundle(modules)


def test_every_asset_is_part_of_the_package():
    """What an installed Headway would miss, no test of the source tree would."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pattern,) = [
        one for one in settings["tool"]["setuptools"]["package-data"]["headway"] if "assets" in one
    ]
    package = ROOT / "src" / "headway"
    found = {path.name for path in package.glob(pattern)}
    assert found == {entry.name for entry in ASSETS.iterdir()} and len(found) > 30


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_short_says_what_it_is_for_and_reads_no_markup(name):
    text = (ASSETS / name).read_text("utf-8")
    assert text.startswith("// ") and text.count("\n") < 400
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        'setAttribute("style"',
    ):
        assert forbidden not in text
