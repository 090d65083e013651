"""Distillation from every kind of teacher through the command line, and its errors."""

import json

import pytest
import torch

from headway import load
from headway.base.settings import COMMAND_LINE
from headway.cli.flags import split_words
from headway.runs import recipe, train
from tests.fixtures.command_line import headway
from tests.fixtures.language_model_commands import LINES
from tests.fixtures.language_model_commands import TINY as GPT
from tests.fixtures.small_encoder import encoder
from tests.fixtures.tiny_encoder import save_encoder, sentences, write_conll, write_squad

LOOP = [
    *("--schedule.kind", "constant", "--schedule.warmup", "2", "--optimizer.lr", "1e-2"),
    *("--evaluation.every", "20", "--checkpoint.every", "100", "--threads", "1"),
    *("--training.batch-size", "7", "--data.held-out", "0.2"),
]
SMALL = ["--model.num-layers", "1", "--model.dropout", "0"]
STUDENTS = {
    "small-tagger": ("t.conll", "tagger", "60"),
    "small-qa": ("t.json", "qa", "100"),
    "distil": ("t.tsv", "classifier", "40"),
    "small-encoder": ("t.txt", "m", "40"),
    "small-gpt": ("lines.txt", "gpt", "40"),
}
"""The data, the teacher and the number of steps of each student, by the name of its run."""
TEACHERS = {"tag": "tagger", "answer": "qa", "classify": "classifier", "gpt-tiny": "gpt"}


def distil(student, run, *more):
    data, teacher, steps = STUDENTS[student]
    length = ("--training.length", "20") if student in {"small-encoder", "small-gpt"} else ()
    teacher_folder = teacher if teacher == "m" else f"runs/{teacher}"
    words = ("train", "distil", data, "--teacher", teacher_folder, "--run", run)
    duration = (
        () if any(word.startswith("--training.steps") for word in more) else ("--steps", steps)
    )
    return [*words, *duration, *LOOP, *SMALL, *length, *more]


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    """A folder with teachers, trained from Python, and a student, trained by the command line."""
    folder = tmp_path_factory.mktemp("distil")
    torch.manual_seed(0)
    save_encoder(folder / "m")
    encoder().save(folder / "other")
    texts = sentences()
    write_conll(folder / "t.conll", texts)
    write_squad(folder / "t.json")
    rows = [f"{text}\t{'song' if 'sings' in text else 'none'}" for text in texts]
    (folder / "t.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    (folder / "t.txt").write_text("\n\n".join(" ".join(texts[i : i + 5]) for i in range(0, 90, 5)))
    (folder / "lines.txt").write_text("\n".join(LINES * 4) + "\n")
    start, window = ["--from", str(folder / "m"), *LOOP], ["--data.window", "20"]
    for name, data, words in (
        ("tag", "t.conll", ["--steps", "60", *start]),
        ("answer", "t.json", ["--steps", "100", *window, "--data.stride", "6", *start]),
        ("classify", "t.tsv", ["--steps", "60", *start]),
        ("gpt-tiny", "lines.txt", ["--steps", "30", "--evaluation.sample", "0", *GPT]),
    ):
        _, flags = split_words([*words, "--data", str(folder / data)])
        train(recipe(name, (COMMAND_LINE, flags)), folder / "runs" / TEACHERS[name])
    done = headway(*distil("distil", "distil"), cwd=folder)
    (folder / "training.txt").write_text(done.stderr)
    return folder


@pytest.fixture
def students(working_folder, run_headway):
    """Train a student once; the function returns its run folder and the training's output."""

    def make(name):
        log = working_folder / f"training-{name}.txt"
        if name == "distil":
            return working_folder / "runs" / name, (working_folder / "training.txt").read_text()
        if not log.exists():
            log.write_text(run_headway(*distil(name, name))[1])
        return working_folder / "runs" / name, log.read_text()

    return make


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("student", "parts"),
    [
        ("small-tagger", ("the teacher's f1 on the held-out examples", "7 sentences", "tag runs/")),
        ("small-qa", ("the teacher's f1", "7 windows", "exact=", "answer runs/")),
        ("distil", ("the teacher's accuracy", "7 texts", "macro_f1=", "classify runs/distil ")),
        ("small-encoder", ("7 sequences", "difference=", "train classify TEXTS --from runs/")),
        ("small-gpt", ("the teacher's nats", "140 tokens", "nats=", "generate runs/")),
    ],
)
def test_training_reports_its_progress_and_saves_a_smaller_model_of_the_same_kind(
    working_folder, students, student, parts
):
    run, output = students(student)
    for part in ("a student of a teacher of 2 layers", *parts):
        assert part in output, output
    teacher = STUDENTS[student][1]
    large = load(working_folder / teacher if teacher == "m" else working_folder / "runs" / teacher)
    small = load(run)
    assert type(small) is type(large)
    counts = [sum(p.numel() for p in bundle.model.parameters()) for bundle in (small, large)]
    assert counts[0] < counts[1]


def scores_of(run_headway, run):
    return json.loads(run_headway("eval", f"runs/{run}", "--json")[0])


@pytest.mark.parametrize("student", ["small-tagger", "small-qa", "distil"])
def test_a_student_scores_nearly_as_its_teacher_on_held_out_examples(
    students, run_headway, student
):
    students(student)
    student_scores, teacher_scores = (
        scores_of(run_headway, run) for run in (student, STUDENTS[student][1])
    )
    assert student_scores.keys() == teacher_scores.keys()
    metric = "accuracy" if student == "distil" else "f1"
    assert teacher_scores[metric] > 0.9 and student_scores[metric] > 0.9 * teacher_scores[metric]
    summary = json.loads(run_headway("runs", "show", f"runs/{student}", "--json")[0])
    assert summary["best"] == pytest.approx(student_scores[metric])


def validation_values(run, name):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [row[name] for row in map(json.loads, lines) if row["kind"] == "valid"]


def test_a_language_models_student_is_nearly_as_good_and_serves_as_its_draft(
    working_folder, students, run_headway
):
    run, _ = students("small-gpt")
    assert (
        validation_values(run, "nats")[-1]
        < validation_values(working_folder / "runs" / "gpt", "nats")[-1] + 0.5
    )
    words = ("generate", "runs/gpt", "the fox", "--max-tokens", "5", "--temperature", "0")
    assert run_headway(*words, "--draft", "runs/small-gpt")[0] == run_headway(*words)[0]


def test_general_distillation_is_continued_for_a_task(students, run_headway):
    run, _ = students("small-encoder")
    differences = validation_values(run, "difference")
    assert len(differences) == 2 and differences[1] < differences[0]
    student = load(run)
    assert student.model.masked_lm_head is None and student.model.pooler is None
    run_headway(*distil("distil", "second", "--training.student", "runs/small-encoder"))
    assert scores_of(run_headway, "second")["accuracy"] > 0.9
    tag = ("train", "tag", "t.conll", "--from", "runs/small-encoder", "--run", "fine", *LOOP)
    assert "1 layers, d=24" in run_headway(*tag, "--steps", "2")[1]


@pytest.mark.turns(3)
@pytest.mark.parametrize("student", ["small-qa", "small-encoder", "small-gpt"])
def test_a_resumed_run_equals_an_uninterrupted_one(working_folder, run_headway, student):
    stages = () if student == "small-encoder" else ("--distillation.first-stage", "0.5")
    for run, steps in (("whole", "8"), ("halves", "8")):
        time = ("--time", "0.001s") if run == "halves" else ()
        alike = ("--schedule.warmup", "0")  # no rate depends on the budget, which changes
        settings = (*stages, *alike, f"--training.steps={steps}", *time)
        run_headway(*distil(student, f"{student}-{run}", *settings))
    stderr = run_headway("train", "--resume", f"runs/{student}-halves", "--time", "none")[1]
    assert "resumed from step " in stderr and "resumed from step 8" not in stderr
    whole, halves = (working_folder / "runs" / f"{student}-{part}" for part in ("whole", "halves"))
    state = "checkpoints/step-8/state.safetensors"
    assert (halves / state).read_bytes() == (whole / state).read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("train distil", 2, "needs a teacher"),
        ("train distil t.tsv", 2, "--teacher RUN"),
        ("train distil t.tsv --from runs/classifier", 2, "--teacher runs/classifier"),
        ("train distil t.tsv --teacher nowhere", 2, "nowhere holds no model"),
        ("train distil --teacher runs/tagger", 2, "train distil FILE --teacher runs/tagger"),
        ("train distil --teacher runs/gpt", 2, "train distil FILE --teacher runs/gpt"),
        ("train distil t.tsv --teacher runs/tagger", 3, "t.tsv"),
        ("train distil-tag t.conll --teacher runs/tagger", 2, "unknown recipe 'distil-tag'"),
        ("train distil t.txt --teacher m --distillation.prediction 1", 2, "unknown option"),
        ("train distil t.txt --teacher m --training.length 90", 2, "--training.length 60"),
        ("train distil lines.txt --teacher runs/gpt --model.embedding-dim 4", 2, "embedding_dim"),
        ("train distil t.tsv --teacher runs/classifier --training.recompute", 2, "unknown option"),
        ("train distil t.tsv --teacher runs/classifier --compile", 2, "--compile"),
        (
            "train distil t.tsv --teacher runs/classifier --model.num-heads 2 "
            "--distillation.first-stage 0.5",
            2,
            "--model.num-heads 3",
        ),
        ("train distil t.tsv --teacher runs/classifier --data.extra t.json", 3, "t.json:1"),
        ("train distil t.tsv --teacher runs/classifier --data.extra none.txt", 2, "no such file"),
        ("train distil t.tsv --teacher runs/classifier --training.student runs/gpt", 2, "language"),
        ("train distil t.tsv --teacher runs/classifier --training.student other", 2, "tokenizer"),
        ("train distil other.conll --teacher runs/tagger", 3, "other.conll:1"),
    ],
)
def test_a_wrong_command_gives_an_error_of_at_most_three_lines(
    working_folder, run_headway, words, code, part
):
    (working_folder / "other.conll").write_text(
        "\n\n".join(f"a{i}\tB-zoo\nb\tO" for i in range(20))
    )
    output = run_headway(*words.split(), "--run", "wrong", code=code)[1]
    error = output[output.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, output
    assert not (working_folder / "runs" / "wrong").exists()


def test_help_lists_the_settings_for_the_teacher(working_folder, run_headway):
    def flags(*words):
        text = run_headway("train", "distil", *words, "--help")[0]
        return {word for word in text.split("Most used", 1)[1].split() if word.startswith("--")}

    shared, of_classes, of_text = (
        flags(),
        flags("--teacher", "runs/classifier"),
        flags("--teacher", "runs/gpt"),
    )
    assert {"--teacher", "--data", "--distillation.hidden", "--model.num-layers"} <= shared
    assert "--data.augment" in of_classes - shared - of_text
    assert "--training.length" in of_text - shared - of_classes


def test_another_students_run_of_the_same_name_is_kept(working_folder, students, run_headway):
    run, _ = students("small-tagger")
    stderr = run_headway(*distil("small-qa", "small-tagger"), code=2)[1]
    assert "runs/small-tagger has a run of distil with the settings of another kind" in stderr
    options = ("--training.teacher", "runs/qa", "--training.steps", "61")
    stderr = run_headway("train", "--resume", "runs/small-tagger", *options, code=2)[1]
    assert (
        "is a model of the task question_answering, but this run needs a teacher of the task "
        "tagging" in stderr
    )
    assert (run / "model").exists()
