"""The table of speed of every family: one decoder and one encoder of it."""

import pytest
from bench import families


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "kinds"), [("gemma2", ["prompt", "1", "8"]), ("nomic-bert", ["encoding"])]
)
def test_a_family_is_measured_after_its_outputs_are_compared(monkeypatch, name, kinds):
    monkeypatch.setattr(families, "PROMPT", 24)
    monkeypatch.setattr(families, "STEPS", 3)
    model = dict(families.models())[name]()
    ratios = dict(families.measured(model, 1))
    assert list(ratios) == kinds and all(float(cell.split(" ")[0]) > 0 for cell in ratios.values())
