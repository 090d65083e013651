"""Students of every kind of teacher, through the real command line: right and wrong."""

import json

import pytest
import torch

from headway import load
from headway.cli.train import split_words
from headway.runs import recipe, train
from headway.settings import COMMAND_LINE
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
    "tagged": ("t.conll", "tagger", "60"),
    "answered": ("t.json", "answerer", "100"),
    "distil": ("t.tsv", "classifier", "40"),
    "encoded": ("t.txt", "m", "40"),
    "written": ("lines.txt", "gpt", "40"),
}
"""Name of a run -> its data, its teacher, and steps."""
TEACHERS = {"tag": "tagger", "answer": "answerer", "classify": "classifier", "gpt-tiny": "gpt"}


def distil(student, run, *more):
    data, teacher, steps = STUDENTS[student]
    own = ("--training.length", "20") if student in {"encoded", "written"} else ()
    start = teacher if teacher == "m" else f"runs/{teacher}"
    words = ("train", "distil", data, "--teacher", start, "--run", run)
    asked = () if any(word.startswith("--training.steps") for word in more) else ("--steps", steps)
    return [*words, *asked, *LOOP, *SMALL, *own, *more]


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    """Teachers, from Python; the one subprocess of them all is a student."""
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
    (folder / "said").write_text(done.stderr)
    return folder


@pytest.fixture
def students(working_folder, run_headway):
    """Makes a student, once, and says where it lies and what was said."""

    def make(name):
        said = working_folder / f"said-{name}"
        if name == "distil":
            return working_folder / "runs" / name, (working_folder / "said").read_text()
        if not said.exists():
            said.write_text(run_headway(*distil(name, name))[1])
        return working_folder / "runs" / name, said.read_text()

    return make


@pytest.mark.parametrize(
    ("recipe", "parts"),
    [
        ("tagged", ("the teacher's f1 on the held-out examples", "7 sentences", "tag runs/")),
        ("answered", ("the teacher's f1", "7 windows", "exact=", "answer runs/")),
        ("distil", ("the teacher's accuracy", "7 texts", "macro_f1=", "classify runs/distil ")),
        ("encoded", ("7 sequences", "difference=", "train classify TEXTS --from runs/")),
        ("written", ("the teacher's nats", "7 sequences", "nats=", "generate runs/")),
    ],
)
def test_training_says_what_it_does_and_leaves_a_smaller_model_of_the_kind(
    working_folder, students, recipe, parts
):
    run, said = students(recipe)
    for part in ("a student of a teacher of 2 layers", *parts):
        assert part in said, said
    teacher = STUDENTS[recipe][1]
    large = load(working_folder / teacher if teacher == "m" else working_folder / "runs" / teacher)
    small = load(run)
    assert type(small) is type(large)
    counts = [sum(p.numel() for p in each.model.parameters()) for each in (small, large)]
    assert counts[0] < counts[1]


def scored(run_headway, run):
    return json.loads(run_headway("eval", f"runs/{run}", "--json")[0])


@pytest.mark.parametrize("recipe", ["tagged", "answered", "distil"])
def test_students_do_what_their_teachers_do_on_what_was_held_out(students, run_headway, recipe):
    students(recipe)
    student, teacher = (scored(run_headway, run) for run in (recipe, STUDENTS[recipe][1]))
    assert student.keys() == teacher.keys()
    metric = "accuracy" if recipe == "distil" else "f1"
    assert teacher[metric] > 0.9 and student[metric] > 0.9 * teacher[metric]
    shown = json.loads(run_headway("runs", "show", f"runs/{recipe}", "--json")[0])
    assert shown["best"] == pytest.approx(student[metric])


def valid(run, name):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [row[name] for row in map(json.loads, lines) if row["kind"] == "valid"]


def test_a_language_models_student_comes_near_it_and_is_its_draft(
    working_folder, students, run_headway
):
    run, _ = students("written")
    assert valid(run, "nats")[-1] < valid(working_folder / "runs" / "gpt", "nats")[-1] + 0.5
    asked = ("generate", "runs/gpt", "the fox", "--max-tokens", "5", "--temperature", "0")
    assert run_headway(*asked, "--draft", "runs/written")[0] == run_headway(*asked)[0]


def test_general_distillation_is_gone_on_with_for_a_task(students, run_headway):
    run, _ = students("encoded")
    found = valid(run, "difference")
    assert len(found) == 2 and found[1] < found[0]
    student = load(run)
    assert student.model.masked_lm_head is None and student.model.pooler is None
    run_headway(*distil("distil", "second", "--training.student", "runs/encoded"))
    assert scored(run_headway, "second")["accuracy"] > 0.9
    tag = ("train", "tag", "t.conll", "--from", "runs/encoded", "--run", "fine", *LOOP)
    assert "1 layers, d=24" in run_headway(*tag, "--steps", "2")[1]


@pytest.mark.parametrize("recipe", ["answered", "encoded", "written"])
def test_the_same_command_goes_on_where_it_stopped(working_folder, run_headway, recipe):
    stages = () if recipe == "encoded" else ("--distillation.first-stage", "0.5")
    for run, steps in (("whole", "8"), ("halves", "8")):
        time = ("--time", "0.001s") if run == "halves" else ()
        run_headway(*distil(recipe, f"{recipe}-{run}", *stages, f"--training.steps={steps}", *time))
    said = run_headway("train", "--resume", f"runs/{recipe}-halves", "--time", "none")[1]
    assert "resumed from step " in said and "resumed from step 8" not in said
    whole, halves = (working_folder / "runs" / f"{recipe}-{x}" for x in ("whole", "halves"))
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
            "train distil t.tsv --teacher runs/classifier --model.num-heads 2",
            2,
            "--model.num-heads 3",
        ),
        ("train distil t.tsv --teacher runs/classifier --data.extra t.json", 2, ".jsonl"),
        ("train distil t.tsv --teacher runs/classifier --data.extra none.txt", 2, "no such file"),
        ("train distil t.tsv --teacher runs/classifier --training.student runs/gpt", 2, "language"),
        ("train distil t.tsv --teacher runs/classifier --training.student other", 2, "tokenizer"),
        ("train distil other.conll --teacher runs/tagger", 3, "other.conll:1"),
    ],
)
def test_wrong_words_are_answered_in_three_lines(working_folder, run_headway, words, code, part):
    (working_folder / "other.conll").write_text(
        "\n\n".join(f"a{i}\tB-zoo\nb\tO" for i in range(20))
    )
    said = run_headway(*words.split(), "--run", "wrong", code=code)[1]
    error = said[said.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, said
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
    run, _ = students("tagged")
    said = run_headway(*distil("answered", "tagged"), code=2)[1]
    assert "runs/tagged has a run of distil with the settings of another kind" in said
    other = ("--training.teacher", "runs/answerer", "--training.steps", "61")
    said = run_headway("train", "--resume", "runs/tagged", *other, code=2)[1]
    assert (
        "is a model of the task question_answering, but this run needs a teacher of the task "
        "tagging" in said
    )
    assert (run / "model").exists()
