"""Every family with every target: it runs there and computes the same, or is refused with a reason.

The table in the docs is that of these tests.
"""

from pathlib import Path

import pytest

from headway.base.errors import UsageError
from headway.exporting.target import export
from headway.exporting.targets import TARGETS, WEB
from tests.fixtures.export_matrix import CELLS, COLUMNS, FAMILIES, YES
from tests.fixtures.web_pages import installed_packages

DOCS = Path(__file__).parents[2] / "docs/howto/export.md"
NO = "no: "
PACKAGES = {
    "hf": ["transformers"],
    "onnx": ["onnxruntime", "onnxscript"],
    "gguf": ["gguf", "xllamacpp"],
    "ctranslate2": ["ctranslate2"],
    "pt2": [],
    "web": ["onnxruntime", "onnxscript"],
}
EVERY = [
    (family, target, cell)
    for family, cells in CELLS.items()
    for target, cell in zip(COLUMNS, cells, strict=True)
]
POSSIBLE = [cell for cell in EVERY if not cell[2].startswith(NO)]
QUICK = [cell for cell in POSSIBLE if cell[1] in ("hf", "ctranslate2")]
SLOW = [cell for cell in POSSIBLE if cell not in QUICK]


def exported(family, target, folder):
    """Export a family; return what the model is there."""
    for package in PACKAGES[target]:
        pytest.importorskip(package)
    bundle = FAMILIES[family]()
    done = export(bundle, folder, TARGETS[target])
    print(f"\nMATRIX {family} | {target} | {dict(done.difference)} | {done.tokens} tokens")
    writes = family.startswith(("language model", "translator", "captioner"))
    assert done.tokens >= 16 or not writes
    return done.architecture if target in ("hf", "gguf") else YES


@pytest.mark.parametrize(("family", "target", "cell"), QUICK)
def test_a_family_is_the_same_in_transformers_and_ctranslate2(tmp_path, family, target, cell):
    assert exported(family, target, tmp_path / "out") == cell


@pytest.mark.slow
@pytest.mark.parametrize(("family", "target", "cell"), SLOW)
def test_a_family_is_the_same_in_every_other_runtime(tmp_path, family, target, cell):
    if target == WEB:
        installed_packages()
    assert exported(family, target, tmp_path / "out") == cell


@pytest.mark.parametrize(
    ("family", "target", "cell"), [cell for cell in EVERY if cell[2].startswith(NO)]
)
def test_a_family_is_refused_with_the_reason(tmp_path, family, target, cell):
    with pytest.raises(UsageError) as raised:
        exported(family, target, tmp_path / "out")
    assert cell.removeprefix(NO) in raised.value.what
    assert not list(tmp_path.iterdir())


def test_the_table_in_the_docs_is_that_of_the_tests():
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| family |"))
    rows = [line.strip("|").split("|") for line in lines[start + 2 :][: len(CELLS)]]
    table = {row[0].strip(): tuple(cell.strip().strip("`") for cell in row[1:]) for row in rows}
    assert table == CELLS
