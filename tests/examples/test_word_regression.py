"""The example package that adds a task: trained, used, evaluated, looked into, resumed, refused."""

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
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regression")
    torch.manual_seed(0)
    save_encoder(folder / "start")
    rows = [{"words": s.split(), "numbers": [len(w) for w in s.split()]} for s in sentences()]
    (folder / "lengths.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with installed("word_regression", tmp_path_factory.mktemp("packages")):
        yield folder


def train(place, run, *more, check=0):
    words = ["train", "word_regression", "lengths.jsonl", "--from", "start", "--run", run, "-q"]
    return headway(*words, *SMALL, *more, cwd=place, check=check)


@pytest.fixture(scope="module")
def run(place):
    train(place, "lengths")
    return place / "runs" / "lengths"


def test_it_is_one_folder_of_at_most_250_lines():
    sources = (EXAMPLES / "word_regression" / "word_regression").glob("*.py")
    lines = [line for path in sources for line in path.read_text().split("\n") if line.strip()]
    assert 150 < len(lines) <= 250


def test_its_recipe_its_verb_and_its_settings_are_listed(place):
    assert library.tasks()["word_regression"] == ["rate"]
    assert "Predict a number for every word of texts" in headway("--help", cwd=place).stdout
    settings = headway("train", "word_regression", "--help", cwd=place).stdout
    assert (
        "--data.held-out 0.1" in settings
        and "A word regressor fine-tuned from an encoder" in settings
    )


def test_its_verb_prints_a_number_for_every_word_as_text_and_as_json(run, place):
    line = headway("rate", "runs/lengths", TEXT, cwd=place).stdout.strip()
    assert [part.partition("/")[0] for part in line.split()] == TEXT.split()
    (row,) = headway(
        "rate", "runs/lengths", "--json", cwd=place, text=TEXT + "\n"
    ).stdout.splitlines()
    rated = json.loads(row)
    assert rated["words"] == TEXT.split() and len(rated["numbers"]) == 7
    bundle = library.load(run)
    assert bundle.numbers([TEXT.split()]) == [rated["numbers"]]
    refused = headway("rate", "start", TEXT, cwd=place, check=2)
    assert "text encoder" in refused.stderr and "word regressor" in refused.stderr


def test_training_eval_and_python_give_the_same_scores(run, place, monkeypatch):
    monkeypatch.chdir(place)
    printed = json.loads(headway("eval", "runs/lengths", "--json", cwd=place).stdout)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    best = min((row for row in rows if row["kind"] == "valid"), key=lambda row: row["mse"])
    assert printed["mse"] == best["mse"] and printed["pearson"] == best["pearson"]
    assert library.evaluate(run).as_dict() == printed
    whole = library.evaluate(library.load(run), place / "lengths.jsonl")
    assert whole.counts["words"] > printed["words"]


def test_it_is_looked_into(run, place):
    headway("inspect", "runs/lengths", TEXT, "--html", "page.html", cwd=place)
    assert "word regressor" in (place / "page.html").read_text()


def test_a_run_cut_in_two_is_the_run_in_one_piece(run, place):
    """`--steps` of the first half differ from the whole's, and only there."""
    train(place, "halves", "--schedule.kind", "constant", "--steps", "6")
    headway("train", "--resume", "runs/halves", "--training.steps", "12", "-q", cwd=place)
    train(place, "whole", "--schedule.kind", "constant")
    first, second = (
        dict(library.load(place / "runs" / name).model.named_parameters())
        for name in ("halves", "whole")
    )
    assert all(torch.equal(first[name], second[name]) for name in second)


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
def test_what_cannot_be_learned_from_is_refused_and_nothing_is_written(
    content, message, place, tmp_path
):
    path = tmp_path / "lengths.jsonl"
    if content is not None:
        path.write_text(content)
    start = str(place / "start")
    words = ["train", "word_regression", str(path), "--from", start]
    refused = headway(*words, cwd=tmp_path, check=None)
    assert refused.returncode in (2, 3) and message in refused.stderr
    assert "Traceback" not in refused.stderr and not Path(tmp_path, "runs", "rate").exists()


def test_variants_of_it_are_compared(place):
    words = ["compare", "word_regression", "lengths.jsonl", "--from", "start", "--steps", "2"]
    varied = ["--vary", "optimizer.lr=1e-3,1e-2", "--run", "compared", "--json", "-q"]
    report = json.loads(headway(*words, *varied, cwd=place).stdout)
    assert "mse" in json.dumps(report) and (place / "runs" / "compared" / "report.md").is_file()
