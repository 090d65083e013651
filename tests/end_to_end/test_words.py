"""Word vectors through the real command line: train, resume, ask; right and wrong."""

import json

import pytest

from tests.fixtures.command_line import headway, rows

SUBJECTS = ["fox", "dog", "cat", "horse"]
FOODS = ["bread", "cheese", "soup", "fish"]
OTHERS = ["the", "eats", "a", "and", "run"]
TINY = [
    *("--data.min-count", "1", "--model.dim", "6", "--training.batch-size", "64", "--threads", "1"),
    *("--training.subsample", "0.2", "--optimizer.lr", "0.02", "--schedule.warmup", "5"),
    *("--schedule.kind", "constant"),  # one that does not look at the end
    *("--evaluation.every", "20", "--checkpoint.every", "10"),
]


def write_text(path):
    lines = [f"the {a} eats {b}." for a in SUBJECTS for b in FOODS]
    lines += [f"A {a} and a {b} run!" for a in SUBJECTS for b in SUBJECTS if a != b]
    path.write_text("\n".join(lines * 5) + "\n")


def train(run: str, *more: str) -> list[str]:
    return ["train", "words", "t.txt", "--run", run, *TINY, *more]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    write_text(folder / "t.txt")
    done = headway(*train("r", "--steps", "60"), cwd=folder)
    (folder / "said").write_text(done.stderr)
    return folder


def test_training_says_what_it_does_and_leaves_a_bundle(place):
    said = (place / "said").read_text()
    parts = (
        "vocabulary size 13",
        "skip-gram",
        "batches of 64 words",
        "valid step=60 loss=",
        "next",
    )
    for part in parts:
        assert part in said, part
    assert "words nearest runs/r" in said
    run = place / "runs" / "r"
    files = {"MANIFEST.json", "config.json", "model.safetensors", "vocabulary.json"}
    assert {path.name for path in (run / "model").iterdir()} == files
    losses = [row["loss"] for row in rows(run / "metrics.jsonl") if row["kind"] == "valid"]
    assert len(losses) == 3 and losses[-1] < losses[0]


def test_neighbours_and_analogies_are_shown_and_given_as_json(place, here):
    text = headway("words", "nearest", "runs/r", "Fox", "bread", "--count", "3", cwd=place).stdout
    lines = text.strip().split("\n")
    assert len(lines) == 2 and lines[0].startswith("Fox ") and len(lines[1].split()) == 7
    found = json.loads(here("words", "nearest", "runs/r", "fox", "--json", "--count", "3")[0])
    cosines = [one["cosine"] for one in found["nearest"]]
    assert found["word"] == "fox" and cosines == sorted(cosines, reverse=True) and len(cosines) == 3
    assert {one["word"] for one in found["nearest"]} <= {*SUBJECTS, *FOODS, *OTHERS} - {"fox"}
    asked = ("words", "analogy", "runs/r", "fox", "dog", "bread")
    text = here(*asked)[0]
    assert text.startswith("fox : dog = bread : ") and len(text.split()) == 6 + 2 * 5
    found = json.loads(here(*asked, "--json")[0])
    assert found["c"] == "bread" and len(found["answers"]) == 5


def test_words_are_drawn_as_points(place, here):
    here("words", "scatter", "runs/r", "--out", "all.svg")
    drawn = (place / "all.svg").read_text()
    assert "<svg" in drawn and all(word in drawn for word in (*SUBJECTS, *FOODS, *OTHERS))
    words = ("Fox", "dog", "bread", "soup", "fox")
    found = json.loads(here("words", "scatter", "runs/r", *words, "--json")[0])
    assert list(found) == ["fox", "dog", "bread", "soup"]
    assert all(len(point) == 2 for point in found.values())
    spread = [sum(point[axis] ** 2 for point in found.values()) for axis in (0, 1)]
    assert spread[0] >= spread[1] > 0  # the first direction is that of most difference
    assert "exists already" in here("words", "scatter", "runs/r", "--out", "all.svg", code=2)[1]


def test_a_word_model_is_evaluated_on_held_out_lines_and_on_files(place, here):
    logged = [row for row in rows(place / "runs/r/metrics.jsonl") if row["kind"] == "valid"]
    (best,) = [row for row in logged if row["is_best"]][-1:]
    lines = here("eval", "runs/r")[0].strip().split("\n")
    assert lines[0] == f"loss {best['loss']:.4f} nats per target" and len(lines) == 2
    scores = json.loads(here("eval", "runs/r", "t.txt", "--json")[0])
    assert scores["words"] == len((place / "t.txt").read_text().split()) and scores["loss"] > 0


def test_runs_and_settings_of_words_are_shown(here):
    assert "loss" in here("runs", "show", "runs/r")[0]
    assert "words" in here("runs", "ls")[0]
    assert "window: 5" in here("config", "show", "words")[0]
    assert "words on each side" in here("config", "explain", "training.window")[0]
    every = here("config", "explain", "--recipe", "words")[0]
    assert "training.subsample" in every and "data.source" not in every


@pytest.mark.parametrize("kind", ["skip-gram", "cbow", "next-word"])
def test_steps_in_two_halves_are_the_steps_in_one(place, here, kind):
    how = ("--model.kind", kind, "--data.held-out", "0.1")
    here(*train(f"{kind}-whole", *how, "--steps", "45"))
    here(*train(f"{kind}-halves", *how, "--steps", "17"))
    folder = place / "runs" / f"{kind}-halves"
    assert "resumed from step 17" in here("train", "--resume", str(folder), "--steps", "45")[1]
    for name in ("checkpoints/step-45/state.safetensors", "model/model.safetensors"):
        whole = place / "runs" / f"{kind}-whole" / name
        assert (folder / name).read_bytes() == whole.read_bytes()


def test_several_files_and_columns_are_one_text(place, tmp_path):
    (tmp_path / "a.txt").write_text("the fox runs\n" * 3)
    (tmp_path / "b.tsv").write_text("en\tde\n" + "a dog runs\tein hund\n" * 3)
    done = headway(
        *("train", "words", "a.txt", "b.tsv", "--column", "en", "--steps", "3", *TINY),
        cwd=tmp_path,
    )
    assert "vocabulary size 5" in done.stderr and "train: 18 words" in done.stderr
    assert (tmp_path / "runs" / "words-skip-gram" / "run.yaml").is_file()


def test_a_dry_run_and_a_note_on_short_texts(place, here):
    said = here(*train("dry", "--dry-run", "--training.subsample", "1e-3"))[1]
    assert "minutes for" in said and "--training.subsample 0" in said
    assert not (place / "runs" / "dry").exists()


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("train words", 2, "no training text is named"),
        ("train words nowhere.txt", 2, "no such file"),
        ("train words t.txt nowhere.txt", 2, "nowhere.txt"),
        ("train words runs", 2, "a folder"),
        ("train words empty.txt --run x", 3, "no words"),
        ("train words lonely.txt --run y --data.min-count 1", 3, "no two adjacent words"),
        ("train words rare.txt --run z", 3, "--data.min-count 1"),
        ("train words t.txt --model.kind bag", 2, "skip-gram, cbow, next-word"),
        ("train words t.txt --training.windoww 3", 2, "training.window"),
        ("train words t.txt --run r --steps 61", 2, "other settings"),
        ("train words table.tsv --run t", 2, "--data.column"),
        ("words nearest runs/r foxx", 2, "fox, the closest"),
        ("words nearest runs/r", 2, "the word is missing"),
        ("words nearest nowhere fox", 2, "no such folder"),
        ("words analogy runs/r fox dog breads", 2, "bread, the closest"),
        ("words scatter runs/r", 2, "--out words.svg"),
        ("words scatter runs/r --out words.pdf", 2, ".svg or .png"),
        (
            "words scatter runs/r fox dog Fox --out words.svg",
            2,
            "at least 3 words, and there are 2",
        ),
        ("words scatter runs/r fox dog breadd --out words.svg", 2, "bread, the closest"),
        ("translate runs/r hello", 2, "needs a translator"),
        ("eval runs/r nowhere.txt", 2, "no such file"),
        ("eval runs/r empty.txt", 3, "no example"),
        ("eval runs/short", 2, "has no held-out text"),
    ],
)
def test_wrong_words_are_answered_in_three_lines(place, here, words, code, part):
    (place / "empty.txt").write_text("\n12\n")
    (place / "lonely.txt").write_text("fox\ndog\nfox\n")
    (place / "few.txt").write_text("the fox runs\n" * 3)
    (place / "rare.txt").write_text("fox eats dog\n")
    (place / "table.tsv").write_text("a b\tc d\n")
    if "runs/short" in words and not (place / "runs/short").exists():
        here("train", "words", "few.txt", "--run", "short", *TINY, "--steps", "2")
    said = here(*words.split(), code=code)[1]
    error = said[said.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, said
