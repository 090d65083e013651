"""`make gpu` on the CPU: every implementation runs, and without a GPU nothing is measured."""

import json
from dataclasses import replace

import pytest
import torch
from bench import gpu, gpu_training
from bench.plain_gpt import Generator, PlainGPT

from headway.models import GPTConfig

SMALL = replace(gpu.DRY, written=2, batches=(2,))


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # by the compiler
def test_every_implementation_of_every_claim_runs_on_tiny_sizes():
    measurement, rates = gpu.measure(SMALL, gpu.CLAIMS, seconds=60)
    assert not measurement.failures
    assert rates.matrix_rate > 0 and rates.bandwidth > 0
    compared_with_the_device = {r.name for r in measurement.rows if r.peer_name == "the device"}
    kinds = ["training gpt2-small", "training gpt2-medium"]
    kinds += ["generation gpt2-small", "generation gpt2-xl", "translation 6+6 x 512"]
    for kind in kinds:
        assert any(name.startswith(kind) for name in compared_with_the_device), kind
    peers = {r.peer_name for r in measurement.rows}
    assert {"plain loop compiled", "transformers compiled", "transformers static cache"} <= peers
    sides = {r.name.rpartition(", ")[2] for r in measurement.rows}
    assert {"Headway compiled", "Headway without graphs", "Headway by graphs"} <= sides


def test_a_training_in_float8_is_measured_where_the_device_has_it(monkeypatch):
    monkeypatch.setattr(gpu_training, "float8_obstacle", lambda device: None)
    measurement, _ = gpu.measure(SMALL, ["training-124m"], seconds=60)
    assert not measurement.failures
    assert any(r.name.endswith("Headway float8") for r in measurement.rows)


def test_a_failing_implementation_is_listed_and_the_rest_are_measured():
    def broken():
        raise RuntimeError("no such kernel")

    measurement = gpu.Measurement(SMALL, seconds=60)
    sides = {"Headway": lambda: lambda: None, "plain loop": lambda: broken}
    measurement.compare("work", sides, 8, "tokens/s", (1e3, 0.5))
    assert [r.name for r in measurement.rows] == ["work, Headway"]
    assert "no such kernel" in measurement.failures["work, plain loop"]


def test_sides_are_left_out_by_a_part_of_their_name():
    scale = replace(SMALL, without=("plain", "transformers", "graphs"))
    measurement, _ = gpu.measure(scale, ["decoding-124m"], seconds=60)
    sides = {r.name.rpartition(", ")[2] for r in measurement.rows}
    assert sides == {"Headway", "Headway greedy search"} and not measurement.failures


def test_a_claim_that_did_not_start_in_time_is_a_failure():
    measurement, _ = gpu.measure(SMALL, ["training-124m"], seconds=0)
    assert measurement.rows == [] and "the time was over" in measurement.failures["training-124m"]


def test_results_of_several_calls_are_joined_only_on_the_same_device(tmp_path):
    measurement, rates = gpu.measure(SMALL, ["decoding-124m"], seconds=60)
    path = tmp_path / "gpu.json"
    path.write_text(gpu._results(path, measurement, rates, ["--only", "decoding-124m"]))
    saved = json.loads(path.read_text())
    later, _ = gpu.measure(SMALL, ["training-124m"], seconds=60)
    joined = json.loads(gpu._results(path, later, rates, []))
    assert len(joined["rows"]) == len(saved["rows"]) + len(later.rows)
    repeated = json.loads(gpu._results(path, measurement, rates, []))
    assert len(repeated["rows"]) == len(saved["rows"])
    later.device = "another"
    replaced = json.loads(gpu._results(path, later, rates, []))
    assert len(replaced["rows"]) == len(later.rows)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_measured(capsys):
    assert gpu.main([]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "No CUDA device is available, so nothing was measured.\n"


def test_the_plain_loop_generates_the_same_tokens_with_and_without_a_cache():
    config = GPTConfig(
        model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, vocabulary=37, max_length=16
    )
    model = PlainGPT(config).eval()
    prompts = torch.randint(37, (2, 5))
    generator = Generator(model, 2, 12, compiled=False)
    generator(prompts.flip(0), 7)  # the cache of an earlier call must not change the output
    chosen = generator(prompts, 7)
    text = prompts
    for _ in range(7):
        at = torch.arange(text.shape[1])
        text = torch.cat([text, model._logits(text, at, None)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(chosen, text[:, 5:])
