"""The example package that adds a task, from training to inspection, and its errors."""

import json
from pathlib import Path

import pytest
import torch

import headway as library
from tests.fixtures.command_line import headway
from tests.fixtures.packages import EXAMPLES, installed
from tests.fixtures.tiny_encoder import save_encoder, sentences

SMALL = ["--steps", "12", "--optimizer.lr", "1e-2", "--evaluation.every", "6", "--threads", "1"]
TEXT = "in our garden Ada Lee sings ."


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regression")
    torch.manual_seed(0)
    save_encoder(folder / "start")
    rows = [{"words": s.split(), "numbers": [len(w) for w in s.split()]} for s in sentences()]
    (folder / "lengths.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with installed("word_regression", tmp_path_factory.mktemp("packages")):
        yield folder


def train(working_folder, run, *more, check=0):
    words = ["train", "word_regression", "lengths.jsonl", "--from", "start", "--run", run, "-q"]
    return headway(*words, *SMALL, *more, cwd=working_folder, check=check)


@pytest.fixture(scope="module")
def run(working_folder):
    train(working_folder, "lengths")
    return working_folder / "runs" / "lengths"


def test_the_package_is_one_folder_of_at_most_250_lines():
    sources = (EXAMPLES / "word_regression" / "word_regression").glob("*.py")
    lines = [line for path in sources for line in path.read_text().split("\n") if line.strip()]
    assert 150 < len(lines) <= 250


def test_the_help_lists_its_recipe_verb_and_settings(working_folder):
    assert library.tasks()["word_regression"] == ["rate"]
    assert (
        "Predict a number for every word of texts" in headway("--help", cwd=working_folder).stdout
    )
    settings = headway("train", "word_regression", "--help", cwd=working_folder).stdout
    assert (
        "--data.held-out 0.1" in settings
        and "A word regressor fine-tuned from an encoder" in settings
    )


def test_the_verb_prints_a_number_for_every_word_as_text_and_as_json(run, working_folder):
    line = headway("rate", "runs/lengths", TEXT, cwd=working_folder).stdout.strip()
    assert [part.partition("/")[0] for part in line.split()] == TEXT.split()
    (row,) = headway(
        "rate", "runs/lengths", "--json", cwd=working_folder, text=TEXT + "\n"
    ).stdout.splitlines()
    prediction = json.loads(row)
    assert prediction["words"] == TEXT.split() and len(prediction["numbers"]) == 7
    bundle = library.load(run)
    assert bundle.numbers([TEXT.split()]) == [prediction["numbers"]]
    refused = headway("rate", "start", TEXT, cwd=working_folder, check=2)
    assert "text encoder" in refused.stderr and "word regressor" in refused.stderr


def test_training_eval_and_python_give_the_same_scores(run, working_folder, monkeypatch):
    monkeypatch.chdir(working_folder)
    printed = json.loads(headway("eval", "runs/lengths", "--json", cwd=working_folder).stdout)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    best = min((row for row in rows if row["kind"] == "valid"), key=lambda row: row["mse"])
    assert printed["mse"] == best["mse"] and printed["pearson"] == best["pearson"]
    assert library.evaluate(run).as_dict() == printed
    whole = library.evaluate(library.load(run), working_folder / "lengths.jsonl")
    assert whole.counts["words"] > printed["words"]


def test_the_model_is_inspected(run, working_folder):
    headway("inspect", "runs/lengths", TEXT, "--html", "page.html", cwd=working_folder)
    assert "word regressor" in (working_folder / "page.html").read_text()


def test_a_resumed_run_equals_an_uninterrupted_one(run, working_folder):
    """The runs differ only in the number of steps before the interruption."""
    train(working_folder, "halves", "--schedule.kind", "constant", "--steps", "6")
    headway("train", "--resume", "runs/halves", "--training.steps", "12", "-q", cwd=working_folder)
    train(working_folder, "whole", "--schedule.kind", "constant")
    resumed, whole = (
        dict(library.load(working_folder / "runs" / name).model.named_parameters())
        for name in ("halves", "whole")
    )
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "too few sentences"),
        ('{"words": ["a"], "numbers": [1, 2]}', "lengths.jsonl"),
        ('{"words": [], "numbers": []}', "must be lists"),
        ("{", "lengths.jsonl"),
        (None, "no such file"),
    ],
)
def test_invalid_training_data_is_refused_and_nothing_is_written(
    content, message, working_folder, tmp_path
):
    path = tmp_path / "lengths.jsonl"
    if content is not None:
        path.write_text(content)
    start = str(working_folder / "start")
    words = ["train", "word_regression", str(path), "--from", start]
    refused = headway(*words, cwd=tmp_path, check=None)
    assert refused.returncode in (2, 3) and message in refused.stderr
    assert "Traceback" not in refused.stderr and not Path(tmp_path, "runs", "rate").exists()


def test_variants_are_compared(working_folder):
    words = ["compare", "word_regression", "lengths.jsonl", "--from", "start", "--steps", "2"]
    varied = ["--vary", "optimizer.lr=1e-3,1e-2", "--run", "compared", "--json", "-q"]
    report = json.loads(headway(*words, *varied, cwd=working_folder).stdout)
    assert (
        "mse" in json.dumps(report)
        and (working_folder / "runs" / "compared" / "report.md").is_file()
    )
