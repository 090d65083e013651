"""`make gpu` without a GPU: every side runs, the plain loop is right, and there are no figures."""

import json
from dataclasses import replace

import pytest
import torch
from bench import gpu
from bench.plain_gpt import Generator, PlainGPT

from headway.models import GPTConfig

SMALL = replace(gpu.DRY, written=2, batches=(2,))


def test_every_side_of_every_claim_runs_on_tiny_sizes():
    found, rates = gpu.measure(SMALL, gpu.CLAIMS, seconds=60)
    assert not found.failures
    assert rates.matrix_rate > 0 and rates.bandwidth > 0
    beside_the_device = {r.name for r in found.rows if r.peer_name == "the device"}
    kinds = ["training gpt2-small", "training gpt2-medium", "training translator big"]
    for kind in [*kinds, "generation gpt2-small", "generation gpt2-xl"]:
        assert any(name.startswith(kind) for name in beside_the_device), kind
    assert {"plain loop compiled", "transformers compiled"} <= {r.peer_name for r in found.rows}


def test_a_side_that_fails_is_named_and_the_others_are_measured():
    def broken():
        raise RuntimeError("no such kernel")

    measurement = gpu.Measurement(SMALL, seconds=60)
    sides = {"Headway": lambda: lambda: None, "plain loop": lambda: broken}
    measurement.compare("work", sides, 8, "tokens/s", (1e3, 0.5))
    assert [r.name for r in measurement.rows] == ["work, Headway"]
    assert "no such kernel" in measurement.failures["work, plain loop"]


def test_what_is_not_begun_in_time_is_named():
    found, _ = gpu.measure(SMALL, ["training-124m"], seconds=0)
    assert found.rows == [] and "the time was over" in found.failures["training-124m"]


def test_results_of_a_day_are_gathered_on_one_device(tmp_path):
    found, rates = gpu.measure(SMALL, ["decoding-124m"], seconds=60)
    path = tmp_path / "gpu.json"
    path.write_text(gpu._results(path, found, rates, ["--only", "decoding-124m"]))
    first = json.loads(path.read_text())
    again, _ = gpu.measure(SMALL, ["training-124m"], seconds=60)
    second = json.loads(gpu._results(path, again, rates, []))
    assert len(second["rows"]) == len(first["rows"]) + len(again.rows)
    assert len(json.loads(gpu._results(path, found, rates, []))["rows"]) == len(first["rows"])
    again.device = "another"
    assert len(json.loads(gpu._results(path, again, rates, []))["rows"]) == len(again.rows)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_there_are_no_figures(capsys):
    assert gpu.main([]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err == "No CUDA device is available, so nothing was measured.\n"


def test_the_plain_loop_generates_with_its_cache_what_it_would_without():
    config = GPTConfig(
        model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, vocabulary=37, max_length=16
    )
    model = PlainGPT(config).eval()
    prompts = torch.randint(37, (2, 5))
    generator = Generator(model, 2, 12, compiled=False)
    generator(prompts.flip(0), 7)  # what an earlier call left in the cache is not seen
    chosen = generator(prompts, 7)
    text = prompts
    for _ in range(7):
        at = torch.arange(text.shape[1])
        text = torch.cat([text, model._logits(text, at, None)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(chosen, text[:, 5:])
