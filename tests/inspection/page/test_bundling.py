"""JavaScript modules are bundled into one script, in order; other syntax is refused."""

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from headway.inspection.page.bundling import bundle

ROOT = Path(__file__).resolve().parents[3]
ASSETS = files("headway.inspection.page") / "assets"
MODULES = sorted(entry.name for entry in ASSETS.iterdir() if entry.name.endswith(".js"))


def test_an_imported_module_is_first_and_names_of_modules_do_not_collide():
    script = bundle(
        {
            "a": 'import {b} from "./b.js";\nconst own = 1;\nb(own);\n',
            "b": "const own = 2;\nexport function b(x) { return x + own; }\n",
        }
    )
    assert script.index("module_b = ") < script.index("module_a = ")
    assert "const {b} = module_b;" in script and "return {b};" in script
    assert "import" not in script and "export" not in script


@pytest.mark.parametrize(
    "modules, message",
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
def test_imports_that_are_not_supported_are_refused(modules, message):
    with pytest.raises(ValueError, match=message):
        bundle(modules)


def test_every_asset_is_part_of_the_package():
    """No test of the source tree would notice a file that an installed Headway lacks."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pattern,) = [
        glob
        for glob in settings["tool"]["setuptools"]["package-data"]["headway"]
        if "assets" in glob
    ]
    package = ROOT / "src" / "headway"
    packaged = {path.name for path in package.glob(pattern)}
    assert packaged == {entry.name for entry in ASSETS.iterdir()} and len(packaged) > 30


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_short_begins_with_its_purpose_and_parses_no_markup(name):
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
