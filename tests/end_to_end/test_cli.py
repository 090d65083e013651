"""Every verb through the command line: its output and its errors."""

import json
import signal
import subprocess
import sys
import time
import tomllib
from importlib import metadata
from importlib.metadata import PackageNotFoundError

import pytest

from headway import __version__
from tests.fixtures.command_line import (
    ROOT,
    headway,
    headway_process,
    rows,
    start,
    train_words,
    write_corpus,
)

ABSENT = "mps" if sys.platform == "linux" else "cuda"


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    """A folder with data and one finished run."""
    folder = tmp_path_factory.mktemp("work")
    write_corpus(folder / "data")
    done = headway(*train_words(folder / "data", "r", "--steps", "30"), cwd=folder)
    (folder / "training.txt").write_text(done.stderr)
    assert done.stdout == ""
    return folder


def fails(code: int, *words: str, cwd, text: str | bytes = "") -> str:
    """Run a command that must fail with `code`, and return its error."""
    return error_in(headway(*words, cwd=cwd, text=text, check=code).stderr)


def error_in(stderr: str) -> str:
    error = stderr[stderr.index("error:") :].strip()
    assert len(error.split("\n")) <= 3, stderr
    return error


def test_training_reports_its_progress_in_plain_lines(working_folder):
    output = (working_folder / "training.txt").read_text()
    for part in (
        "tokenizer",
        "220 pairs",
        "parameters",
        "padding",
        "seed 42",
        "valid step=30",
        "next",
    ):
        assert part in output, part
    assert "\x1b" not in output  # piped: no colours, no cursor movements
    assert "ETA" not in output


def test_a_run_folder_has_its_files(working_folder):
    run = working_folder / "runs" / "r"
    assert {"run.yaml", "metrics.jsonl", "tokenizer.json", "data", "checkpoints", "model"} <= {
        path.name for path in run.iterdir()
    }
    kinds = [row["kind"] for row in rows(run / "metrics.jsonl")]
    assert kinds.count("valid") == 3 and "train" in kinds and kinds[-1] == "finished"
    assert {p.name for p in (run / "checkpoints").iterdir()} == {"step-25", "step-30"}
    assert {p.name for p in (run / "model").iterdir()} == {
        "MANIFEST.json",
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }


def test_evaluation_prints_scores_with_signatures_and_as_json(working_folder):
    text = headway("eval", "runs/r", "--beam", "2", cwd=working_folder).stdout
    assert "BLEU" in text and "tok:13a" in text and "10 sentences" in text
    scores = json.loads(
        headway("eval", "runs/r", "--json", "--split", "valid", cwd=working_folder).stdout
    )
    assert (
        scores["sentences"] == 6 and 0 <= scores["bleu"] <= 100
    )  # evaluation.sentences of the run


def test_every_input_line_gives_one_output_line_whatever_its_characters(working_folder):
    lines = "the red fox sees the dog\n\nthe baker\u2028paints\x85the tree\n   \nthe old dog\n"
    done = headway_process("translate", "runs/r", cwd=working_folder, text=lines)
    assert done.stdout.count("\n") == 5
    out = done.stdout.split("\n")
    assert out[1] == "" and out[3] == "" and done.stderr == ""
    alone = headway("translate", "runs/r", "the old dog", cwd=working_folder).stdout
    assert alone == out[4] + "\n"


def test_nbest_scores_json_and_alignment(working_folder):
    text = headway(
        "translate",
        "runs/r",
        "the old dog",
        "a tree",
        "--nbest",
        "3",
        "--beam",
        "4",
        cwd=working_folder,
    ).stdout
    table = [line.split("\t") for line in text.strip("\n").split("\n")]
    assert [row[0] for row in table] == ["1"] * 3 + ["2"] * 3
    assert all(float(table[i][1]) >= float(table[i + 1][1]) for i in (0, 1, 3, 4))
    result = json.loads(
        headway(
            "translate", "runs/r", "the old dog", "--json", "--align", cwd=working_folder
        ).stdout
    )
    assert result["source"] == "the old dog" and result["translations"][0]["score"] < 0
    if result["translations"][0]["text"]:
        assert result["alignment"]["source"] == ["the", "old", "dog", "</s>"]
    alignment = headway(
        "translate", "runs/r", "the old dog sees the fox", "--align", cwd=working_folder
    ).stdout
    assert "weights from" in alignment
    scored = headway("translate", "runs/r", "the old dog", "--scores", cwd=working_folder).stdout
    assert float(scored.split("\t")[0]) < 0


def test_runs_config_and_doctor(working_folder):
    assert "runs/r" in headway("runs", "ls", cwd=working_folder).stdout
    listed = json.loads(headway("runs", "ls", "--json", cwd=working_folder).stdout)
    assert listed["step"] == 30 and listed["state"] == "done"
    assert "step      30" in headway("runs", "show", "runs/r", cwd=working_folder).stdout
    summary = json.loads(headway("runs", "show", "runs/r", "--json", cwd=working_folder).stdout)
    assert summary["config"]["training.steps"] == 30 and len(summary["evaluations"]) == 3
    assert "warmup: 5.0" in headway("config", "show", "runs/r", cwd=working_folder).stdout
    assert (
        "learning rate" in headway("config", "explain", "optimizer.lr", cwd=working_folder).stdout
    )
    machine = json.loads(headway("doctor", "--json", cwd=working_folder).stdout)
    assert machine["torch"] and machine["cpus"] >= 1
    assert "torch" in headway("--version", cwd=working_folder).stdout


def test_a_source_tree_that_is_not_installed_has_versions(tmp_path, monkeypatch):
    def not_installed(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", not_installed)
    shown = json.loads(headway("doctor", "--json", cwd=tmp_path).stdout)
    assert shown["headway"] == __version__ and shown["packages"]["numpy"] == "unknown"
    assert headway("--version", cwd=tmp_path).stdout.startswith(f"headway {__version__} · torch ")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__


def test_a_finished_run_has_nothing_to_do_when_its_command_is_repeated(working_folder):
    done = headway(*train_words(working_folder / "data", "r", "--steps", "30"), cwd=working_folder)
    assert "reused" in done.stderr and "resumed from step 30" in done.stderr


def test_other_settings_under_the_same_name_are_refused_and_named(working_folder):
    error = fails(
        2, *train_words(working_folder / "data", "r", "--steps", "31"), cwd=working_folder
    )
    assert "training.steps: 30 in the run, 31 now" in error and "--resume" in error


def test_a_changed_setting_is_recorded_in_a_resumed_run_unless_it_is_refused(tmp_path):
    data = write_corpus(tmp_path / "data")
    headway(*train_words(data, "r", "--steps", "6"), cwd=tmp_path)
    done = headway(
        "train", "--resume", "runs/r", "--steps", "8", "--optimizer.lr", "1e-4", cwd=tmp_path
    )
    assert "optimizer.lr changed from 0.005 to 0.0001" in done.stderr
    settings = (tmp_path / "runs" / "r" / "run.yaml").read_text()
    assert "optimizer.lr: 0.005 -> 0.0001" in settings and "lr: 0.0001" in settings
    fewer = ("train", "--resume", "runs/r", "--steps", "9", "--model.decoder-layers", "1")
    assert "does not fit the model" in fails(3, *fewer, cwd=tmp_path)
    assert (tmp_path / "runs" / "r" / "run.yaml").read_text() == settings


def test_flags_take_precedence_over_a_yaml_file(tmp_path):
    data = write_corpus(tmp_path / "data")
    (tmp_path / "my.yaml").write_text("training:\n  steps: 9\n  seed: 5\noptimizer.lr: 1e-3\n")
    words = train_words(data, "r", "--config", "my.yaml", "--steps", "4")
    headway(*words, cwd=tmp_path)
    settings = headway("config", "show", "runs/r", cwd=tmp_path).stdout
    assert "steps: 4" in settings and "seed: 5" in settings and "lr: 0.001" in settings
    (tmp_path / "bad.yaml").write_text("training:\n  stepz: 9\n")
    error = fails(2, *train_words(data, "s", "--config", "bad.yaml"), cwd=tmp_path)
    assert "training.stepz" in error and "Did you mean training.steps" in error
    (tmp_path / "twice.yaml").write_text("training:\n  steps: 9\n  steps: 10\n")
    error = fails(3, *train_words(data, "s", "--config", "twice.yaml"), cwd=tmp_path)
    assert "twice.yaml:3" in error


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("train translate data --source en --target de --optimizer.lrr 1", 2, "--optimizer.lr?"),
        ("train translate data --source en --target de --optimizer.lr fast", 2, "a number"),
        ("train translate data --source en --target de --model.num-heads 7", 2, "model_dim=128"),
        ("train translate data --source en --target de --model.size huge", 2, "tiny, small"),
        ("train translate data --source en --target de --time soon", 2, "30m"),
        ("train translate data --source en --target de --device tpu", 2, "cuda"),
        ("train translate data --source en --target fr", 2, "'fr'"),
        ("train translate data --source en --target de --device " + ABSENT, 2, "not available"),
        ("train translate nowhere.tsv --source en --target de", 2, "no such file"),
        ("train translate", 2, "no training pairs are named"),
        ("train transalte data", 2, "Did you mean translate"),
        ("train translate data --source en --target de --run ../x", 2, "a name"),
        ("translate nowhere hello", 2, "no such folder"),
        ("translate runs/r hello --beam 2 --nbest 3", 2, "nbest"),
        ("translate runs/r hello --beam two", 2, "beam"),
        ("translate runs/r hello --bean 2", 2, "--bean"),
        ("eval runs/r nowhere.tsv", 2, "nowhere"),
        ("runs show nowhere", 2, "not a run folder"),
        ("config explain optimizer.lrr", 2, "Did you mean optimizer.lr"),
        ("config explain xyzzy --recipe vision", 2, "explain --recipe vision lists all settings"),
        ("train vision --optimizer.lrr 1", 2, "config explain optimizer.lr --recipe vision"),
        ("generate runs/r --xyzzy 1", 2, "Unknown option: --xyzzy"),
        ("data fetch emoji-name", 2, "emoji-names"),
        ("data check nowhere", 2, "nowhere"),
        ("dat", 2, "dat"),
    ],
)
def test_a_wrong_command_gives_an_error_of_at_most_three_lines(working_folder, words, code, part):
    assert part in fails(code, *words.split(), cwd=working_folder)


def test_invalid_utf_8_on_standard_input_is_refused_with_its_line(working_folder):
    raw = b"fine\n\xff\xfe\n"
    done = headway_process("translate", "runs/r", cwd=working_folder, text=raw, check=3)
    assert "line 2" in error_in(done.stderr)


def test_damaged_weights_and_a_foreign_pickle_are_refused_as_bad_data(working_folder, tmp_path):
    import shutil

    for name, raw in (("cut", None), ("pickle", b"\x80\x04cos\nsystem\n.")):
        model = tmp_path / name
        shutil.copytree(working_folder / "runs" / "r" / "model", model)
        weights = model / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-50] if raw is None else raw)
        assert "model.safetensors" in fails(3, "translate", str(model), "hi", cwd=working_folder)


def test_data_check_finds_faults_and_passes_clean_data(tmp_path):
    data = write_corpus(tmp_path / "data")
    clean = headway("data", "check", "data", "--source", "en", "--target", "de", cwd=tmp_path)
    assert "no faults" in clean.stdout and "220 pairs" in clean.stdout
    with (data / "valid.tsv").open("a") as file:
        file.write((data / "train.tsv").read_text().split("\n")[5] + "\n\tnichts\n")
    done = headway(
        "data", "check", "data", "--source", "en", "--target", "de", cwd=tmp_path, check=3
    )
    assert (
        "valid.tsv:12" in done.stdout
        and "in the training set" in done.stdout
        and "empty" in done.stdout
    )
    as_json = headway(
        "data", "check", "data", "--source", "en", "--target", "de", "--json", cwd=tmp_path, check=3
    )
    assert len(json.loads(as_json.stdout)["faults"]) == 2


def test_unequal_files_are_refused_before_training(tmp_path):
    (tmp_path / "t.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "t.de").write_text("eins\nzwei\n")
    error = fails(3, "train", "translate", "t", "--source", "en", "--target", "de", cwd=tmp_path)
    assert "t.en has 3 lines, t.de has 2" in error and "t.en:3" in error


def test_emoji_names_are_fetched_once_and_reused(tmp_path):
    first = headway("data", "fetch", "emoji-names", "--target", "de", cwd=tmp_path)
    assert "train" in first.stderr and "new combinations" in first.stderr
    again = headway("data", "fetch", "emoji-names", "--target", "de", cwd=tmp_path)
    assert "(reused)" in again.stderr
    header = (tmp_path / "data" / "emoji-names-en-de" / "train.tsv").read_text().split("\n")[0]
    assert header == "emoji\ten\tde"


def test_a_run_belongs_to_one_process_at_a_time_and_ctrl_c_saves_it(tmp_path):
    data = write_corpus(tmp_path / "data")
    words = train_words(data, "r", "--steps", "100000")
    running = start(words, tmp_path, stderr=subprocess.PIPE)
    log = tmp_path / "runs" / "r" / "metrics.jsonl"
    while not (log.exists() and b"saved" in log.read_bytes()):
        assert running.poll() is None, running.stderr.read().decode()
        time.sleep(0.05)
    assert "in use by process" in fails(2, *words, cwd=tmp_path)
    running.send_signal(signal.SIGINT)
    stderr = running.communicate(timeout=60)[1].decode()
    assert running.returncode == 130 and "train --resume" in stderr
    step = rows(log)[-1]["step"]
    done = headway("train", "--resume", "runs/r", "--steps", str(step + 2), cwd=tmp_path)
    assert f"resumed from step {step}" in done.stderr


def test_a_dry_run_keeps_nothing(tmp_path):
    data = write_corpus(tmp_path / "data")
    done = headway(*train_words(data, "r", "--dry-run"), cwd=tmp_path)
    assert " for 6,000 steps" in done.stderr and "preparing tokenizer\n" in done.stderr
    assert "GB of memory" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dry-run", "--find-lr"), "only one of them"),
        (("--find-lr", "--processes", "2"), "--find-lr measures one process"),
        (("--plot", "rates.svg"), "training has no plot"),
        (("--find-lr", "--plot", "rates.gif"), "must end in .svg"),
        (("--find-lr", "--steps", "5"), "needs at least 10 updates"),
    ],
)
def test_a_learning_rate_test_that_cannot_work_is_refused(words, message, working_folder):
    train = train_words(working_folder / "data", "new", *words)
    assert message in fails(2, *train, cwd=working_folder)
    assert not (working_folder / "runs" / "new").exists()


def test_a_learning_rate_is_suggested_with_a_chart_and_a_run_of_another_name(working_folder):
    words = train_words(working_folder / "data", "r", "--steps", "40", "--plot", "rates.svg")
    shown = headway(*words, "--find-lr", cwd=working_folder).stderr
    assert "█" in shown and "tested    " in shown and "the configuration has" in shown
    assert (working_folder / "rates.svg").is_file()
    (command,) = [line for line in shown.split("\n") if line.startswith("next ")]
    # the run named r has other settings
    assert " --run r-2 " in command and " --optimizer.lr " in command and "--plot" not in command


def test_a_dry_run_prints_its_report_as_json_and_no_progress_with_quiet(tmp_path):
    data = write_corpus(tmp_path / "data")
    words = train_words(data, "r", "--dry-run", "--steps", "40")
    done = headway(*words, "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["steps"] == 40 and 0 < report["seconds"] < 600
    assert report["memory_bytes"] > 2**20 and not done.stderr
    done = headway(*words, "--quiet", cwd=tmp_path)
    assert done.stderr.startswith("dry run ") and done.stderr.count("\n") == 1 and not done.stdout


def test_a_gradient_that_is_not_finite_stops_the_run_and_names_the_pairs(tmp_path):
    data = write_corpus(tmp_path / "data")
    words = train_words(
        data, "r", "--optimizer.lr", "1e9", "--steps", "50", "--training.clip", "1e9"
    )
    error = fails(1, *words, cwd=tmp_path)
    assert "not finite" in error and "sentence pairs" in error
