"""Language models through the command line: training, resuming, fine-tuning and errors."""

import json

import pytest

from tests.fixtures.command_line import headway, rows
from tests.fixtures.language_model_commands import LINES, TINY, train


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language")
    (folder / "t.txt").write_text("\n".join(LINES) + "\n")
    done = headway(*train("a", "--steps", "5"), cwd=folder)
    (folder / "training.txt").write_text(done.stderr)
    return folder


def test_training_reports_its_progress_and_saves_a_bundle(working_folder):
    output = (working_folder / "training.txt").read_text()
    parts = (
        "vocabulary size 280 (bpe)",
        "data      train:",
        "2 layers, d=12",
        "valid step=5 nats=",
    )
    for part in parts:
        assert part in output, part
    assert "\n   output " in output
    assert "generate runs/a" in output and "batches of 30 tokens" in output
    names = {path.name for path in (working_folder / "runs" / "a" / "model").iterdir()}
    assert names == {
        "MANIFEST.json",
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert headway(
        "generate", "runs/a", "the fox", "--max-tokens", "4", cwd=working_folder
    ).stdout.strip()


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(working_folder, run_headway):
    run_headway(*train("whole", "--steps", "12"))
    run_headway(*train("halves", "--steps", "5"))
    stderr = run_headway("train", "--resume", "runs/halves", "--steps", "12")[1]
    assert "resumed from step 5" in stderr and "training.steps changed from 5 to 12" in stderr
    for name in ("checkpoints/step-12/state.safetensors", "model/model.safetensors"):
        whole, halves = (working_folder / "runs" / run / name for run in ("whole", "halves"))
        assert halves.read_bytes() == whole.read_bytes()
    again = run_headway(*train("whole", "--steps", "12"))[1]
    assert "resumed from step 12" in again and "(reused)" in again
    steps = [
        r["step"] for r in rows(working_folder / "runs/whole/metrics.jsonl") if r["kind"] == "valid"
    ]
    assert steps == [5, 10, 12]


def test_a_run_is_fine_tuned_with_adapters_that_are_merged_when_saved(working_folder, run_headway):
    words = ["train", "gpt-tiny", "--data", "t.txt", *TINY[12:], "--from", "runs/a"]
    out, _ = run_headway(*words, "--run", "b", "--lora.rank", "2", "--steps", "4", "--json")
    assert json.loads(out)["step"] == 4
    configs = [
        json.loads((working_folder / f"runs/{run}/model/config.json").read_text()) for run in "ab"
    ]
    assert configs[0] == configs[1]
    assert (
        "resumed from step 4"
        in run_headway(*words, "--run", "b", "--lora.rank", "2", "--steps", "4")[1]
    )


def test_the_tokenizer_is_that_of_another_run_or_characters(run_headway):
    stderr = run_headway(*train("c", "--steps", "1", "--data.tokenizer", "runs/a"))[1]
    assert "vocabulary size 280 (of runs/a)" in stderr
    stderr = run_headway(*train("d", "--steps", "1", "--data.tokenizer", "characters"))[1]
    assert "(characters)" in stderr


def test_eval_gives_the_scores_of_the_validation_during_training(working_folder, run_headway):
    last = [r for r in rows(working_folder / "runs/a/metrics.jsonl") if r["kind"] == "valid"][-1]
    scores = json.loads(run_headway("eval", "runs/a", "--json")[0])
    assert scores["nats"] == pytest.approx(last["nats"], rel=1e-6)
    assert scores["bits_per_byte"] == pytest.approx(last["bits_per_byte"], rel=1e-6)
    assert scores["window"] == 10
    output = run_headway("eval", "runs/a", "t.txt")[0]
    assert "nats per token" in output and "bits per byte" in output and "windows of 10" in output


def test_a_dry_run_keeps_nothing(working_folder, run_headway):
    assert "steps, without evaluations" in run_headway(*train("dry", "--dry-run"))[1]
    assert not (working_folder / "runs" / "dry").exists()


def test_settings_of_language_models_are_shown(run_headway):
    assert "batch_size: 8" in run_headway("config", "show", "gpt-tiny")[0]
    assert "adapter" in run_headway("config", "explain", "lora.rank", "--recipe", "gpt")[0]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("train gpt-tiny", 2, "no training text is named"),
        ("train gpt-tiny nowhere.txt", 2, "nowhere.txt"),
        ("train gpt-tiny t.txt nowhere.txt", 2, "nowhere.txt"),
        ("train gpt-tiny image.png", 2, ".png"),
        ("train gpt-tiny empty.txt", 3, "the text is empty"),
        ("train gpt-tiny latin.txt", 3, "latin.txt:2"),
        ("train gpt-tiny list.jsonl", 3, "list.jsonl:1"),
        ("train gpt-tiny t.txt --data.weights 1,2", 2, "2 numbers for 1"),
        ("train gpt-tiny t.txt --data.held-out 1", 2, "held_out"),
        ("train gpt-tiny t.txt --data.tokenizer wordpiece", 2, "characters"),
        ("train gpt-tiny t.txt --from nowhere", 2, "nowhere"),
        ("train gpt-tiny t.txt --from runs/a --data.tokenizer characters", 2, "leave out"),
        ("train gpt-tiny t.txt --from runs/a --lora.rank 500", 2, "rank"),
        ("train gpt-tiny t.txt --training.length 4000", 3, "--training.length"),
        ("train gpt-tiny t.txt --model huge", 2, "model.size=huge"),
        ("train gpt-tiny t.txt --run a --steps 9", 2, "other settings"),
        ("train gpt-tini t.txt", 2, "gpt-tiny"),
        ("translate runs/a hello", 2, "needs a translator"),
        ("eval runs/a/model", 2, "has no run.yaml, which names the held-out data"),
        ("eval runs/a nowhere.txt", 2, "nowhere.txt"),
        ("eval runs/a empty.txt", 3, "no text"),
        ("eval runs/a --length 0", 2, "length=0"),
        ("words nearest runs/a fox", 2, "needs a word model"),
    ],
)
def test_a_wrong_command_gives_an_error_of_at_most_three_lines(
    working_folder, run_headway, words, code, part
):
    (working_folder / "empty.txt").write_text("\n")
    (working_folder / "image.png").write_bytes(b"\x89PNG")
    (working_folder / "latin.txt").write_bytes(b"a\ncaf\xe9\n")
    (working_folder / "list.jsonl").write_text("[1, 2]\n")
    output = run_headway(*words.split(), code=code)[1]
    error = output[output.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, output
    assert "Traceback" not in output and not (working_folder / "runs" / "gpt-tiny").exists()
