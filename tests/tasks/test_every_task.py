"""What holds for every task: it trains, is evaluated by one function, predicts, resumes, is
inspected and exported, and refuses bad input with a clear error before anything is written."""

import json
import shutil
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

import headway as library
from headway.base.errors import HeadwayWarning
from headway.base.metrics_file import read_metrics
from headway.bundle import Bundle
from headway.runs import recipe, saved
from headway.runs import train as train_run
from headway.runs.evaluation import evaluate_model
from headway.tasks.registry import OWN, TASKS, task
from headway.transforms import is_quantized
from tests.fixtures.bundles import answerer, tagger
from tests.fixtures.command_line import headway
from tests.fixtures.packages import installed
from tests.tasks.every import EVERY, OUTSIDE, RUNS, command, task_folder, train

EVALUATED_AS_TRAINED = {
    "masked_language_modeling": ("--sequences", "20"),
    "translation": ("--split", "valid", "--beam", "1"),
    "chat": ("--answers", "4"),
    "preference": ("--answers", "4", "--tokens", "8"),
    "reward": ("--prompts", "6", "--groups", "2"),
    "captioning": ("--split", "valid", "--beam", "1"),
    "transcription": ("--recordings", "4"),
}
"""Flags of `headway eval` that make it the evaluation of training."""


@pytest.fixture(scope="module", params=EVERY)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    with ExitStack() as packages:
        if name in OUTSIDE:
            packages.enter_context(installed(name, tmp_path_factory.mktemp("packages")))
        yield task_folder(name, lambda task: tmp_path_factory.mktemp(task))


@pytest.fixture(scope="module")
def run(name, folder):
    return folder / "runs" / EVERY[name].case


def parameters(path: Path) -> dict[str, torch.Tensor]:
    return dict(library.load(path).model.named_parameters())


def test_every_task_is_covered():
    assert set(OWN) | set(OUTSIDE) == set(EVERY)


@pytest.mark.turns(3)
def test_a_run_leaves_its_settings_its_log_and_a_bundle_of_the_tasks_kind(name, run):
    bundle = library.load(run)
    assert isinstance(bundle, Bundle) and TASKS[name].kind in ("", bundle.kind)
    config = saved(run)
    assert type(config) is task(name).config
    valid = read_metrics(run / "metrics.jsonl", "valid")
    assert len(valid) == 2 and config.evaluation.metric in valid[0]
    assert not any(key.startswith("negative") for key in valid[0])


def test_a_saved_bundle_is_the_same_again(run, tmp_path):
    bundle = library.load(run)
    bundle.save(tmp_path / "copy")
    reloaded = library.load(tmp_path / "copy")
    assert type(reloaded) is type(bundle) and reloaded.config == bundle.config
    for (key, first), second in zip(
        bundle.model.named_parameters(), reloaded.model.parameters(), strict=True
    ):
        assert torch.equal(first, second), key


@pytest.mark.turns(3)
def test_it_is_quantised_and_predicts_is_evaluated_and_inspected_in_int8(name, folder, run):
    if name == "word_vectors":  # its tiny table is smaller than what is worth quantising
        refusal = headway("quantize", str(run), cwd=folder, check=2)
        assert "at least 1,024 weights" in refusal.stderr and not (run / "int8").exists()
        return
    message = headway("quantize", str(run), "--to", "int8", cwd=folder)
    small = run / "int8"
    assert "int8" in message.stderr and is_quantized(library.load(small).model)
    arguments = [word.replace("{run}", str(small)) for word in RUNS[EVERY[name].case].prediction]
    lines = headway(*arguments, cwd=folder).stdout.splitlines()
    assert lines and all(isinstance(json.loads(line), dict) for line in lines)
    if EVERY[name].inspected:
        headway("inspect", str(small), *EVERY[name].inspected, "--html", "page.html", cwd=folder)
        (folder / "page.html").unlink()
    shutil.rmtree(small)


@pytest.mark.turns(3)
def test_its_command_predicts_in_json_and_is_deterministic(name, folder, run):
    arguments = [word.replace("{run}", str(run)) for word in RUNS[EVERY[name].case].prediction]
    first, second = (headway(*arguments, cwd=folder).stdout for _ in range(2))
    assert first == second and first.strip()
    for line in first.splitlines():
        assert isinstance(json.loads(line), dict)


@pytest.mark.turns(3)
def test_a_run_killed_between_checkpoints_ends_as_one_that_was_not(name, folder, run):
    """It is killed after step 3 of 4, and resumes from the checkpoint of step 2."""

    class Killed(BaseException):
        pass

    class Killer:
        def after_step(self, state, report):
            if state.step == 3:
                raise Killed

    short = ["--steps", "4", "--checkpoint.every", "2", "--evaluation.every", "4"]
    train(folder, EVERY[name].case, "whole", *short)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        config = saved(folder / "runs" / "whole")
        with pytest.raises(Killed):
            train_run(config, Path("runs", "killed"), observers=[Killer()])
        assert not Path("runs", "killed", "model").exists()
        with pytest.warns(HeadwayWarning, match="step-2, its newest checkpoint, is used"):
            unevaluated = library.load("runs/killed")
        assert TASKS[name].kind in ("", unevaluated.kind)
        train_run(config, Path("runs", "killed"))
    whole, killed = (parameters(folder / "runs" / run_name) for run_name in ("whole", "killed"))
    for key, value in whole.items():
        assert torch.equal(value, killed[key]), key
    logs = [
        read_metrics(folder / "runs" / run_name / "metrics.jsonl", "train")
        for run_name in ("whole", "killed")
    ]
    assert [row["loss"] for row in logs[0]] == [row["loss"] for row in logs[1]]


@pytest.mark.turns(3)
def test_training_the_command_line_and_python_give_equal_scores(name, folder, run, monkeypatch):
    monkeypatch.chdir(folder)
    valid = read_metrics(run / "metrics.jsonl", "valid")
    best = [row for row in valid if row["is_best"]][-1]
    flags = EVALUATED_AS_TRAINED.get(name, ())
    printed = json.loads(headway("eval", str(run), *flags, "--json", cwd=folder).stdout)
    options = dict(zip((flag.strip("-") for flag in flags[::2]), flags[1::2], strict=True))
    scores = library.evaluate(run, **options)
    metric = saved(run).evaluation.metric
    assert scores.metrics and json.loads(json.dumps(scores.as_dict())) == printed
    shared = set(scores.numbers()) & set(best)
    assert metric in shared
    for key in shared:  # a loaded model's products are joined: on some processors they round anew
        # kl is a small difference of log-probabilities, which are rounded
        assert scores[key] == pytest.approx(best[key], rel=1e-6, abs=3e-6), key


def test_the_progress_of_its_evaluation_rises_to_at_most_the_whole(name, folder, run, monkeypatch):
    monkeypatch.chdir(folder)
    done: list[float] = []
    evaluate_model(library.load(run), run, progress=done.append)
    assert done == sorted(done) and done and done[0] == 0 and done[-1] <= 1


@pytest.mark.turns(3)
def test_it_is_inspected(name, folder, run):
    if not EVERY[name].inspected:
        pytest.skip("word vectors attend to nothing")
    headway("inspect", str(run), *EVERY[name].inspected, "--html", "page.html", cwd=folder)
    page = (folder / "page.html").read_text()
    assert "<html" in page and len(page) > 10_000
    (folder / "page.html").unlink()


@pytest.mark.turns(2)
def test_it_is_exported_where_hugging_face_has_such_models(name, folder, run, tmp_path):
    out = str(tmp_path / "hf")
    process = headway("export", str(run), "--to", "hf", "--output", out, cwd=folder, check=None)
    if not EVERY[name].exports:
        assert process.returncode == 2 and not Path(out).exists()
        return
    assert process.returncode == 0, process.stderr
    exported, original = library.load(out), library.load(run)
    assert exported.kind == original.kind
    shapes, expected = (
        Counter(tuple(p.shape) for p in bundle.model.parameters())
        for bundle in (exported, original)
    )
    further = [(original.model.config.target_vocabulary,)] if name == "translation" else []
    assert shapes - expected == Counter(further)  # MarianMT has a bias of the logits
    assert not expected - shapes


BAD = {
    "a missing file": lambda path: path.unlink() if path.is_file() else shutil.rmtree(path),
    "an empty file": lambda path: path.write_bytes(b""),
    "NUL bytes": lambda path: path.write_bytes(bytes(400)),
    "UTF-16": lambda path: path.write_bytes("a\tb\nc\td\n".encode("utf-16")),
    "not UTF-8": lambda path: path.write_bytes(b"text\tlabel\nfirst\t\xff\xfe\nsecond\tb\n"),
    "wrong columns": lambda path: path.write_text("one;two;three\n1;2;3\n4;5;6\n"),
    "one line": lambda path: path.write_text("x"),
    "white space": lambda path: path.write_text(" \n\t\n  \n"),
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("defect", BAD)
def test_bad_examples_are_refused_and_nothing_is_written(defect, name, folder, tmp_path):
    source = RUNS[EVERY[name].case].train[0]
    if defect == "wrong columns" and source == "text.txt":
        pytest.skip("running text has no columns")
    bad = tmp_path / Path(source).name
    if (folder / source).is_dir():
        bad.mkdir()
        bad = bad / "train.tsv" if name == "translation" else bad / "only" / "1.png"
        bad.parent.mkdir(exist_ok=True)
    bad.write_bytes(b"")
    if defect == "a folder":
        bad.unlink()
    BAD[defect](bad)
    _assert_refused(folder, command(EVERY[name].case, str(tmp_path / Path(source).name)))


@pytest.mark.parametrize(
    "setting",
    [
        ("--training.stepss", "4"),
        ("--steps", "-1"),
        ("--optimizer.lr", "nan"),
        ("--evaluation.metric", "luck"),
    ],
    ids=" ".join,
)
def test_bad_settings_are_refused_and_nothing_is_written(setting, name, folder):
    _assert_refused(folder, [*command(EVERY[name].case), *setting])


def test_one_class_only_is_refused(name, folder, tmp_path):
    content = EVERY[name].one_class
    if content is None:
        pytest.skip("there are no classes, or one is enough")
    bad = tmp_path / RUNS[EVERY[name].case].train[0]
    bad.write_text(content)
    _assert_refused(folder, command(EVERY[name].case, str(bad)))


def test_another_tasks_model_is_refused(name, folder, tmp_path):
    model_folder = tmp_path / "other"
    arguments = [
        word.replace("{run}", str(model_folder)) for word in RUNS[EVERY[name].case].prediction
    ]
    (answerer() if arguments[0] == "tag" else tagger()).save(model_folder)
    refused = headway(*arguments, cwd=folder, check=None)
    assert refused.returncode == 2 and " holds a" in refused.stderr, refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_model_of_a_family_that_no_task_opens_is_refused(name, folder, run, tmp_path):
    model_folder = tmp_path / "other"
    library.load(run).save(model_folder)
    config = json.loads((model_folder / "config.json").read_text())
    (model_folder / "config.json").write_text(json.dumps({**config, "family": "oracle"}))
    (model_folder / "MANIFEST.json").unlink()
    arguments = [
        word.replace("{run}", str(model_folder)) for word in RUNS[EVERY[name].case].prediction
    ]
    refused = headway(*arguments, cwd=folder, check=None)
    assert refused.returncode == 3 and "oracle" in refused.stderr


def test_a_truncated_model_folder_is_refused(name, folder, run, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(run / "model", model)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    arguments = [word.replace("{run}", str(model)) for word in RUNS[EVERY[name].case].prediction]
    refused = headway(*arguments, cwd=folder, check=None)
    assert refused.returncode == 3 and "model.safetensors" in refused.stderr
    assert "Traceback" not in refused.stderr


def _assert_refused(folder: Path, arguments: list[str]) -> None:
    before = sorted(folder.rglob("*"))
    refused = headway(*arguments, "--run", "refused", "--quiet", cwd=folder, check=None)
    assert refused.returncode in (2, 3), refused.stdout + refused.stderr
    assert refused.stderr.startswith("error: ") and "Traceback" not in refused.stderr
    assert "headway-error.log" not in refused.stderr, refused.stderr
    assert sorted(folder.rglob("*")) == before


def test_recipes_of_a_task_are_looked_up_by_its_name(name, folder):
    assert type(recipe(name)) is task(name).config


@pytest.mark.turns(5)
def test_its_variants_are_compared(name, folder):
    arguments = ["compare", *command(EVERY[name].case)[1:], "--steps", "2", "--run", "compared"]
    varied = ["--vary", "training.seed=1,2", "--evaluation.every", "2", "--json", "--quiet"]
    report = json.loads(headway(*arguments, *varied, cwd=folder).stdout)
    assert "seed=1" in json.dumps(report) and "seed=2" in json.dumps(report)
