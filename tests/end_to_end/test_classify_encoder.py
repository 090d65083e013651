"""Classes, pairs and numbers with an encoder, through the real command line."""

import json
import re

import pytest

from headway import load
from tests.fixtures.command_line import headway
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
    write_table(folder / "asked.tsv", [(b, a) for a, b, _ in PAIRS[:4]], "said\tseen")
    for recipe, table, run in (("classify", "t", "c"), ("pairs", "p", "p"), ("regress", "n", "n")):
        words = ("train", recipe, f"{table}.tsv", "--from", "bert", "--run", run, *TINY)
        done = headway(*words, "--steps", "250", cwd=folder)
        (folder / f"{run}.said").write_text(done.stderr)
    return folder


def test_training_says_what_it_does_and_leaves_a_bundle(working_folder):
    said = [(working_folder / f"{run}.said").read_text() for run in ("c", "p", "n")]
    for text, parts in zip(
        said,
        (
            ("2 layers, d=24, 3 heads, 2 classes", "macro_f1=", "batches of 40 texts"),
            ("2 classes; majority baseline", "matthews=", "batches of 40 pairs"),
            ("numbers from 1 to 5.5", "3 heads, a number", "spearman=", "best pearson"),
        ),
        strict=True,
    ):
        for part in parts:
            assert part in text, text
    facts = json.loads((working_folder / "runs" / "p" / "model" / "config.json").read_text())
    assert facts["family"] == "bert-classifier"


def test_texts_pairs_and_numbers_are_answered(working_folder, run_headway):
    assert run_headway("classify", "runs/c", "the toad is at home")[0].startswith("animal\t")
    alike = ("the toad is at home", "--second", "it is alive")
    assert run_headway("classify", "runs/p", *alike)[0].startswith("same\t")
    row = json.loads(run_headway("classify", "runs/p", *alike, "--json")[0])
    assert (row["text"], row["second"], row["label"]) == (alike[0], alike[2], "same")
    assert set(row["probabilities"]) == {"same", "other"}
    low, high = run_headway("classify", "runs/n", "one foxs below", "five owls below")[0].split()
    assert float(low) + 2 < float(high)
    number = json.loads(run_headway("classify", "runs/n", "five owls below", "--json")[0])["number"]
    assert number == pytest.approx(float(high), abs=1e-3)
    assert load(working_folder / "runs" / "n").score(["five owls below"]) == pytest.approx([number])


def test_pairs_come_from_a_table_or_a_pipe_too(working_folder, run_headway):
    pairs = [row[:2] for row in PAIRS[:4]]
    piped = run_headway(
        "classify", "runs/p", standard_input="".join(f"{a}\t{b}\n" for a, b in pairs)
    )[0]
    table = run_headway(
        *("classify", "runs/p", "--file", "asked.tsv"),
        *("--data.text", "seen", "--data.second", "said"),
    )[0]
    own = run_headway("classify", "runs/p", "--file", "p.tsv")[0]
    assert piped == table == "".join(own.splitlines(keepends=True)[:4])
    assert len(own.splitlines()) == len(PAIRS)
    alike = run_headway("classify", "runs/p", *(a for a, _ in pairs), "--second", pairs[0][1])[0]
    assert alike.splitlines()[0] == piped.splitlines()[0] and len(alike.splitlines()) == len(pairs)
    apart = [run_headway("classify", "runs/p", a, "--second", b)[0] for a, b in pairs]
    assert [line.split("\t")[0] for line in apart] == [
        line.split("\t")[0] for line in piped.splitlines()
    ]


def test_eval_scores_what_was_held_out_or_a_file(working_folder, run_headway):
    own = json.loads(run_headway("eval", "runs/p", "--json")[0])
    shown = json.loads(run_headway("runs", "show", "runs/p", "--json")[0])
    assert shown["best"] == pytest.approx(own["accuracy"]) and own["accuracy"] > 0.8
    assert set(own) == {"accuracy", "macro_f1", "matthews", "loss", "correct", "pairs"}
    numbers = json.loads(run_headway("eval", "runs/n", "n.tsv", "--json")[0])
    assert set(numbers) == {"pearson", "spearman", "mse", "texts"} and numbers["texts"] == len(
        COUNTS
    )
    assert f"{len(COUNTS)} texts" in run_headway("eval", "runs/n", "n.tsv")[0]
    for run, table in (("c", "t"), ("p", "p"), ("n", "n")):
        inside = run_headway("eval", f"runs/{run}/model", f"{table}.tsv")[0]
        assert inside == run_headway("eval", f"runs/{run}", f"{table}.tsv")[0]


def test_the_plain_command_chooses_steps_and_rate(working_folder, run_headway):
    words = ("train", "classify", "t.tsv", "--from", "bert", "--threads", "1")
    said = run_headway(*words, "--run", "dry", "--dry-run")[1]
    assert "minutes for 500 steps" in said and not (working_folder / "runs" / "dry").exists()
    said = run_headway(*words, "--run", "few", "--epochs", "2")[1]
    steps, batches = map(int, re.search(r"(\d+) steps .* (\d+) batches per epoch", said).groups())
    assert steps == 2 * batches
    lines = (working_folder / "runs" / "few" / "run.yaml").read_text().split("\n")
    told = [line.split("#")[0].strip() for line in lines]
    assert {"lr: 0.0001", f"steps: {steps}", "epochs: 2.0"} <= set(told)
    assert f"resumed from step {steps}" in run_headway(*words, "--run", "few", "--epochs", "2")[1]
    assert "other settings" in run_headway(*words, "--run", "few", "--epochs", "3", code=2)[1]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("train pairs p.tsv", 2, "--from RUN"),
        ("train pairs t.tsv --from bert", 2, "--data.text NAME"),
        ("train pairs p.tsv --from bert --data.second said", 2, "--data.second NAME"),
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
        ("classify runs/p --data.text seen", 2, "--data.text names a column"),
        ("classify runs/c one --file t.tsv", 2, "--file"),
        ("classify runs/p --file t.tsv", 2, "'sentence1'"),
        ("classify runs/c --file nowhere.tsv", 2, "nowhere.tsv"),
        ("eval runs/n words.tsv", 3, "words.tsv:2"),
        ("eval runs/c plants.tsv", 3, "plants.tsv:2"),
    ],
)
def test_wrong_words_are_answered_in_three_lines(working_folder, run_headway, words, code, part):
    write_table(working_folder / "empty.tsv", [("a saw", "tool"), ("", "tool")], "text\tlabel")
    write_table(working_folder / "plants.tsv", [("an oak", "plant")], "text\tlabel")
    write_table(working_folder / "words.tsv", [("two foxs", "many")], "text\tscore")
    said = run_headway(*words.split(), code=code)[1]
    error = said[said.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, said


def test_a_line_that_is_no_pair_is_refused_with_its_number(run_headway):
    said = run_headway("classify", "runs/p", standard_input="a\tb\nalone\n", code=3)[1]
    assert "standard input, line 2" in said
