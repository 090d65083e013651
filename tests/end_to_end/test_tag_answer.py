"""Taggers and answerers through the real command line: from an encoder to names and answers."""

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
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tag")
    torch.manual_seed(0)
    save_encoder(folder / "m")
    write_conll(folder / "t.conll", sentences())
    write_squad(folder / "t.json")
    (folder / "story.txt").write_text(CONTEXT.replace(" sings", "\nsings") + "\n")
    for name, words in (("tag", train_tag("t", "--steps", "60")), ("answer", train_answer("a"))):
        done = headway(*words, *(() if name == "tag" else ("--steps", "90")), cwd=folder)
        (folder / f"said-{name}").write_text(done.stderr)
    return folder


def test_training_says_what_it_does_and_leaves_bundles(place):
    said = (place / "said-tag").read_text()
    for part in (
        "3 tags; majority baseline ('O')",
        "d=24, 3 heads, 3 tags",
        "valid step=60 f1=",
        "sentences",
    ):
        assert part in said, part
    assert "tag runs/t" in said and "eval runs/t" in said
    names = {path.name for path in (place / "runs" / "t" / "model").iterdir()}
    assert names == {
        "MANIFEST.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tags.json",
    }
    said = (place / "said-answer").read_text()
    for part in (
        "training windows of at most 20 tokens",
        "valid step=90 f1=",
        "exact=",
        "7 windows",
    ):
        assert part in said, part
    assert "answer runs/a" in said
    names = {path.name for path in (place / "runs" / "a" / "model").iterdir()}
    assert names == {
        "MANIFEST.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "windows.json",
    }


def test_names_are_bracketed_a_line_a_text(here):
    asked = ["in the lake Zoë Thorn waits.", "a red barn"]
    expected = "in the lake [name Zoë Thorn] waits.\na red barn\n"
    assert here("tag", "runs/t", *asked)[0] == expected
    assert here("tag", "runs/t", given="\n".join(asked) + "\n")[0] == expected
    rows = [json.loads(x) for x in here("tag", "runs/t", *asked, "--json")[0].splitlines()]
    (span,) = rows[0]["spans"]
    assert (span["label"], span["text"], span["start"], span["end"]) == (
        "name",
        "Zoë Thorn",
        12,
        21,
    )
    assert [row["line"] for row in rows] == [1, 2] and rows[0]["text"] == asked[0]
    assert [word["tag"] for word in rows[1]["words"]] == ["O"] * 3 and rows[1]["spans"] == []


def test_words_have_their_tags_beside_them_where_tags_mark_no_spans(place, here):
    text = (place / "t.conll").read_text().replace("B-name", "NAME").replace("I-name", "NAME")
    (place / "p.conll").write_text(text.replace("\tO", "\tX"))
    words = [word.replace("t.conll", "p.conll") for word in train_tag("p", "--steps", "30")]
    assert "accuracy=" in here(*words)[1]
    expected = "in/X a/X shed/X Bo/NAME Nash/NAME sings/X\n"
    assert here("tag", "runs/p", "in a shed Bo Nash sings")[0] == expected
    assert set(json.loads(here("eval", "runs/p", "--json")[0])) == {
        "accuracy",
        "loss",
        "words",
        "sentences",
    }


def test_questions_are_answered_by_the_words_of_a_text_or_a_file(here):
    asked = ("answer", "runs/a", "who is there ?", "--context")
    words, share = here(*asked, CONTEXT)[0].strip().split("\t")
    assert words == "Cleo Quinn" and 0 < float(share) <= 1
    assert here(*asked, "story.txt")[0].startswith("Cleo Quinn\t")
    best, *others = here(*asked, CONTEXT, "--top", "3")[0].strip().split("\t")[::2]
    assert best == "Cleo Quinn" and len(others) == 2
    row = json.loads(here(*asked, CONTEXT, "--json")[0])
    (found,) = row["answers"]
    assert CONTEXT[found["start"] : found["end"]] == found["text"] == "Cleo Quinn"
    piped = here("answer", "runs/a", "--context", CONTEXT, given="who is there ?\nwho ?\n")[0]
    assert len(piped.splitlines()) == 2


def test_scores_are_measured_on_what_was_held_out_or_on_a_file(here):
    own = json.loads(here("eval", "runs/t", "--json")[0])
    assert own["f1"] > 0.9 and own["correct"] <= own["predicted"] and 3 < own["sentences"] < 60
    shown = json.loads(here("runs", "show", "runs/t", "--json")[0])
    assert shown["best"] == pytest.approx(own["f1"])
    assert here("eval", "runs/t", "t.conll")[0].startswith("F1 ")
    own = json.loads(here("eval", "runs/a", "--json")[0])
    assert own["f1"] > 0.9 and own["exact"] > 0.8 and 3 < own["questions"] < 40
    assert "60 questions" in here("eval", "runs/a", "t.json")[0]


def test_the_same_command_goes_on_where_it_stopped(place, here):
    for make in (train_tag, train_answer):
        name = make.__name__
        here(*make(f"{name}-whole", "--steps", "9"))
        here(*make(f"{name}-halves", "--steps", "4"))
        said = here("train", "--resume", f"runs/{name}-halves", "--steps", "9")[1]
        assert "resumed from step 4" in said
        model = "model/model.safetensors"
        whole, halves = (place / "runs" / f"{name}-{x}" / model for x in ("whole", "halves"))
        assert halves.read_bytes() == whole.read_bytes()


def test_a_dry_run_keeps_nothing_and_settings_are_shown(place, here):
    assert "minutes for" in here(*train_tag("dry", "--dry-run"))[1]
    assert not (place / "runs" / "dry").exists()
    assert "stride: 96" in here("config", "show", "answer")[0]
    assert "max_length: 128" in here("config", "show", "tag")[0]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("train tag", 2, "no training sentences are named"),
        ("train tag t.conll", 2, "--from"),
        ("train tag t.conll --from runs/t", 2, "needs a text encoder"),
        ("train tag t.json --from m", 2, ".conll"),
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
def test_wrong_words_are_answered_in_three_lines(place, here, words, code, part):
    (place / "ragged.conll").write_text("a\tO\nb\n")
    (place / "zoo.conll").write_text("a\tB-zoo\n")
    row = {"question": "who ?", "context": "Ada sings", "answer": "sings", "start": 3}
    (place / "moved.jsonl").write_text(json.dumps(row) + "\n")
    said = here(*words.split(), code=code)[1]
    error = said[said.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, said
    assert "Traceback" not in said
    assert not (place / "runs" / "tag").exists() and not (place / "runs" / "answer").exists()
