"""The claims beside CTranslate2 and onnxruntime, at tiny sizes and without these packages."""

import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from bench import __main__ as command
from bench import decoding, encoders
from bench.commands import Ran
from bench.decoding import CASES
from bench.report import RowsOfDay
from bench.sides import Settings


def side(claim, name, folder=""):
    """A side that computes in this process."""
    settings = Settings(claim="", side=name, folder=str(folder), threads=1, allocator=False, work=1)
    worker = getattr(claim, name)(settings)
    return SimpleNamespace(name=f"claim, {name}", ask=lambda **question: worker(question))


def under_the_name(copied, name):
    """The same side under a peer's name."""
    return SimpleNamespace(name=f"claim, {name}", ask=copied.ask)


@pytest.fixture
def tiny_decoders(monkeypatch):
    size = {"model_dim": 48, "num_heads": 3, "ffn_dim": 80}
    models = {
        "gpt": {**size, "num_layers": 2, "vocabulary": 61, "max_length": 80},
        "translator": {
            **size,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "norm": "post",
            "source_vocabulary": 53,
            "target_vocabulary": 53,
        },
    }
    monkeypatch.setattr(decoding, "MODELS", models)
    cases = {title: replace(case, batch=min(case.batch, 3)) for title, case in CASES.items()}
    monkeypatch.setattr(decoding, "CASES", cases)
    monkeypatch.setattr(decoding, "PROMPT", 5)
    monkeypatch.setattr(decoding, "WRITTEN", 4)
    monkeypatch.setattr(decoding, "LENGTH", 6)


@pytest.mark.filterwarnings("ignore")  # transformers' own
def test_decoding_beside_transformers_writes_the_same_words_and_states_the_bandwidth(
    tiny_decoders, tmp_path, monkeypatch
):
    ran = Ran([(1.0, "t1"), (2.0, " t2"), (3.0, " t3\n")], 4.0, 5.0, 6.0)
    monkeypatch.setattr(decoding, "run", lambda words, folder: ran)
    ours = side(decoding, "ours", tmp_path)
    peer = side(decoding, "transformers", tmp_path)
    rows = list(decoding.measure(ours, peer, 1, "cpu, 1 threads"))
    titles = [f"{title}, float32" for title in CASES]
    titles.insert(1, "headway generate, GPT-2 124 M, one text")
    titles.insert(2, "GPT-2 124 M, one text, float32, weights read")
    assert [r.name for r in rows] == titles
    assert all(r.ours > 0 and r.peer > 0 for r in rows)
    assert all(
        "100.0% of the tokens" in r.note
        for r in rows
        if "float32" in r.name and "weights" not in r.name
    )
    assert rows[1].whole == (4.0, 4.0) and rows[1].by == "command"
    assert len(ours.ask(case="GPT-2 124 M, one text", dtype="float32")["words"][0]) == 4


def test_int8_decoding_is_measured_in_int8(tiny_decoders, tmp_path):
    ours = side(decoding, "ours", tmp_path)
    rows = list(decoding.measure(ours, under_the_name(ours, "ctranslate2_int8"), 1, "cpu"))
    assert all(", int8" in r.name for r in rows) and len(rows) == 1 + len(CASES)
    question = {"case": decoding.ONE_TEXT, "read": True}
    small, large = (ours.ask(**question, dtype=dtype)["work"] for dtype in ("int8", "float32"))
    assert 2.5 < large / small < 5


def test_decoding_that_differs_in_float32_is_not_timed(tiny_decoders, tmp_path):
    ours = side(decoding, "ours", tmp_path)
    wrong = SimpleNamespace(
        name="claim, ctranslate2_float32",
        ask=lambda **question: {"words": [["-"] * decoding.WRITTEN]},
    )
    with pytest.raises(AssertionError, match=r"only 0\.0% of the tokens are those of CTranslate2"):
        list(decoding.measure(ours, wrong, 1, "cpu"))


def test_the_speed_of_a_command_that_writes_is_that_after_the_first_part():
    ran = Ran([(2.0, "t1"), (2.5, " t2"), (3.0, " t3 t4"), (4.0, "\n")], 5.0, 6.0, 7.0)
    answer = decoding._answer(ran)
    assert (answer["work"], answer["seconds"], answer["whole"]) == (3, 1.0, 5.0)


@pytest.fixture
def tiny_encoders(monkeypatch):
    size = {"model_dim": 24, "num_heads": 3, "ffn_dim": 40, "num_layers": 2}
    monkeypatch.setattr(encoders, "TEXT", {**encoders.TEXT, **size, "vocabulary": 61})
    monkeypatch.setattr(encoders, "IMAGE", {**size, "image_size": 8, "patch_size": 4})
    monkeypatch.setattr(encoders, "SENTENCES", 37)
    monkeypatch.setattr(encoders, "IMAGES", 3)


def test_encoders_are_measured_in_both_dtypes(tiny_encoders):
    ours = side(encoders, "ours")
    for name in encoders.PEERS:
        rows = list(encoders.measure(ours, under_the_name(ours, name), 1, "cpu"))
        dtype = name.rpartition("_")[2]
        assert [r.name for r in rows] == [f"{title}, {dtype}" for title in encoders.CASES]
        assert [r.unit for r in rows] == ["sentences/s", "images/s"]
        assert all(r.goal == 1.1 and r.ours > 0 for r in rows)
        agreement = "at most 0" if dtype == "float32" else "ours (0.99|1.00)"
        assert all(re.search(agreement, r.note) for r in rows), [r.note for r in rows]


def test_encoders_whose_vectors_differ_are_not_timed(tiny_encoders):
    ours = side(encoders, "ours")
    zeros = torch.zeros(encoders.SENTENCES, 24).tolist()
    wrong = SimpleNamespace(
        name="claim, onnxruntime_float32", ask=lambda **question: {"vectors": zeros}
    )
    with pytest.raises(RuntimeError, match="MiniLM, 256 sentences: the vectors differ by"):
        list(encoders.measure(ours, wrong, 1, "cpu"))


def test_a_peer_that_is_not_installed_is_skipped_with_one_line(monkeypatch, capsys, tmp_path):
    module = SimpleNamespace(
        PEERS=("missing_peer",), REQUIRES={"missing_peer": ("no_such_package_here", "sys")}
    )
    monkeypatch.setitem(sys.modules, "bench.decoding", module)
    options = SimpleNamespace(
        threads=1, quick=True, same_allocator=False, peers=None, cache=tmp_path
    )
    day = RowsOfDay(tmp_path / "rows.json", {})
    reason = "decoding beside missing_peer: not installed: no_such_package_here"
    found = command._measure("decoding", 1, options, day)
    assert found == [command.NotMeasured(reason)]
    message = "decoding beside missing_peer is skipped: not installed: no_such_package_here\n"
    assert capsys.readouterr().err == message
