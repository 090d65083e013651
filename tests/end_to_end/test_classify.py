"""Text classifiers through the command line: from a language model to labels."""

import json

import pytest

from tests.fixtures.command_line import headway
from tests.fixtures.language_model_commands import TINY as TINY_GPT

LOCATIONS = ["by the lake", "in a shed", "near us", "on the hill", "at home", "below"]
CLASSES = {"animal": ["fox", "owl", "crab", "toad"], "tool": ["saw", "rake", "drum", "lamp"]}
TEXTS = [
    (f"the {name} is {location}", label)
    for location in LOCATIONS
    for label, names in CLASSES.items()
    for name in names
]
TINY = [
    *("--training.batch-size", "6", "--data.max-length", "40", "--data.held-out", "0.2"),
    *("--schedule.kind", "constant", "--schedule.warmup", "2", "--optimizer.lr", "1e-2"),
    *("--evaluation.every", "5", "--checkpoint.every", "5", "--threads", "1"),
]


def train(run: str, *more: str) -> list[str]:
    return ["train", "classify", "t.tsv", "--from", "runs/lm", "--run", run, *TINY, *more]


def write_table(path, rows):
    path.write_text("\n".join(["text\tlabel", *("\t".join(row) for row in rows)]) + "\n")


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classify")
    (folder / "t.txt").write_text("".join(f"{text}\n" for text, _ in TEXTS))
    write_table(folder / "t.tsv", TEXTS)
    write_table(folder / "test.tsv", [("the fox is in a box", "animal"), ("a saw", "tool")])
    words = ("train", "gpt-tiny", "t.txt", "--run", "lm", "--steps", "5", *TINY_GPT)
    headway(*words, cwd=folder)
    done = headway(*train("c", "--steps", "60"), cwd=folder)
    (folder / "training.txt").write_text(done.stderr)
    return folder


def test_training_reports_its_progress_and_saves_a_bundle(working_folder):
    output = (working_folder / "training.txt").read_text()
    for part in (
        "2 classes; majority baseline",
        "2 layers, d=12",
        "valid step=60 accuracy=",
        "batches of 6",
    ):
        assert part in output, part
    assert "classify runs/c" in output and "eval runs/c" in output
    names = {path.name for path in (working_folder / "runs" / "c" / "model").iterdir()}
    assert names == {
        "MANIFEST.json",
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "classes.json",
    }


def test_texts_from_arguments_or_a_pipe_are_classified_on_a_line_each(working_folder, run_headway):
    texts = ["the toad is at home", "the rake is near us"]
    direct = headway("classify", "runs/c", *texts, cwd=working_folder).stdout
    piped = headway("classify", "runs/c", cwd=working_folder, text="\n".join(texts) + "\n").stdout
    assert direct == piped and len(direct.split("\n")) == 3
    assert direct.split("\n")[0].split("\t")[0] == "animal"
    first, *rest = run_headway("classify", "runs/c", *texts, "--top", "2")[0].strip().split("\n")
    assert len(first.split("\t")) == 4 and len(rest) == 1
    rows = [
        json.loads(line)
        for line in run_headway("classify", "runs/c", *texts, "--json")[0].splitlines()
    ]
    assert [row["label"] for row in rows] == [next(iter(row["probabilities"])) for row in rows]
    assert [(row["line"], row["text"]) for row in rows] == [(1, texts[0]), (2, texts[1])]
    assert all(set(row["probabilities"]) == {"animal", "tool"} for row in rows)
    top = json.loads(run_headway("classify", "runs/c", texts[0], "--json", "--top", "1")[0])
    assert set(top["probabilities"]) == {"animal"}


def test_accuracy_is_computed_on_the_held_out_texts_or_on_a_file(run_headway):
    scores = json.loads(run_headway("eval", "runs/c", "--json")[0])
    assert (
        2 <= scores["texts"] <= 24
        and scores["accuracy"] == scores["correct"] / scores["texts"] > 0.5
    )
    summary = json.loads(run_headway("runs", "show", "runs/c", "--json")[0])
    assert summary["best"] == pytest.approx(scores["accuracy"])
    assert "2 texts" in run_headway("eval", "runs/c", "test.tsv")[0]


def test_a_dry_run_keeps_nothing_and_settings_are_shown(working_folder, run_headway):
    assert "steps, without evaluations" in run_headway(*train("dry", "--dry-run"))[1]
    assert not (working_folder / "runs" / "dry").exists()
    assert "auxiliary: 0.5" in run_headway("config", "show", "classify")[0]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("train classify", 2, "no training texts are named"),
        ("train classify t.tsv", 2, "--from RUN"),
        ("train classify nowhere.tsv --from runs/lm", 2, "nowhere.tsv"),
        ("train classify t.txt --from runs/lm", 2, ".txt"),
        ("train classify t.tsv --from nowhere", 2, "nowhere"),
        ("train classify t.tsv --from runs/c", 2, "language model"),
        ("train classify ragged.tsv --from runs/lm", 3, "ragged.tsv:3"),
        ("train classify blank.tsv --from runs/lm", 3, "blank.tsv:2"),
        ("train classify t.tsv --from runs/lm --valid plants.tsv", 3, "plants.tsv:2"),
        ("train classify t.tsv --from runs/lm --data.text sentence", 2, "--data.text"),
        ("train classify t.tsv --from runs/lm --model tiny", 2, "has its size"),
        ("train classify t.tsv --from runs/lm --run c --steps 9", 2, "other settings"),
        ("classify runs/lm hello", 2, "needs a classifier"),
        ("classify runs/c hello --top 0", 2, "top=0"),
        ("generate runs/c hello", 2, "needs a language model"),
        ("eval runs/c plants.tsv", 3, "plants.tsv:2"),
        ("eval runs/c/model", 2, "name a file"),
    ],
)
def test_a_wrong_command_gives_an_error_of_at_most_three_lines(
    working_folder, run_headway, words, code, part
):
    (working_folder / "ragged.tsv").write_text("text\tlabel\na saw\ttool\na fox\n")
    (working_folder / "blank.tsv").write_text("text\tlabel\n \ttool\n")
    write_table(working_folder / "plants.tsv", [("an oak", "plant")])
    output = run_headway(*words.split(), code=code)[1]
    error = output[output.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, output
    assert "Traceback" not in output and not (working_folder / "runs" / "classify").exists()


def test_examples_with_other_columns_are_evaluated_with_the_flags_of_the_hint(working_folder):
    (working_folder / "other.csv").write_text("review;kind\na saw;tool\nthe fox is;animal\n")
    failed = headway("eval", "runs/c", "other.csv", cwd=working_folder, check=2)
    assert "--data.text NAME" in failed.stderr and "1 'review', 2 'kind'" in failed.stderr
    columns = ("--data.text", "review", "--data.label", "kind")
    done = headway("eval", "runs/c", "other.csv", *columns, "--json", cwd=working_folder)
    assert "accuracy" in json.loads(done.stdout)
    alone = headway("eval", "runs/c", *columns, cwd=working_folder, check=2)
    assert "no file is named" in alone.stderr
    wrong = headway(
        "eval", "runs/c", "other.csv", "--data.first", "review", cwd=working_folder, check=2
    )
    assert "--data.first is no option of the evaluation" in wrong.stderr
