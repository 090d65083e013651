"""`headway quantize`, and what other commands do with a model of small numbers."""

import json

import pytest
import torch
from safetensors.torch import load_file

import headway
from headway.transforms import is_quantized
from headway.transforms.fast import loops
from tests.fixtures import bundles
from tests.fixtures.command_line import headway as run_headway

TEXTS = "".join(f"{text}\n" for text in bundles.TEXTS)
SHAPE = {"model_dim": 48, "ffn_dim": 64}


@pytest.fixture
def folder(tmp_path):
    bundles.gpt(**SHAPE).save(tmp_path / "gpt")
    (tmp_path / "texts.txt").write_text(TEXTS)
    return tmp_path


@pytest.mark.parametrize("to", ["int8", "int4", "bfloat16"])
def test_the_small_model_is_written_beside_the_run_and_its_size_is_printed(folder, to):
    printed = run_headway("quantize", "gpt", "--to", to, "--json", cwd=folder)
    sizes = json.loads(printed.stdout)
    assert sizes["folder"] == f"gpt/{to}"
    size = (folder / "gpt" / to / "model.safetensors").stat().st_size
    assert sizes["bytes"] == size < 0.7 * sizes["float32_bytes"]
    contents = json.loads((folder / "gpt" / to / "config.json").read_text())
    assert contents["numbers"] == to
    words = ("generate", f"gpt/{to}", "the fox", "--max-tokens", "5", "--temperature", "0")
    assert run_headway(*words, cwd=folder).stdout
    message = run_headway("quantize", f"gpt/{to}", cwd=folder, check=2).stderr
    assert f"quantised to {to} already" in message


def test_calibration_texts_change_the_rounding_of_int4(folder):
    nearest = ("quantize", "gpt", "--to", "int4", "--group", "64")
    run_headway(*nearest, "--output", "a", cwd=folder)
    run_headway(*nearest, "--output", "b", "--calibration", "texts.txt", cwd=folder)
    paths = [folder / name / "model.safetensors" for name in "ab"]
    nearest_codes, codes = (load_file(path) for path in paths)
    assert any(not torch.equal(codes[name], value) for name, value in nearest_codes.items())
    assert paths[0].stat().st_size == paths[1].stat().st_size
    words = ("generate", "b", "the fox", "--max-tokens", "5", "--temperature", "0")
    assert run_headway(*words, cwd=folder).stdout


def test_wrong_requests_are_refused_before_anything_is_written(folder):
    bundles.image_encoder(model_dim=32, num_heads=4).save(folder / "vit")
    (folder / "full").mkdir()
    (folder / "full" / "file").write_text("mine")
    (folder / "empty.txt").write_text("\n\n")
    for words, code, reason in [
        (("gpt", "--to", "int3"), 2, "int8"),
        (("gpt", "--group", "20"), 2, "32"),
        (("gpt", "--output", "full"), 2, "full exists already"),
        (("gpt", "--to", "bfloat16", "--calibration", "texts.txt"), 2, "not to bfloat16"),
        (("gpt", "--to", "int8", "--calibration", "texts.txt"), 2, "not to int8"),
        (("gpt", "--to", "int4", "--calibration", "none.txt"), 2, "none.txt"),
        (("gpt", "--to", "int4", "--calibration", "empty.txt"), 3, "has no text"),
        (("vit", "--to", "int4", "--calibration", "texts.txt"), 2, "inputs are images"),
        (("nowhere",), 2, "there is no such folder"),
    ]:
        message = run_headway("quantize", *words, cwd=folder, check=code).stderr
        assert reason in " ".join(message.split()), words
        assert not (folder / "gpt" / "int8").exists() and not (folder / "gpt" / "int4").exists()
    assert (folder / "full" / "file").read_text() == "mine"


def test_training_starts_from_float32_weights_and_export_writes_them(folder):
    run_headway("quantize", "gpt", "--to", "int8", cwd=folder)
    words = ("train", "gpt", "texts.txt", "--from", "gpt/int8", "--run", "tuned", "--steps", "2")
    small = ("--training.batch-size", "2", "--training.length", "8", "--valid", "texts.txt")
    run_headway(*words, *small, cwd=folder)
    assert not is_quantized(headway.load(folder / "runs" / "tuned").model)
    printed = run_headway("export", "gpt/int8", "--to", "hf", "--json", cwd=folder).stdout
    assert max(json.loads(printed)["difference"].values()) < 1e-5


@pytest.mark.turns(3)
@pytest.mark.parametrize("base", ["int8", "int4", "bfloat16"])
def test_adapters_are_trained_over_small_numbers_from_the_command_line(folder, base):
    words = ("train", "gpt", "texts.txt", "--from", "gpt", "--run", "tuned", "--steps", "3")
    small = ("--training.batch-size", "2", "--training.length", "8", "--valid", "texts.txt")
    adapters = ("--lora.rank", "2", "--lora.base", base)
    run_headway(*words, *small, *adapters, cwd=folder)
    tuned = headway.load(folder / "runs" / "tuned")
    assert not is_quantized(tuned.model)
    run_headway("train", "--resume", "runs/tuned", "--steps", "5", cwd=folder)


def test_doctor_names_the_products_of_this_machine():
    from pathlib import Path

    properties = json.loads(run_headway("doctor", "--json", cwd=Path.cwd()).stdout)
    assert properties["compiled loops"] == loops.description()
    assert properties["Triton kernels"] == "none: they are for NVIDIA GPUs"
