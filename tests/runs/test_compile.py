"""torch.compile: which code it traces, and that a compiled run has the same losses."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.attention import Additive, Mask, ScaledDot
from headway.blocks.dropout import Dropout
from headway.errors import UsageError
from headway.machine import MachineConfig, prepare
from headway.transforms.fast import FusedDot, fast
from headway.transforms.fast import dot as fused
from headway.transforms.fast import linear as products
from headway.transforms.fast.linear import linear
from tests.fixtures.command_line import ROOT, write_corpus

TINY = {
    "training.steps": 4,
    "training.seed": 5,
    "evaluation.every": 4,
    "schedule.warmup": 2,
    "machine.threads": 1,
    "machine.device": "cpu",
    "model.dropout": 0.0,  # compiled, torch's own is used, which samples otherwise
}
LANGUAGE = {
    "model.model_dim": 96,
    "model.num_heads": 2,
    "model.num_layers": 1,
    "model.ffn_dim": 200,
    "data.vocabulary": 290,
    "training.batch_size": 8,
    "training.length": 40,
    "evaluation.sample": 0,
}
TRANSLATION = {
    "model.model_dim": 24,
    "model.num_heads": 3,
    "model.ffn_dim": 40,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.attention": "additive",
    "data.source": "en",
    "data.target": "de",
    "data.vocabulary": 300,
    "training.tokens": 220,
    "evaluation.sentences": 1,
    "evaluation.metric": "nats",
}


@pytest.fixture
def compiling(monkeypatch):
    """As if torch.compile were tracing."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


def test_products_are_torchs_own_while_compiling(compiling, monkeypatch):
    monkeypatch.setattr(products, "_onednn", None)  # would fail if it were called
    x = torch.randn(6, 40, 96, requires_grad=True)
    weight = torch.randn(80, 96, requires_grad=True)
    assert linear(x, weight).grad_fn.name() != "_LinearBackward"
    assert_close(linear(x, weight), F.linear(x, weight))


def test_attention_has_no_backward_of_ours_while_compiling(compiling, monkeypatch):
    monkeypatch.setattr(fused, "_ShortAttention", None)
    q, k, v = (torch.randn(2, 3, n, 16) for n in (5, 7, 7))
    for mask in (Mask(), Mask(causal=True)):
        assert_close(FusedDot()(q, k, v, mask), ScaledDot()(q, k, v, mask))


def test_additive_scores_are_the_equation_while_compiling(monkeypatch):
    kernel = fast(Additive(3, 16, 16, 5))
    q, k = torch.randn(2, 3, 5, 16), torch.randn(2, 3, 7, 16)
    expected = kernel.scores(q, k)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    scores = kernel.scores(q, k)
    assert_close(scores, expected, rtol=1e-5, atol=1e-5)
    assert "_ChunkedScores" not in scores.grad_fn.name()


def test_dropout_is_torchs_own_while_compiling(compiling):
    x = torch.ones(50, 7)
    layer = fast(Dropout(0.3))
    torch.manual_seed(1)
    dropped = layer(x)
    torch.manual_seed(1)
    assert torch.equal(dropped, F.dropout(x, 0.3))


def test_a_machine_without_a_compiler_is_refused_before_training(monkeypatch):
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", (None, "no-such-compiler"))
    with pytest.raises(UsageError, match=r"needs a C\+\+ compiler") as caught:
        prepare(MachineConfig(device="cpu", compile=True, threads=1))
    assert "without --compile" in caught.value.hint
    prepare(MachineConfig(device="cpu", threads=1))


PROGRAM = """
import json, sys
from pathlib import Path
from headway.runs import recipe, train

class Losses(list):
    def after_step(self, run, report):
        self.append(report.loss)

name, settings, folder = json.loads(sys.argv[1])
for compiled in (False, True):
    losses = Losses()
    config = recipe(name, ("test", {**settings, "machine.compile": compiled}))
    outcome = train(config, Path(folder) / str(compiled), observers=[losses])
    print(json.dumps([*losses, outcome.best]))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("name", ["gpt-tiny", "translate"])
def test_a_compiled_run_has_the_losses_of_an_uncompiled_one(tmp_path, name):
    """In a process without the tests' checks of shapes, which the compiler cannot trace."""
    if name == "translate":
        settings = {**TINY, **TRANSLATION, "data.train": str(write_corpus(tmp_path / "data"))}
    else:
        (tmp_path / "t.txt").write_text("".join(f"{i} and {i * i}.\n" for i in range(300)))
        settings = {**TINY, **LANGUAGE, "data.train": str(tmp_path / "t.txt")}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([name, settings, str(tmp_path)])],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.returncode == 0, process.stderr
    plain, compiled = (json.loads(line) for line in process.stdout.strip().split("\n"))
    assert len(plain) == 5
    assert compiled == pytest.approx(plain, abs=2e-4)
