"""Held-out inputs of a run, from its log and its film."""

import json

from headway.data.documents import Part
from headway.data.text_corpus import prepare_text
from headway.runs import held_out_inputs as module
from headway.runs.attention_over_time import Film, Glimpse
from headway.runs.held_out_inputs import held_out_inputs, held_out_passages
from tests.fixtures.bundles import TOKENIZER, gpt, translator


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


def test_passages_are_spread_over_the_held_out_text_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PASSAGES", 3)
    text = " ".join(f"the fox {n} eats the lemon" for n in range(90))
    corpus = prepare_text([Part(text, True)], TOKENIZER, tmp_path / "data" / "valid")
    bundle = gpt()
    passages = held_out_passages(tmp_path, bundle)
    assert len(passages) == 3 and all(passage.strip("\ufffd") in text for passage in passages)
    places = [text.index(passage.strip("\ufffd")) / len(text) for passage in passages]
    assert [round(place * 3) for place in places] == [0, 1, 2]
    room = bundle.config.max_length
    assert all(len(TOKENIZER.encode(passage)) < room < len(corpus) for passage in passages)


def test_a_model_without_held_out_text_has_no_passages(tmp_path):
    assert held_out_passages(tmp_path, gpt()) == [] == held_out_passages(tmp_path, translator())
