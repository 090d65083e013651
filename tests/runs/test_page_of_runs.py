"""The page of all runs compares runs of one task with each other, not with those of other tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.runs.report import Listed, runs_report

RUNS = {
    "a": ("gpt-tiny", {"optimizer.lr": 0.1, "optimizer.beta2": 0.9}, "nats"),
    "b": ("gpt", {"optimizer.lr": 0.2, "optimizer.beta2": 0.9}, "nats"),
    "c": ("vision", {"optimizer.lr": 0.3, "optimizer.beta2": 0.9}, "accuracy"),
    "d": ("unknown-recipe", {"optimizer.lr": 0.4}, "nats"),
}
"""Name -> recipe, settings and the metric of the evaluations."""


@pytest.fixture
def page(tmp_path) -> dict[str, object]:
    """The report of the page of RUNS."""
    for name, (recipe, settings, metric) in RUNS.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "run.yaml").write_text(json.dumps({"recipe": recipe, **settings}))
        events = [
            {"kind": "train", "step": 1, "loss": 2.0},
            {"kind": "valid", "step": 1, metric: 1.5},
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    rows = [Listed(tmp_path / name, of[0], 1, "-", "done") for name, of in RUNS.items()]
    return runs_report(rows, Path()).header["report"]


def test_settings_are_compared_within_a_task(page):
    _, *differing, _ = page["tables"]
    assert {one["title"]: (one["columns"][1:], one["rows"]) for one in differing} == {
        "Settings that differ: language modeling": (
            ["a", "b"],
            [["recipe", "gpt-tiny", "gpt"], ["optimizer.lr", 0.1, 0.2]],
        ),
        "Settings that differ: image classification": (["c"], []),
        "Settings that differ: unknown-recipe": (["d"], []),
    }


def test_a_curve_has_the_runs_of_one_task(page):
    lines = {one["title"]: [line["name"] for line in one["lines"]] for one in page["curves"]}
    assert lines["language modeling, loss"] == ["a", "b"]
    assert lines["language modeling, held out: nats"] == ["a", "b"]
    assert lines["image classification, held out: accuracy"] == ["c"]
    assert lines["unknown-recipe, held out: nats"] == ["d"]
