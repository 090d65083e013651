"""Held-out inputs of a run, from its log and its film."""

import json

from headway.runs import held_out_inputs as module
from headway.runs.attention_over_time import Film, Glimpse
from headway.runs.held_out_inputs import held_out_inputs


def log(folder, *rows):
    events = [{"kind": "sample", "step": 1, **row} for row in rows]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (folder / "metrics.jsonl").write_text(lines)


def test_inputs_of_the_samples_are_the_examples_each_once_and_the_latest_first(tmp_path):
    log(tmp_path, {"source": "a cat"}, {"source": "a dog"}, {"source": "a cat"}, {"prompt": ""})
    assert held_out_inputs(tmp_path) == ["a cat", "a dog"]


def test_at_most_five_are_offered(tmp_path):
    log(tmp_path, *({"prompt": f"text {n}"} for n in range(9)))
    assert len(held_out_inputs(tmp_path)) == 5


def filmed(monkeypatch, text):
    glimpse = Glimpse(step=0, loss=None, input=text, second=None, reference=None, frame={})
    monkeypatch.setattr(module, "read_film", lambda run: Film([glimpse], {}))


def test_samples_without_input_leave_the_text_of_the_film(tmp_path, monkeypatch):
    log(tmp_path, {"prompt": "", "output": "x"})
    filmed(monkeypatch, "The light [MASK] on\nthe rock")
    assert held_out_inputs(tmp_path) == ["The light [MASK] on\nthe rock"]
    filmed(monkeypatch, None)  # an image
    assert held_out_inputs(tmp_path) == []


def test_a_folder_that_is_no_run_or_is_damaged_has_none(tmp_path):
    assert held_out_inputs(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text("no json")
    assert held_out_inputs(tmp_path) == []
