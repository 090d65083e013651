"""`--dry-run` and `--find-lr` try every recipe, and save nothing.

A dry run limits the evaluation of every recipe, whatever it is evaluated on.
"""

import json
import shlex
import shutil
from collections import Counter
from functools import partial

import pytest
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from headway.base.settings import flat
from headway.base.sharing import Interrupted
from headway.cli.main import main
from headway.runs import DryRun, recipes, saved
from headway.runs.dry_run import EvaluationLimit
from headway.training import StopRequest
from tests.safety_net.cases import CASES, with_prerequisites
from tests.safety_net.tiny_data import write_all

QUICK = ("translate", "words", "gpt-tiny", "bert-tiny", "vision", "caption")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    data_folder = tmp_path_factory.mktemp("dry")
    write_all(data_folder)
    return data_folder


def headway(*arguments):
    try:
        main(list(arguments))
    except SystemExit as leaving:
        assert not leaving.code, arguments


def train_prerequisites(name, folder):
    """Train the models that the case starts from, for two steps each."""
    for before in with_prerequisites(CASES[name].after):
        if not (folder / "runs" / before / "model").exists():
            headway("train", *_words(before), "--run", before, "--steps", "2", "--quiet")


def _words(name):
    return CASES[name].recipe, *CASES[name].train


class Evaluated:
    """Counts how often each module ran outside training: at most once per batch, except in
    token-by-token decoding."""

    def __init__(self):
        self.calls = Counter()

    def __call__(self, module, inputs):
        if not module.training and not torch.is_grad_enabled():
            self.calls[module] += 1


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in recipes()]
)
def test_a_dry_run_evaluates_no_more_batches_than_its_limit(name, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HEADWAY_DATA", raising=False)
    train_prerequisites(name, folder)
    monkeypatch.setattr("headway.cli.train.DryRun", partial(DryRun, steps=1, batches=0))
    evaluated = Evaluated()
    with register_module_forward_pre_hook(evaluated):
        headway("train", *_words(name), "--evaluation.every", "1", "--run", "dry", "--dry-run")
    assert max(evaluated.calls.values(), default=0) <= 1
    output = capsys.readouterr().err
    assert "dry run   no evaluation" in output and "steps, without evaluations" in output
    assert not (folder / "runs" / "dry").exists()


@pytest.mark.parametrize(
    "name", [n if n == "gpt-tiny" else pytest.param(n, marks=pytest.mark.slow) for n in recipes()]
)
def test_learning_rates_are_tested_and_the_command_trains_with_the_suggested_one(
    name, folder, monkeypatch, capsys
):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HEADWAY_DATA", raising=False)
    train_prerequisites(name, folder)
    capsys.readouterr()
    headway("train", *_words(name), "--run", "tried", "--find-lr", "--json")
    found = json.loads(capsys.readouterr().out)
    rates = found["rates"]
    assert len(rates) == len(found["losses"]) > 5 and rates == sorted(rates)
    assert rates[0] == pytest.approx(found["recipe"] / 1000)
    assert not (folder / "runs" / "tried").exists()
    if found["command"] is None:
        assert "did not fall" in found["reason"]
        return
    headway(*shlex.split(found["command"]), "--steps", "2", "--quiet")
    assert flat(saved(folder / "runs" / "tried"))["optimizer.lr"] == float(f"{found['rate']:.2g}")
    shutil.rmtree(folder / "runs" / "tried")


def test_a_training_after_a_test_of_rates_has_the_bits_of_one_without(folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = ("train", *_words("gpt-tiny"), "--steps", "12", "--quiet", "--run")
    headway(*words, "before")
    headway(*words, "after", "--find-lr")
    headway(*words, "after")
    weights = [
        (folder / "runs" / run / "model" / "model.safetensors").read_bytes()
        for run in ("before", "after")
    ]
    assert weights[0] == weights[1]


def test_an_evaluation_stops_after_its_batches_and_the_next_one_counts_anew():
    limit = EvaluationLimit(StopRequest(), batches=2)
    for _ in range(2):
        called = limit.from_here()
        called(), called(7)
        with pytest.raises(Interrupted) as cut:
            called()
        assert cut.value.stop == "dry run"


def test_a_request_to_stop_is_reported_as_an_interruption():
    request = StopRequest()
    called = EvaluationLimit(request).from_here()
    for _ in range(100):
        called()
    request.signal = 2
    with pytest.raises(Interrupted) as cut:
        called()
    assert cut.value.stop == "interrupted"


@pytest.mark.parametrize("name", recipes())
def test_a_dry_run_changes_nothing_that_a_step_depends_on(name):
    config = recipes()[name]()
    before, after = flat(config), flat(DryRun().configured(config))
    changed = {key for key in before if before[key] != after[key]}
    assert changed <= {"training.time", "evaluation.every"}
    assert after["evaluation.every"] > DryRun().steps
