"""`python -m bench.scaling`: a small version of it runs, and a curve that bends is named."""

import pytest
from bench import scaling
from bench.scaling import Curve, Point

SIZES = (100, 200, 400, 800)


def curve(time, memory=None, memory_theory=None):
    points = [Point(n, time(n), None if memory is None else memory(n)) for n in SIZES]
    return Curve(name="layers", points=points, time=float, memory=memory_theory)


def test_a_curve_that_grows_as_its_theory_or_less_has_no_fault():
    assert curve(lambda n: 3.0 * n).bends() == {"time": pytest.approx(0)}
    assert not curve(lambda n: 3.0 * n).faults()
    assert not curve(lambda n: 500 + 3.0 * n).faults()  # fixed costs


def test_a_curve_that_bends_is_named_with_its_exponent():
    (fault,) = curve(lambda n: 1e-3 * n**2).faults()
    assert "time over layers" in fault and "n^1.00" in fault


def test_memory_that_grows_is_named_although_time_is_linear():
    def constant(n):
        return 1.0

    flat, growing = (
        curve(float, memory, constant) for memory in (lambda n: 5e8, lambda n: 1e6 * n)
    )
    assert not flat.faults()
    (fault,) = growing.faults()
    assert "memory over layers" in fault
    assert growing.rows()[1] == (
        "| layers | 100 · 200 · 400 · 800 | 95 · 191 · 381 · 763 MiB | +1.00 |"
    )


def test_a_bent_curve_makes_the_exit_code_1(monkeypatch, capsys):
    bent, straight = curve(lambda n: float(n**3)), curve(float)
    monkeypatch.setattr(scaling, "corpus_curve", lambda plan, folder: straight)
    monkeypatch.setattr(scaling, "training_curves", lambda plan: iter([bent]))
    monkeypatch.setattr(scaling, "decoding_curve", lambda plan: straight)
    assert scaling.main(["--small"]) == 1
    assert "time over layers" in capsys.readouterr().err
    monkeypatch.setattr(scaling, "training_curves", lambda plan: iter([]))
    assert scaling.main(["--small"]) == 0


@pytest.mark.slow
def test_the_small_version_measures_every_curve(capsys):
    """Its times are too short to judge; its memory must follow the theory."""
    scaling.main(["--small", "--size", "2e5"])
    out, err = capsys.readouterr()
    assert "memory" not in err
    for name in ("bytes of text", "sequence length", "batch size", "layers", "width", "position"):
        assert f"| {name}" in out


def test_a_generated_text_has_the_requested_size(tmp_path):
    scaling.write_text(tmp_path / "t.txt", 1_200_000)
    text = (tmp_path / "t.txt").read_text()
    assert len(text) == 1_200_000
    assert len(set(text.split())) < 8000  # the tokenizer's memory does not grow with the text
