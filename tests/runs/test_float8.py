"""A run in float8: refused where the device lacks it; otherwise an ordinary run with its model."""

import pytest
import torch

from headway import load
from headway.base import devices
from headway.base.devices import Machine, MachineConfig, float8_obstacle, prepare
from headway.base.errors import UsageError
from headway.base.metrics_file import read_metrics
from headway.runs import saved, train
from headway.transforms.float8 import Float8Linear
from tests.fixtures.command_line import headway
from tests.fixtures.language_model_runs import STORY, configured, weights

FLOAT8 = {
    "machine.dtype": "float8",
    "model.model_dim": 32,
    "model.ffn_dim": 48,
    "training.average": 0.9,
}


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    return str(path)


@pytest.fixture
def with_float8(monkeypatch):
    """As if this CPU multiplied float8; torch computes the numbers on it."""
    monkeypatch.setattr(devices, "float8_obstacle", lambda device: None)


def test_a_run_saves_an_ordinary_model(with_float8, story, tmp_path):
    config = configured(story, **FLOAT8)
    events = []
    train(config, tmp_path / "run", listeners=[events.append])
    assert not [e for e in events if e["kind"] == "note" and "float8" in e["text"]]
    plan = next(e for e in events if e["kind"] == "plan")
    assert plan["machine"] == "cpu (1 thread) · float8"
    assert saved(tmp_path / "run").machine.dtype == "float8"
    train(configured(story, **{**FLOAT8, "machine.dtype": "bfloat16"}), tmp_path / "narrow")
    tensors, narrow = weights(tmp_path / "run"), weights(tmp_path / "narrow")
    assert {name: t.shape for name, t in tensors.items()} == {n: t.shape for n, t in narrow.items()}
    assert {t.dtype for t in tensors.values()} == {torch.float32}
    assert any(not torch.equal(t, narrow[name]) for name, t in tensors.items())
    losses = [
        [row["nats"] for row in read_metrics(tmp_path / name / "metrics.jsonl", "valid")]
        for name in ("run", "narrow")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)
    model = load(tmp_path / "run").model
    assert not any(isinstance(module, Float8Linear) for module in model.modules())


def test_a_resumed_run_has_the_bits_of_one_without_a_pause(with_float8, story, tmp_path):
    train(configured(story, **FLOAT8), tmp_path / "straight")
    train(configured(story, **FLOAT8, training__steps=3), tmp_path / "paused")
    train(configured(story, **FLOAT8), tmp_path / "paused")
    straight, paused = weights(tmp_path / "straight"), weights(tmp_path / "paused")
    assert all(torch.equal(tensor, paused[name]) for name, tensor in straight.items())


def test_layers_that_stay_in_bfloat16_are_named_in_one_line(with_float8, story, tmp_path):
    events = []
    config = configured(story, **{**FLOAT8, "model.ffn_dim": 40})
    train(config, tmp_path / "run", listeners=[events.append])
    notes = [e["text"] for e in events if e["kind"] == "note" and "float8" in e["text"]]
    assert len(notes) == 1 and "6 have a size that is not a multiple of 16" in notes[0]


def test_a_model_without_a_layer_for_float8_is_refused_and_leaves_no_folder(
    with_float8, story, tmp_path
):
    with pytest.raises(UsageError, match="float8 has nothing to multiply"):
        train(configured(story, **{**FLOAT8, "model.model_dim": 24}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_device_without_float8_is_refused_with_the_dtypes_that_work(monkeypatch):
    with pytest.raises(UsageError, match=r"8\.9 or higher, but the device is cpu") as caught:
        prepare(MachineConfig(device="cpu", dtype="float8"))
    assert caught.value.hint == "--dtype bfloat16 or --dtype float32"
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A100")
    for capability, obstacle in (((8, 0), "A100 has 8.0"), ((8, 9), None), ((12, 0), None)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda c=capability: c)
        assert float8_obstacle("cuda") == obstacle
    monkeypatch.setattr(torch.version, "cuda", None)
    assert float8_obstacle("cuda") == "this torch is built for other GPUs"
    assert float8_obstacle("mps") == "the device is mps"


def test_the_command_refuses_float8_before_it_prepares_the_data(story, tmp_path):
    words = ("train", "gpt-tiny", story, "--dtype", "float8", "--device", "cpu")
    done = headway(*words, cwd=tmp_path, check=2)
    assert "machine.dtype=float8" in done.stderr and "--dtype bfloat16" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_commands_that_use_a_model_refuse_float8(tmp_path):
    done = headway("generate", "runs/x", "a", "--dtype", "float8", cwd=tmp_path, check=2)
    assert "--dtype float8 is for training" in done.stderr


def test_the_rest_of_a_training_in_float8_is_computed_in_bfloat16():
    x = torch.ones(3, 5)
    with Machine("cpu", "float8", 1).precision():
        assert (x @ x.T).dtype == torch.bfloat16
