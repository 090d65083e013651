"""Commands that are measured: their output, cost and failures; and the rows of `headway train`."""

import json
import sys
from types import SimpleNamespace

import pytest
from bench import commands, defaults, goals, start, training
from bench.commands import print_rates, run, steady
from bench.sides import Settings

from tests.fixtures.sentence_pairs import PAIRS, table


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_command_has_its_output_with_times_and_its_cost(tmp_path):
    code = "import sys, time; print(input(), flush=True); time.sleep(0.2); print('end')"
    (tmp_path / "given").write_text("first\n")
    ran = run(python(code), tmp_path, read=tmp_path / "given", log=tmp_path / "log")
    assert ran.text == "first\nend\n"
    assert ran.parts[-1][0] - ran.parts[0][0] > 0.15 and ran.seconds > ran.parts[-1][0]
    assert ran.megabytes > 1 and set(ran.cost) == {"cpu_seconds", "wall_seconds"}
    answer = ran.answer(6, 2.0, run="r")
    assert answer["whole"] == ran.seconds and (answer["work"], answer["run"]) == (6, "r")


def test_a_command_that_fails_is_an_error_with_its_last_messages(tmp_path):
    code = "import sys; print('why', file=sys.stderr); sys.exit(3)"
    with pytest.raises(RuntimeError, match=r"ended with 3: why"):
        run(python(code), tmp_path)


def test_a_steady_speed_leaves_out_the_first_steps():
    assert steady([1.0, 10.0, 30.0]) == 20.0
    assert steady([1.0, 10.0, 30.0, 20.0]) == 20.0
    with pytest.raises(RuntimeError, match="at least 40 steps"):
        steady([1.0])


def test_a_loop_prints_its_rate_every_twenty_updates(capsys):
    print_rates(iter([3] * 100), 45)
    rates = [float(line) for line in capsys.readouterr().out.split()]
    assert len(rates) == 2 and min(rates) > 0


class Scripted:
    """A side that records its requests. rates: that of each request, by a part of it."""

    def __init__(self, name, rate):
        self.name, self.rate, self.requests = f"training, {name}", rate, []

    def ask(self, **question):
        self.requests.append(question)
        about = {"run": "/r", "dtype": "float32", "flops": 2.0, "whole": 9.0, "megabytes": 70.0}
        return {"work": self.rate(question), "seconds": 1.0, "matrix_rate": 120.0, **about}


def test_training_is_compared_with_the_fastest_settings_of_the_peer(monkeypatch):
    monkeypatch.setattr(training, "kind", lambda: "bfloat16")
    monkeypatch.setattr(training, "multiplies_bfloat16", lambda device: True)
    ours = Scripted("ours", lambda q: 30.0)
    speeds = {("float32", "sdpa"): 1, ("float32", "eager"): 2, ("bfloat16", "sdpa"): 4}
    peer = Scripted("marian", lambda q: speeds.get((q["dtype"], q["attention"]), 3))
    speed, memory = training.measure(ours, peer, 2, "cpu")
    assert speed.name == "headway train translate" and speed.ratio == 30 / 4
    assert speed.peer_name == "transformers MarianMT (bfloat16, sdpa)"
    assert speed.whole == (9.0, 9.0) and (memory.ratio, memory.unit) == (1.0, "MB")
    assert len(ours.requests) == 1 + 2 and len(peer.requests) == 4 + 2
    assert all(q["run"] == "/r" and q["loop"] == "marian_training" for q in peer.requests)


def test_on_a_gpu_sizes_are_trained_and_language_models_compared_with_the_device(monkeypatch):
    monkeypatch.setattr(training, "kind", lambda: "gpu")
    monkeypatch.setattr(goals, "machine_kind", lambda: "NVIDIA GPU")
    monkeypatch.setattr(training, "multiplies_bfloat16", lambda device: True)
    ours = Scripted("ours", lambda q: 30.0)
    rows = list(training.measure(ours, Scripted("marian", lambda q: 10.0), 1, "cuda"))
    assert [(r.name, r.goal) for r in rows] == [
        ("headway train translate", None),
        ("headway train translate --model base", 1.5),
        ("headway train translate --model big", None),
    ]
    rows = list(training.measure(ours, Scripted("device", lambda q: 60.0), 1, "cuda"))
    assert [(r.name, r.ratio) for r in rows] == [
        ("headway train gpt --model gpt2-small", 0.5),
        ("headway train gpt --model gpt2-medium", 0.5),
    ]


def test_defaults_are_compared_with_the_fastest_flags(monkeypatch):
    monkeypatch.setattr(defaults, "kind", lambda: "avx2")
    monkeypatch.setattr(defaults, "multiplies_bfloat16", lambda device: False)
    monkeypatch.setattr(defaults.os, "cpu_count", lambda: 2)
    chosen = ["--dtype", "float32", "--threads", "2"]
    ours = Scripted("ours", lambda q: 30.0)
    peer = Scripted("gpt", lambda q: 40.0 if chosen in q.values() else 20.0)
    (row,) = defaults.measure(ours, peer, 1, "cpu")
    assert row.peer_name == "the same, --dtype float32 --threads 2" and row.ratio == 0.75
    assert callable(defaults.gpt) and not hasattr(defaults, "no_such_recipe")


def test_the_start_of_a_verb_is_counted_beyond_the_import_of_torch(monkeypatch):
    monkeypatch.setattr(start, "VERBS", {"doctor": ()})
    sides = [SimpleNamespace(ask=lambda whole=w, **q: {"whole": whole}) for w in (2.4, 2.0)]
    (row,) = start.measure(*sides, 1, "cpu")
    assert row.ours == pytest.approx(0.4) and row.ratio == pytest.approx(0.7 / 0.4)
    assert row.whole == (2.4, 2.0)


TINY = [
    *("--source", "first", "--target", "second", "--data.vocabulary", "300"),
    *("--model.model-dim", "24", "--model.num-heads", "3", "--model.ffn-dim", "40"),
    *("--model.encoder-layers", "1", "--model.decoder-layers", "1", "--training.tokens", "300"),
]


@pytest.mark.slow
def test_headway_and_the_loop_of_marianmt_train_by_commands(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for split, pairs in (("train", PAIRS[:64]), ("valid", PAIRS[64:72]), ("test", PAIRS[72:])):
        table(tmp_path / "data" / f"{split}.tsv", pairs)
    monkeypatch.setattr(
        "bench.sentences.translation_words",
        lambda folder: ["translate", str(tmp_path / "data"), *TINY],
    )
    settings = Settings(claim="", side="", folder="", threads=1, allocator=None, work=40)
    found = training.ours(settings)({"recipe": "translate", "model": ""})
    assert found["work"] > 0 and found["whole"] > 0 and found["dtype"] in ("float32", "bfloat16")
    question = {"run": found["run"], "loop": "marian_training", "dtype": "float32"}
    theirs = training.marian(settings)({**question, "attention": "eager"})
    assert theirs["work"] > 0 and theirs["megabytes"] > 0


@pytest.mark.slow
def test_the_loop_of_gpt2_trains_on_the_tokens_of_a_run(tmp_path):
    text = "".join(f"{a} {b}\n" for a, b in PAIRS) * 20
    (tmp_path / "text.txt").write_text(text)
    small = ["--model", "tiny", "--data.vocabulary", "300", "--training.length", "16"]
    made = tmp_path / "runs" / "r"
    answer = commands.train(["gpt", str(tmp_path / "text.txt"), *small], 40, made)
    assert answer["work"] > 0 and json.dumps(answer)
    settings = Settings(claim="", side="", folder="", threads=1, allocator=None, work=40)
    theirs = training.gpt2(settings)({"run": str(made), "loop": "budget", "dtype": "float32"})
    assert theirs["work"] > 0
