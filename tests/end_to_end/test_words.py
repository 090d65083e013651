"""Word vectors through the command line: training, resuming, queries and errors."""

import json

import pytest

from tests.fixtures.command_line import headway, rows

SUBJECTS = ["fox", "dog", "cat", "horse"]
FOODS = ["bread", "cheese", "soup", "fish"]
OTHER_WORDS = ["the", "eats", "a", "and", "run"]
TINY = [
    *("--data.min-count", "1", "--model.dim", "6", "--training.batch-size", "64", "--threads", "1"),
    *("--training.subsample", "0.2", "--optimizer.lr", "0.02", "--schedule.warmup", "5"),
    *("--schedule.kind", "constant"),  # independent of the number of steps
    *("--evaluation.every", "20", "--checkpoint.every", "10"),
]


def write_text(path):
    lines = [f"the {a} eats {b}." for a in SUBJECTS for b in FOODS]
    lines += [f"A {a} and a {b} run!" for a in SUBJECTS for b in SUBJECTS if a != b]
    path.write_text("\n".join(lines * 5) + "\n")


def train(run: str, *more: str) -> list[str]:
    return ["train", "words", "t.txt", "--run", run, *TINY, *more]


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    write_text(folder / "t.txt")
    done = headway(*train("r", "--steps", "60"), cwd=folder)
    (folder / "training.txt").write_text(done.stderr)
    return folder


def test_training_reports_its_progress_and_saves_a_bundle(working_folder):
    output = (working_folder / "training.txt").read_text()
    parts = (
        "vocabulary size 13",
        "skip-gram",
        "batches of 64 words",
        "valid step=60 loss=",
        "next",
    )
    for part in parts:
        assert part in output, part
    assert "words nearest runs/r" in output
    run = working_folder / "runs" / "r"
    files = {"MANIFEST.json", "README.md", "config.json", "model.safetensors", "vocabulary.json"}
    assert {path.name for path in (run / "model").iterdir()} == files
    losses = [row["loss"] for row in rows(run / "metrics.jsonl") if row["kind"] == "valid"]
    assert len(losses) == 3 and losses[-1] < losses[0]


def test_neighbours_and_analogies_are_printed_as_text_and_as_json(working_folder, run_headway):
    text = headway(
        "words", "nearest", "runs/r", "Fox", "bread", "--count", "3", cwd=working_folder
    ).stdout
    lines = text.strip().split("\n")
    assert len(lines) == 2 and lines[0].startswith("Fox ") and len(lines[1].split()) == 7
    result = json.loads(
        run_headway("words", "nearest", "runs/r", "fox", "--json", "--count", "3")[0]
    )
    cosines = [neighbour["cosine"] for neighbour in result["nearest"]]
    assert (
        result["word"] == "fox" and cosines == sorted(cosines, reverse=True) and len(cosines) == 3
    )
    assert {neighbour["word"] for neighbour in result["nearest"]} <= {
        *SUBJECTS,
        *FOODS,
        *OTHER_WORDS,
    } - {"fox"}
    command = ("words", "analogy", "runs/r", "fox", "dog", "bread")
    text = run_headway(*command)[0]
    assert text.startswith("fox : dog = bread : ") and len(text.split()) == 6 + 2 * 5
    result = json.loads(run_headway(*command, "--json")[0])
    assert result["c"] == "bread" and len(result["answers"]) == 5


def test_words_are_drawn_as_points(working_folder, run_headway):
    run_headway("words", "scatter", "runs/r", "--output", "all.svg")
    plot = (working_folder / "all.svg").read_text()
    assert "<svg" in plot and all(word in plot for word in (*SUBJECTS, *FOODS, *OTHER_WORDS))
    words = ("Fox", "dog", "bread", "soup", "fox")
    points = json.loads(run_headway("words", "scatter", "runs/r", *words, "--json")[0])
    assert list(points) == ["fox", "dog", "bread", "soup"]
    assert all(len(point) == 2 for point in points.values())
    spread = [sum(point[axis] ** 2 for point in points.values()) for axis in (0, 1)]
    assert spread[0] >= spread[1] > 0  # the first direction has the largest variance
    assert (
        "exists already"
        in run_headway("words", "scatter", "runs/r", "--output", "all.svg", code=2)[1]
    )


def test_a_word_model_is_evaluated_on_held_out_lines_and_on_files(working_folder, run_headway):
    logged = [
        row for row in rows(working_folder / "runs/r/metrics.jsonl") if row["kind"] == "valid"
    ]
    (best,) = [row for row in logged if row["is_best"]][-1:]
    lines = run_headway("eval", "runs/r")[0].strip().split("\n")
    assert lines[0] == f"loss {best['loss']:.4f} nats per target" and len(lines) == 2
    scores = json.loads(run_headway("eval", "runs/r", "t.txt", "--json")[0])
    assert (
        scores["words"] == len((working_folder / "t.txt").read_text().split())
        and scores["loss"] > 0
    )


def test_runs_and_settings_of_word_vectors_are_printed(run_headway):
    assert "loss" in run_headway("runs", "show", "runs/r")[0]
    assert "words" in run_headway("runs", "ls")[0]
    assert "window: 5" in run_headway("config", "show", "words")[0]
    assert "words on each side" in run_headway("config", "explain", "training.window")[0]
    every = run_headway("config", "explain", "--recipe", "words")[0]
    assert "training.subsample" in every and "data.source" not in every


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", ["skip-gram", "cbow", "next-word"])
def test_a_resumed_run_equals_an_uninterrupted_one(working_folder, run_headway, kind):
    options = ("--model.kind", kind, "--data.held-out", "0.1")
    run_headway(*train(f"{kind}-whole", *options, "--steps", "45"))
    run_headway(*train(f"{kind}-halves", *options, "--steps", "17"))
    folder = working_folder / "runs" / f"{kind}-halves"
    assert (
        "resumed from step 17" in run_headway("train", "--resume", str(folder), "--steps", "45")[1]
    )
    for name in ("checkpoints/step-45/state.safetensors", "model/model.safetensors"):
        whole = working_folder / "runs" / f"{kind}-whole" / name
        assert (folder / name).read_bytes() == whole.read_bytes()


def test_several_files_and_columns_are_one_training_text(working_folder, tmp_path):
    (tmp_path / "a.txt").write_text("the fox runs\n" * 3)
    (tmp_path / "b.tsv").write_text("en\tde\n" + "a dog runs\tein hund\n" * 3)
    done = headway(
        "train",
        "words",
        "a.txt",
        "b.tsv",
        "--text",
        "en",
        "--steps",
        "3",
        *TINY,
        cwd=tmp_path,
    )
    assert "vocabulary size 5" in done.stderr and "train: 18 words" in done.stderr
    assert (tmp_path / "runs" / "words-skip-gram" / "run.yaml").is_file()


def test_a_dry_run_writes_nothing_and_suggests_a_setting_for_short_texts(
    working_folder, run_headway
):
    output = run_headway(*train("dry", "--dry-run", "--training.subsample", "1e-3"))[1]
    assert "steps, without evaluations" in output and "--training.subsample 0" in output
    assert not (working_folder / "runs" / "dry").exists()


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
        ("train words table.tsv --run t", 2, "--data.text"),
        ("words nearest runs/r foxx", 2, "fox, the closest"),
        ("words nearest runs/r", 2, "the word is missing"),
        ("words nearest nowhere fox", 2, "no such folder"),
        ("words analogy runs/r fox dog breads", 2, "bread, the closest"),
        ("words scatter runs/r", 2, "-o words.svg"),
        ("words scatter runs/r --output words.pdf", 2, ".svg or .png"),
        (
            "words scatter runs/r fox dog Fox --output words.svg",
            2,
            "at least 3 words, and there are 2",
        ),
        ("words scatter runs/r fox dog breadd --output words.svg", 2, "bread, the closest"),
        ("translate runs/r hello", 2, "needs a translator"),
        ("eval runs/r nowhere.txt", 2, "no such file"),
        ("eval runs/r empty.txt", 3, "no example"),
        ("eval runs/short", 2, "held-out text of the run is missing"),
    ],
)
def test_a_wrong_command_gives_an_error_of_at_most_three_lines(
    working_folder, run_headway, words, code, part
):
    (working_folder / "empty.txt").write_text("\n12\n")
    (working_folder / "lonely.txt").write_text("fox\ndog\nfox\n")
    (working_folder / "few.txt").write_text("the fox runs\n" * 3)
    (working_folder / "rare.txt").write_text("fox eats dog\n")
    (working_folder / "table.tsv").write_text("a b\tc d\n")
    if "runs/short" in words and not (working_folder / "runs/short").exists():
        run_headway("train", "words", "few.txt", "--run", "short", *TINY, "--steps", "2")
    output = run_headway(*words.split(), code=code)[1]
    error = output[output.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, output
