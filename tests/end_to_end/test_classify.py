"""Text classifiers through the real command line: from a language model to labels."""

import json

import pytest

from tests.fixtures.command_line import headway
from tests.fixtures.language_model_commands import TINY as TINY_GPT

PLACES = ["by the lake", "in a shed", "near us", "on the hill", "at home", "below"]
KINDS = {"animal": ["fox", "owl", "crab", "toad"], "tool": ["saw", "rake", "drum", "lamp"]}
TEXTS = [
    (f"the {name} is {place}", label)
    for place in PLACES
    for label, names in KINDS.items()
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
    (folder / "said").write_text(done.stderr)
    return folder


def test_training_says_what_it_does_and_leaves_a_bundle(working_folder):
    said = (working_folder / "said").read_text()
    for part in (
        "2 classes; majority baseline",
        "2 layers, d=12",
        "valid step=60 accuracy=",
        "batches of 6",
    ):
        assert part in said, part
    assert "classify runs/c" in said and "eval runs/c" in said
    names = {path.name for path in (working_folder / "runs" / "c" / "model").iterdir()}
    assert names == {
        "MANIFEST.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "classes.json",
    }


def test_texts_given_or_piped_are_answered_a_line_each(working_folder, run_headway):
    asked = ["the toad is at home", "the rake is near us"]
    given = headway("classify", "runs/c", *asked, cwd=working_folder).stdout
    piped = headway("classify", "runs/c", cwd=working_folder, text="\n".join(asked) + "\n").stdout
    assert given == piped and len(given.split("\n")) == 3
    assert given.split("\n")[0].split("\t")[0] == "animal"
    best, *others = run_headway("classify", "runs/c", *asked, "--top", "2")[0].strip().split("\n")
    assert len(best.split("\t")) == 4 and len(others) == 1
    found = [
        json.loads(x) for x in run_headway("classify", "runs/c", *asked, "--json")[0].splitlines()
    ]
    assert [row["label"] for row in found] == [next(iter(row["probabilities"])) for row in found]
    assert [(row["line"], row["text"]) for row in found] == [(1, asked[0]), (2, asked[1])]
    assert all(set(row["probabilities"]) == {"animal", "tool"} for row in found)
    one = json.loads(run_headway("classify", "runs/c", asked[0], "--json", "--top", "1")[0])
    assert set(one["probabilities"]) == {"animal"}


def test_accuracy_is_measured_on_what_was_held_out_or_on_a_file(run_headway):
    own = json.loads(run_headway("eval", "runs/c", "--json")[0])
    assert 2 <= own["texts"] <= 24 and own["accuracy"] == own["correct"] / own["texts"] > 0.5
    shown = json.loads(run_headway("runs", "show", "runs/c", "--json")[0])
    assert shown["best"] == pytest.approx(own["accuracy"])
    assert "2 texts" in run_headway("eval", "runs/c", "test.tsv")[0]


def test_the_same_command_goes_on_where_it_stopped(working_folder, run_headway):
    run_headway(*train("whole", "--steps", "9"))
    run_headway(*train("halves", "--steps", "4"))
    assert (
        "resumed from step 4" in run_headway("train", "--resume", "runs/halves", "--steps", "9")[1]
    )
    for name in ("checkpoints/step-9/state.safetensors", "model/model.safetensors"):
        whole, halves = (working_folder / "runs" / run / name for run in ("whole", "halves"))
        assert halves.read_bytes() == whole.read_bytes()
    assert "resumed from step 9" in run_headway(*train("whole", "--steps", "9"))[1]


def test_a_dry_run_keeps_nothing_and_settings_are_shown(working_folder, run_headway):
    assert "minutes for" in run_headway(*train("dry", "--dry-run"))[1]
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
def test_wrong_words_are_answered_in_three_lines(working_folder, run_headway, words, code, part):
    (working_folder / "ragged.tsv").write_text("text\tlabel\na saw\ttool\na fox\n")
    (working_folder / "blank.tsv").write_text("text\tlabel\n \ttool\n")
    write_table(working_folder / "plants.tsv", [("an oak", "plant")])
    said = run_headway(*words.split(), code=code)[1]
    error = said[said.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, said
    assert "Traceback" not in said and not (working_folder / "runs" / "classify").exists()
