"""Text classification, pair classification and regression with an encoder, by command line."""

import json
import re

import pytest

from headway import load
from tests.fixtures.command_line import headway
from tests.fixtures.learned_classifiers import STEPS
from tests.fixtures.small_encoder_runs import COUNTS, PAIRS, TEXTS, write_encoder, write_table

TINY = [
    *("--training.batch-size", "40", "--data.held-out", "0.3", "--optimizer.lr", "3e-3"),
    *("--model.dropout", "0", "--model.head-dropout", "0", "--evaluation.every", "50"),
    *("--checkpoint.every", "250", "--threads", "1"),
]


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    write_encoder(folder / "bert")
    write_table(folder / "t.tsv", TEXTS, "text\tlabel")
    write_table(folder / "p.tsv", PAIRS, "sentence1\tsentence2\tlabel")
    write_table(folder / "n.tsv", COUNTS, "text\tscore")
    write_table(folder / "new.tsv", [(b, a) for a, b, _ in PAIRS[:4]], "hypothesis\tpremise")
    for recipe, table, run in (("classify", "t", "c"), ("pairs", "p", "p"), ("regress", "n", "n")):
        words = ("train", recipe, f"{table}.tsv", "--from", "bert", "--run", run, *TINY)
        done = headway(*words, "--steps", str(STEPS[recipe]), cwd=folder)
        (folder / f"training-{run}.txt").write_text(done.stderr)
    return folder


def test_training_reports_its_progress_and_saves_a_bundle(working_folder):
    outputs = [(working_folder / f"training-{run}.txt").read_text() for run in ("c", "p", "n")]
    for output, parts in zip(
        outputs,
        (
            ("2 layers, d=24, 3 heads, 2 classes", "macro_f1=", "batches of 40 texts"),
            ("2 classes; majority baseline", "matthews=", "batches of 40 pairs"),
            ("numbers from 1 to 5.5", "3 heads, a number", "spearman=", "best pearson"),
        ),
        strict=True,
    ):
        for part in parts:
            assert part in output, output
    config = json.loads((working_folder / "runs" / "p" / "model" / "config.json").read_text())
    assert config["family"] == "bert-classifier"


def test_texts_and_pairs_are_classified_and_numbers_predicted(working_folder, run_headway):
    assert run_headway("classify", "runs/c", "the toad is at home")[0].startswith("animal\t")
    pair = ("the toad is at home", "--second", "it is alive")
    assert run_headway("classify", "runs/p", *pair)[0].startswith("same\t")
    row = json.loads(run_headway("classify", "runs/p", *pair, "--json")[0])
    assert (row["text"], row["second"], row["label"]) == (pair[0], pair[2], "same")
    assert set(row["probabilities"]) == {"same", "other"}
    low, high = run_headway("classify", "runs/n", "one foxs below", "five owls below")[0].split()
    assert float(low) + 2 < float(high)
    number = json.loads(run_headway("classify", "runs/n", "five owls below", "--json")[0])["number"]
    assert number == pytest.approx(float(high), abs=1e-3)
    assert load(working_folder / "runs" / "n").score(["five owls below"]) == pytest.approx([number])


def test_pairs_are_read_from_arguments_a_table_or_a_pipe(working_folder, run_headway):
    pairs = [row[:2] for row in PAIRS[:4]]
    piped = run_headway(
        "classify", "runs/p", standard_input="".join(f"{a}\t{b}\n" for a, b in pairs)
    )[0]
    table = run_headway(
        "classify",
        "runs/p",
        "--file",
        "new.tsv",
        "--data.text",
        "premise",
        "--data.second",
        "hypothesis",
    )[0]
    whole_table = run_headway("classify", "runs/p", "--file", "p.tsv")[0]
    assert piped == table == "".join(whole_table.splitlines(keepends=True)[:4])
    assert len(whole_table.splitlines()) == len(PAIRS)
    shared_second = run_headway(
        "classify", "runs/p", *(a for a, _ in pairs), "--second", pairs[0][1]
    )[0]
    assert shared_second.splitlines()[0] == piped.splitlines()[0] and len(
        shared_second.splitlines()
    ) == len(pairs)
    separate = [run_headway("classify", "runs/p", a, "--second", b)[0] for a, b in pairs]
    assert [line.split("\t")[0] for line in separate] == [
        line.split("\t")[0] for line in piped.splitlines()
    ]


def test_eval_scores_the_held_out_examples_or_a_file(working_folder, run_headway):
    scores = json.loads(run_headway("eval", "runs/p", "--json")[0])
    summary = json.loads(run_headway("runs", "show", "runs/p", "--json")[0])
    assert summary["best"] == pytest.approx(scores["accuracy"]) and scores["accuracy"] > 0.8
    assert set(scores) == {"accuracy", "macro_f1", "matthews", "loss", "correct", "pairs"}
    numbers = json.loads(run_headway("eval", "runs/n", "n.tsv", "--json")[0])
    assert set(numbers) == {"pearson", "spearman", "mse", "texts"} and numbers["texts"] == len(
        COUNTS
    )
    assert f"{len(COUNTS)} texts" in run_headway("eval", "runs/n", "n.tsv")[0]
    for run, table in (("c", "t"), ("p", "p"), ("n", "n")):
        from_bundle = run_headway("eval", f"runs/{run}/model", f"{table}.tsv")[0]
        assert from_bundle == run_headway("eval", f"runs/{run}", f"{table}.tsv")[0]


def test_steps_and_learning_rate_follow_from_the_recipe_and_the_epochs(working_folder, run_headway):
    words = ("train", "classify", "t.tsv", "--from", "bert", "--threads", "1")
    stderr = run_headway(*words, "--run", "dry", "--dry-run")[1]
    assert " for 500 steps, without" in stderr and not (working_folder / "runs" / "dry").exists()
    stderr = run_headway(*words, "--run", "few", "--epochs", "2")[1]
    steps, batches = map(int, re.search(r"(\d+) steps .* (\d+) batches per epoch", stderr).groups())
    assert steps == 2 * batches
    lines = (working_folder / "runs" / "few" / "run.yaml").read_text().split("\n")
    settings = [line.split("#")[0].strip() for line in lines]
    assert {"lr: 0.0001", f"steps: {steps}", "epochs: 2.0"} <= set(settings)
    assert f"resumed from step {steps}" in run_headway(*words, "--run", "few", "--epochs", "2")[1]
    assert "other settings" in run_headway(*words, "--run", "few", "--epochs", "3", code=2)[1]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("train pairs p.tsv", 2, "--from RUN"),
        ("train pairs t.tsv --from bert", 2, "--data.text NAME"),
        ("train pairs p.tsv --from bert --data.second hypothesis", 2, "--data.second NAME"),
        ("train regress t.tsv --from bert --data.label label", 3, "t.tsv:2"),
        ("train classify empty.tsv --from bert", 3, "empty.tsv:3"),
        ("train classify t.tsv --from bert --valid plants.tsv", 3, "plants.tsv:2"),
        ("train classify t.tsv --from bert --training.frozen 7", 2, "the model has 2"),
        ("train classify t.tsv --from bert --steps 5 --epochs 9", 2, "--training.epochs none"),
        ("train classify t.tsv --from bert --optimizer.layer-decay 1.5", 2, "at most 1"),
        ("train regress n.tsv --from bert --evaluation.metric accuracy", 2, "pearson"),
        ("train classify t.tsv --from runs/c", 2, "text encoder"),
        ("classify runs/p alone", 2, "classifies pairs of texts"),
        ("classify runs/c one --second two", 2, "classifies single texts"),
        ("classify runs/p one --file p.tsv --second two", 2, "--file"),
        ("classify runs/p --data.text premise", 2, "--data.text names a column"),
        ("classify runs/c one --file t.tsv", 2, "--file"),
        ("classify runs/p --file t.tsv", 2, "'sentence1'"),
        ("classify runs/c --file nowhere.tsv", 2, "nowhere.tsv"),
        ("eval runs/n words.tsv", 3, "words.tsv:2"),
        ("eval runs/c plants.tsv", 3, "plants.tsv:2"),
    ],
)
def test_a_wrong_command_gives_an_error_of_at_most_three_lines(
    working_folder, run_headway, words, code, part
):
    write_table(working_folder / "empty.tsv", [("a saw", "tool"), ("", "tool")], "text\tlabel")
    write_table(working_folder / "plants.tsv", [("an oak", "plant")], "text\tlabel")
    write_table(working_folder / "words.tsv", [("two foxs", "many")], "text\tscore")
    output = run_headway(*words.split(), code=code)[1]
    error = output[output.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, output


def test_a_line_without_a_pair_is_refused_with_its_number(run_headway):
    stderr = run_headway("classify", "runs/p", standard_input="a\tb\nalone\n", code=3)[1]
    assert "standard input, line 2" in stderr
