"""Tagging and question answering through the command line, fine-tuned from an encoder."""

import json

import pytest
import torch

from tests.fixtures.command_line import headway
from tests.fixtures.tiny_encoder import save_encoder, sentences, write_conll, write_squad

LOOP = [
    *("--schedule.kind", "constant", "--schedule.warmup", "2", "--optimizer.lr", "1e-2"),
    *("--evaluation.every", "30", "--checkpoint.every", "30", "--threads", "1"),
    *("--training.batch-size", "7", "--data.held-out", "0.2", "--device", "cpu"),
]
CONTEXT = "waits in a shed Cleo Quinn sings in the lake"


def train_tag(run, *more):
    return ["train", "tag", "t.conll", "--from", "m", "--run", run, *LOOP, *more]


def train_answer(run, *more):
    words = ("train", "answer", "t.json", "--from", "m", "--run", run, "--data.window", "20")
    return [*words, *LOOP, "--data.stride", "6", *more]


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tag")
    torch.manual_seed(0)
    save_encoder(folder / "m")
    write_conll(folder / "t.conll", sentences())
    write_squad(folder / "t.json")
    (folder / "story.txt").write_text(CONTEXT.replace(" sings", "\nsings") + "\n")
    for name, words in (("tag", train_tag("t", "--steps", "60")), ("answer", train_answer("a"))):
        done = headway(*words, *(() if name == "tag" else ("--steps", "90")), cwd=folder)
        (folder / f"training-{name}.txt").write_text(done.stderr)
    return folder


def test_training_reports_its_progress_and_saves_bundles(working_folder):
    output = (working_folder / "training-tag.txt").read_text()
    for part in (
        "3 tags; majority baseline ('O')",
        "d=24, 3 heads, 3 tags",
        "valid step=60 f1=",
        "sentences",
    ):
        assert part in output, part
    assert "tag runs/t" in output and "eval runs/t" in output
    names = {path.name for path in (working_folder / "runs" / "t" / "model").iterdir()}
    assert names == {
        "MANIFEST.json",
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tags.json",
    }
    output = (working_folder / "training-answer.txt").read_text()
    for part in (
        "training windows of at most 20 tokens",
        "valid step=90 f1=",
        "exact=",
        "7 windows",
    ):
        assert part in output, part
    assert "answer runs/a" in output
    names = {path.name for path in (working_folder / "runs" / "a" / "model").iterdir()}
    assert names == {
        "MANIFEST.json",
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "windows.json",
    }


def test_the_spans_of_each_text_are_printed_in_brackets_on_one_line(run_headway):
    texts = ["in the lake Zoë Thorn waits.", "a red barn"]
    expected = "in the lake [name Zoë Thorn] waits.\na red barn\n"
    assert run_headway("tag", "runs/t", *texts)[0] == expected
    assert run_headway("tag", "runs/t", standard_input="\n".join(texts) + "\n")[0] == expected
    rows = [json.loads(x) for x in run_headway("tag", "runs/t", *texts, "--json")[0].splitlines()]
    (span,) = rows[0]["spans"]
    assert (span["label"], span["text"], span["start"], span["end"]) == (
        "name",
        "Zoë Thorn",
        12,
        21,
    )
    assert [row["line"] for row in rows] == [1, 2] and rows[0]["text"] == texts[0]
    assert [word["tag"] for word in rows[1]["words"]] == ["O"] * 3 and rows[1]["spans"] == []


def test_each_word_has_its_tag_where_the_tags_are_no_spans(working_folder, run_headway):
    text = (
        (working_folder / "t.conll").read_text().replace("B-name", "NAME").replace("I-name", "NAME")
    )
    (working_folder / "p.conll").write_text(text.replace("\tO", "\tX"))
    words = [word.replace("t.conll", "p.conll") for word in train_tag("p", "--steps", "30")]
    assert "accuracy=" in run_headway(*words)[1]
    expected = "in/X a/X shed/X Bo/NAME Nash/NAME sings/X\n"
    assert run_headway("tag", "runs/p", "in a shed Bo Nash sings")[0] == expected
    assert set(json.loads(run_headway("eval", "runs/p", "--json")[0])) == {
        "accuracy",
        "loss",
        "words",
        "sentences",
    }


def test_questions_are_answered_from_a_text_or_a_file(run_headway):
    command = ("answer", "runs/a", "who is there ?", "--context")
    words, probability = run_headway(*command, CONTEXT)[0].strip().split("\t")
    assert words == "Cleo Quinn" and 0 < float(probability) <= 1
    assert run_headway(*command, "story.txt")[0].startswith("Cleo Quinn\t")
    best, *alternatives = run_headway(*command, CONTEXT, "--top", "3")[0].strip().split("\t")[::2]
    assert best == "Cleo Quinn" and len(alternatives) == 2
    row = json.loads(run_headway(*command, CONTEXT, "--json")[0])
    (answer,) = row["answers"]
    assert CONTEXT[answer["start"] : answer["end"]] == answer["text"] == "Cleo Quinn"
    piped = run_headway(
        "answer", "runs/a", "--context", CONTEXT, standard_input="who is there ?\nwho ?\n"
    )[0]
    assert len(piped.splitlines()) == 2


def test_scores_are_computed_on_the_held_out_examples_or_on_a_file(run_headway):
    scores = json.loads(run_headway("eval", "runs/t", "--json")[0])
    assert scores["f1"] > 0.9 and scores["correct"] <= scores["predicted"]
    assert 3 < scores["sentences"] < 60
    summary = json.loads(run_headway("runs", "show", "runs/t", "--json")[0])
    assert summary["best"] == pytest.approx(scores["f1"])
    assert run_headway("eval", "runs/t", "t.conll")[0].startswith("F1 ")
    scores = json.loads(run_headway("eval", "runs/a", "--json")[0])
    assert scores["f1"] > 0.9 and scores["exact"] > 0.8 and 3 < scores["questions"] < 40
    assert "60 questions" in run_headway("eval", "runs/a", "t.json")[0]


def test_a_dry_run_writes_nothing_and_settings_are_printed(working_folder, run_headway):
    assert "steps, without evaluations" in run_headway(*train_tag("dry", "--dry-run"))[1]
    assert not (working_folder / "runs" / "dry").exists()
    assert "stride: 96" in run_headway("config", "show", "answer")[0]
    assert "max_length: 128" in run_headway("config", "show", "tag")[0]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("train tag", 2, "no training sentences are named"),
        ("train tag t.conll", 2, "--from"),
        ("train tag t.conll --from runs/t", 2, "needs a text encoder"),
        ("train tag t.json --from m", 3, "the value of 'words' is missing"),
        ("train tag ragged.conll --from m", 3, "ragged.conll:2"),
        ("train tag t.conll --from m --valid zoo.conll", 3, "zoo.conll:1"),
        ("train tag t.conll --from m --column 9", 2, "--data.column"),
        ("train tag t.conll --from m --model tiny", 2, "has its size"),
        ("tag m hello", 2, "needs a tagger"),
        ("eval runs/t zoo.conll", 3, "zoo.conll:1"),
        ("eval runs/t/model", 2, "name a file"),
        ("train answer", 2, "no training questions are named"),
        ("train answer t.json", 2, "--from"),
        ("train answer t.conll --from m", 2, ".jsonl"),
        ("train answer moved.jsonl --from m", 3, "moved.jsonl:1"),
        ("answer runs/t who --context x", 2, "needs a question-answering model"),
        ("answer runs/a who --context nowhere.txt", 2, "no such file"),
        ("answer runs/a who", 2, "context"),
        ("answer runs/a who --context x --top 0", 2, "top=0"),
        ("eval runs/a/model", 2, "name a file"),
    ],
)
def test_a_wrong_command_gives_an_error_of_at_most_three_lines(
    working_folder, run_headway, words, code, part
):
    (working_folder / "ragged.conll").write_text("a\tO\nb\n")
    (working_folder / "zoo.conll").write_text("a\tB-zoo\n")
    row = {"question": "who ?", "context": "Ada sings", "answer": "sings", "start": 3}
    (working_folder / "moved.jsonl").write_text(json.dumps(row) + "\n")
    output = run_headway(*words.split(), code=code)[1]
    error = output[output.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, output
    assert "Traceback" not in output
    assert (
        not (working_folder / "runs" / "tag").exists()
        and not (working_folder / "runs" / "answer").exists()
    )
