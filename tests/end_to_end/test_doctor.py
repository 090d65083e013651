"""`headway doctor --measure` and the kind of a machine."""

import json

import pytest
import torch

from headway.base import devices
from headway.cli import doctor, measure
from tests.fixtures.command_line import headway

TINY = measure.Sizes(
    read=2**14,
    inputs=64,
    outputs=48,
    rows=5,
    seconds=0.0,
    sentences=60,
    training=0.0,
    warm_up=1,
    tokens=4,
)
WIDTH = {"model.model_dim": 24, "model.num_heads": 3, "model.ffn_dim": 48}
RECIPES = {
    "translate": {
        **WIDTH,
        "model.encoder_layers": 1,
        "model.decoder_layers": 1,
        "data.vocabulary": 300,
        "training.tokens": 200,
    },
    "gpt": {
        "model.size": "tiny",
        "data.vocabulary": 300,
        "training.length": 16,
        "training.batch_size": 3,
    },
}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(measure, "SIZES", TINY)
    monkeypatch.setattr(measure, "RECIPES", RECIPES)


def test_doctor_measures_reading_products_training_writing_and_what_auto_chooses(tiny, tmp_path):
    done = headway("doctor", "--measure", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["kind"] in [*doctor.KINDS.values(), doctor.OTHER_KIND]
    assert "1 thread" in found["reads"] and min(found["reads"].values()) > 0
    assert [product["numbers"] for product in found["products"]] == [*measure.NUMBERS]
    assert all(p["read"] > 0 and p["share"] > 0 and p["computed"] > 0 for p in found["products"])
    assert [(t["recipe"], t["rate"] > 0) for t in found["training"]] == [
        ("translate", True),
        ("gpt", True),
    ]
    assert all(found["writing"][name] > 0 for name in measure.NUMBERS)
    chosen = {choice["setting"]: choice for choice in found["auto"]}
    assert chosen["dtype, training"]["value"] == found["training"][1]["dtype"]
    assert all(choice["reason"] for choice in chosen.values())
    for what in ("a plain read", "in int4", "the recipe translate", "the recipe gpt, in int8"):
        assert any("measure " in line and what in line for line in done.stderr.split("\n")), what
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_doctor_has_every_figure(tiny, tmp_path):
    shown = headway("doctor", "--measure", cwd=tmp_path).stdout.split("\n")
    first = [line.split()[0] for line in shown if line and not line.startswith(" ")]
    assert first[:2] == ["kind", "plain"]
    assert first.count("int4") == first.count("float32") == 2
    assert {"translate", "gpt", "device", "threads,"} <= {*first}
    assert not any(line.endswith(" ") for line in shown)


@pytest.mark.parametrize(
    ("capability", "limit", "flags", "kind"),
    [
        ("AVX2", "", "avx2", "avx2"),
        ("AVX2", "", "avx512f avx512_bf16", "avx2"),  # ATEN_CPU_CAPABILITY=avx2
        ("AVX512", "AVX2", "avx512f avx512_bf16", "avx2"),
        ("AVX512", "", "avx512f avx512_bf16", "bfloat16"),
        ("AVX512", "AVX512_CORE", "avx512f avx512_bf16", "avx512"),
        ("AVX512", "", "avx512f", "avx512"),
        ("DEFAULT", "", "asimd bf16", "bfloat16"),
        ("DEFAULT", "", "asimd", None),
    ],
)
def test_the_kind_of_a_machine_follows_from_its_instructions_and_their_limits(
    capability, limit, flags, kind, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    monkeypatch.setattr(devices.Path, "read_text", lambda path, **how: f"flags : {flags}\n")
    devices.bfloat16_instructions.cache_clear()
    try:
        assert doctor.machine_kind() == (doctor.OTHER_KIND if kind is None else doctor.KINDS[kind])
    finally:
        devices.bfloat16_instructions.cache_clear()
