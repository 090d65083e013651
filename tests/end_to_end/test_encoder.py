"""Text encoders by command line: pre-training, resuming, evaluation, filling and errors."""

import json
import shutil

import pytest

from headway import load
from tests.fixtures.command_line import headway, rows

LINES = [
    f"The {name} {verb} {item}. It {verb} {item} again. So does the {name}."
    for item in ("a lemon", "the tree", "some bread", "a drum")
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
    """Return the rows of a run's evaluations during training."""
    return [row for row in rows(run / "metrics.jsonl") if row["kind"] == "valid"]


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    (folder / "t.txt").write_text("\n".join(LINES) + "\n")
    done = headway(*train("a", "--steps", "5"), cwd=folder)
    (folder / "training.txt").write_text(done.stderr)
    return folder


def test_training_reports_its_progress_and_saves_a_bundle(working_folder):
    output = (working_folder / "training.txt").read_text()
    for part in (
        *("(WordPiece)", "data      train:", "2 layers, d=12", "valid step=5 mlm_nats="),
        *("nsp_accuracy=", "unigram entropy", "[MASK]", "pairs of up to 22 tokens"),
        *("fill runs/a", "best mlm_nats"),
    ):
        assert part in output, part
    names = {path.name for path in (working_folder / "runs" / "a" / "model").iterdir()}
    assert names == {
        "MANIFEST.json",
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    (predictions,) = load(working_folder / "runs" / "a").fill(["the [MASK] sees a lemon"], top=3)[0]
    assert len(predictions) == 3


def test_pre_training_continues_in_a_domain_with_new_words(working_folder, run_headway):
    (working_folder / "domain.txt").write_text("\n".join(LINES).replace("lemon", "lemonade") + "\n")
    words = ["train", "bert-domain", "--data", "domain.txt", *TINY[8:], "--from", "runs/a"]
    words += ["--data.new-tokens", "1", "--run", "b", "--steps", "4"]
    stderr = run_headway(*words)[1]
    for part in (
        "and 1 new tokens",
        "tokens per word with the original vocabulary",
        "before: pseudo-",
    ):
        assert part in stderr, part
    assert "resumed from step 4" in run_headway(*words)[1]
    old, new = (load(working_folder / "runs" / run).tokenizer for run in "ab")
    assert new.token_strings(range(old.size, new.size)) == ["lemonade"]


def test_roberta_trains_on_full_sentences_without_pairs(run_headway):
    stderr = run_headway("train", "roberta", "t.txt", *TINY, "--run", "r", "--steps", "2")[1]
    assert "sequences of up to 22 tokens" in stderr and "nsp" not in stderr


def test_an_encoder_is_evaluated_on_its_held_out_data_and_on_a_file(working_folder, run_headway):
    scores = json.loads(run_headway("eval", "runs/a", "--json")[0])
    assert scores["tokens"] >= scores["words"] > 0 and scores["pseudo_perplexity"]["per_token"] > 1
    # the evaluation uses the sequences of the evaluations during training
    (logged,) = valid(working_folder / "runs" / "a")
    assert set(scores["held_out_sequences"]) == {"t.txt"}
    for name, value in scores["held_out_sequences"]["t.txt"].items():
        assert value == pytest.approx(logged[name], rel=1e-5), name
    (working_folder / "more.txt").write_text("The fox sees. The owl sees.\n")
    output = run_headway("eval", "runs/a", "more.txt", "--sentences", "1")[0]
    assert output.startswith("pseudo-perplexity ") and output.rstrip().endswith("1 sentences")


def test_texts_are_mixed_in_the_first_epoch_and_evaluated_separately(working_folder, run_headway):
    other_lines = [line.replace("lemon", "ship").replace("fox", "gull") for line in LINES]
    (working_folder / "u.txt").write_text("\n".join(other_lines) + "\n")
    words = ["train", "bert-tiny", "t.txt", "u.txt", *TINY, "--run", "two", "--steps", "5"]
    stderr = run_headway(*words, "--training.mixed", "1")[1]
    assert "in the first epoch random second texts are of any text" in stderr
    assert "first epoch" not in run_headway(*words[:-4], "--dry-run")[1]
    output, _ = run_headway("eval", "runs/two")
    lines = output.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["t.txt", "u.txt"]
    assert all("next-sentence prediction" in line and "accuracy" in line for line in lines[1:])
    (logged,) = valid(working_folder / "runs" / "two")
    scores = json.loads(run_headway("eval", "runs/two", "--json")[0])["held_out_sequences"]
    accuracies = [scores[text]["nsp_accuracy"] for text in ("t.txt", "u.txt")]
    assert min(accuracies) <= logged["nsp_accuracy"] <= max(accuracies)
    for folder in ("valid-1", "valid-2"):
        shutil.rmtree(working_folder / "runs" / "two" / "data" / folder)
    output, stderr = run_headway("eval", "runs/two")
    assert len(output.splitlines()) == 1 and "valid-1" in stderr


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
        ("train bert-tiny single.txt --data.split line", 3, "documents of one sentence"),
        ("train bert t.txt --from runs/a --training.length 4000", 2, "positions of the model"),
        ("train bert t.txt --from nowhere", 2, "nowhere"),
        ("train gpt t.txt --from runs/a", 2, "text encoder"),
        ("eval runs/a/model", 2, "has no run.yaml"),
    ],
)
def test_a_wrong_command_gives_an_error_of_at_most_three_lines(
    working_folder, run_headway, words, code, part
):
    (working_folder / "single.txt").write_text("a fox\nan owl\nthe crab\n")
    output = run_headway(*words.split(), code=code)[1]
    error = output[output.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, output
    assert "Traceback" not in output and not (working_folder / "runs" / "bert-tiny").exists()
