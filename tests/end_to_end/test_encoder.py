"""Encoders through the real command line: pre-train, go on, evaluate, fill; right and wrong."""

import json
import shutil

import pytest

from headway import load
from tests.fixtures.command_line import headway, rows

LINES = [
    f"The {name} {verb} {thing}. It {verb} {thing} again. So does the {name}."
    for thing in ("a lemon", "the tree", "some bread", "a drum")
    for name in ("fox", "baker", "owl", "crab")
    for verb in ("sees", "likes")
]
TINY = [
    *(
        "--model.positions",
        "learned",
        "--model.model-dim",
        "12",
        "--model.num-heads",
        "2",
        "--model.ffn-dim",
        "20",
    ),
    *("--model.num-layers", "2", "--data.vocabulary", "100", "--data.split", "line"),
    *("--training.batch-size", "3", "--training.length", "22", "--threads", "1"),
    *("--schedule.kind", "constant", "--evaluation.every", "5", "--checkpoint.every", "5"),
]


def train(run: str, *more: str) -> list[str]:
    return ["train", "bert-tiny", "--data", "t.txt", "--run", run, *TINY, *more]


def valid(run):
    """What a run's evaluations said."""
    return [row for row in rows(run / "metrics.jsonl") if row["kind"] == "valid"]


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    (folder / "t.txt").write_text("\n".join(LINES) + "\n")
    done = headway(*train("a", "--steps", "5"), cwd=folder)
    (folder / "said").write_text(done.stderr)
    return folder


def test_training_says_what_it_does_and_leaves_a_bundle(working_folder):
    said = (working_folder / "said").read_text()
    for part in (
        *("(WordPiece)", "data      train:", "2 layers, d=12", "valid step=5 mlm_nats="),
        *("nsp_accuracy=", "unigram entropy", "[MASK]", "pairs of up to 22 tokens"),
        *("fill runs/a", "best mlm_nats"),
    ):
        assert part in said, part
    names = {path.name for path in (working_folder / "runs" / "a" / "model").iterdir()}
    assert names == {"MANIFEST.json", "config.json", "model.safetensors", "tokenizer.json"}
    (guesses,) = load(working_folder / "runs" / "a").fill(["the [MASK] sees a lemon"], top=3)[0]
    assert len(guesses) == 3


def test_the_same_command_goes_on_where_it_stopped(working_folder, run_headway):
    run_headway(*train("whole", "--steps", "12"))
    run_headway(*train("halves", "--steps", "5"))
    said = run_headway("train", "--resume", "runs/halves", "--steps", "12")[1]
    assert "resumed from step 5" in said and "training.steps changed from 5 to 12" in said
    for name in ("checkpoints/step-12/state.safetensors", "model/model.safetensors"):
        whole, halves = (working_folder / "runs" / run / name for run in ("whole", "halves"))
        assert halves.read_bytes() == whole.read_bytes()
    again = run_headway(*train("whole", "--steps", "12"))[1]
    assert "resumed from step 12" in again and "(reused)" in again
    steps = [
        r["step"] for r in rows(working_folder / "runs/whole/metrics.jsonl") if r["kind"] == "valid"
    ]
    assert steps == [5, 10, 12]


def test_a_model_goes_on_in_a_domain_with_words_of_its_own(working_folder, run_headway):
    (working_folder / "domain.txt").write_text("\n".join(LINES).replace("lemon", "lemonade") + "\n")
    words = ["train", "bert-domain", "--data", "domain.txt", *TINY[8:], "--from", "runs/a"]
    words += ["--data.new-tokens", "1", "--run", "b", "--steps", "4"]
    said = run_headway(*words)[1]
    for part in (
        "and 1 new tokens",
        "tokens per word with the original vocabulary",
        "before: pseudo-",
    ):
        assert part in said, part
    assert "resumed from step 4" in run_headway(*words)[1]
    old, new = (load(working_folder / "runs" / run).tokenizer for run in "ab")
    assert new.token_strings(range(old.size, new.size)) == ["lemonade"]


def test_full_sentences_without_pairs(run_headway):
    said = run_headway("train", "roberta", "t.txt", *TINY, "--run", "r", "--steps", "2")[1]
    assert "sequences of up to 22 tokens" in said and "nsp" not in said


def test_an_encoder_is_evaluated_on_what_it_held_out_and_on_a_file(working_folder, run_headway):
    found = json.loads(run_headway("eval", "runs/a", "--json")[0])
    assert found["tokens"] >= found["words"] > 0 and found["pseudo_perplexity"]["per_token"] > 1
    # the rows are those that training looked at
    (kept,) = valid(working_folder / "runs" / "a")
    assert set(found["held_out_sequences"]) == {"t.txt"}
    for name, value in found["held_out_sequences"]["t.txt"].items():
        assert value == pytest.approx(kept[name], rel=1e-5), name
    (working_folder / "more.txt").write_text("The fox sees. The owl sees.\n")
    said = run_headway("eval", "runs/a", "more.txt", "--sentences", "1")[0]
    assert said.startswith("pseudo-perplexity ") and said.rstrip().endswith("1 sentences")


def test_texts_are_mixed_at_first_and_judged_each_by_itself(working_folder, run_headway):
    other = [line.replace("lemon", "ship").replace("fox", "gull") for line in LINES]
    (working_folder / "u.txt").write_text("\n".join(other) + "\n")
    words = ["train", "bert-tiny", "t.txt", "u.txt", *TINY, "--run", "two", "--steps", "5"]
    said = run_headway(*words, "--training.mixed", "1")[1]
    assert "in the first epoch random second texts are of any text" in said
    assert "first epoch" not in run_headway(*words[:-4], "--dry-run")[1]
    out, _ = run_headway("eval", "runs/two")
    lines = out.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["t.txt", "u.txt"]
    assert all("next-sentence prediction" in line and "accuracy" in line for line in lines[1:])
    (kept,) = valid(working_folder / "runs" / "two")
    found = json.loads(run_headway("eval", "runs/two", "--json")[0])["held_out_sequences"]
    accuracies = [found[text]["nsp_accuracy"] for text in ("t.txt", "u.txt")]
    assert min(accuracies) <= kept["nsp_accuracy"] <= max(accuracies)
    for folder in ("valid-1", "valid-2"):
        shutil.rmtree(working_folder / "runs" / "two" / "data" / folder)
    out, said = run_headway("eval", "runs/two")
    assert len(out.splitlines()) == 1 and "valid-1" in said


def test_settings_of_encoders_are_shown(run_headway):
    assert "whole_words: false" in run_headway("config", "show", "bert-tiny")[0]
    assert "RoBERTa" in run_headway("config", "explain", "masking.dynamic", "--recipe", "bert")[0]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("train bert-tiny", 2, "no training text is named"),
        ("train bert-tiny nowhere.txt", 2, "nowhere.txt"),
        ("train bert-tiny t.txt --data.new-tokens 3", 2, "--from"),
        ("train bert-tiny t.txt --masking.fraction 1", 2, "fraction"),
        ("train bert-tiny t.txt --masking.masked 0.95", 2, "must add up to at most 1"),
        ("train bert-tiny single.txt --data.split line", 3, "two sentences"),
        ("train bert t.txt --from runs/a --training.length 4000", 2, "positions of the model"),
        ("train bert t.txt --from nowhere", 2, "nowhere"),
        ("train gpt t.txt --from runs/a", 2, "text encoder"),
        ("eval runs/a/model", 2, "has no run.yaml"),
    ],
)
def test_wrong_words_are_answered_in_three_lines(working_folder, run_headway, words, code, part):
    (working_folder / "single.txt").write_text("a fox\nan owl\nthe crab\n")
    said = run_headway(*words.split(), code=code)[1]
    error = said[said.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, said
    assert "Traceback" not in said and not (working_folder / "runs" / "bert-tiny").exists()
