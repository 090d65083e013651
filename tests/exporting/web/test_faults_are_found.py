"""A page that computes something else is not kept: what Node prints is compared with the model."""

import copy

import pytest
import torch
from torch import nn

from headway.attention import record_attention
from headway.base.errors import HeadwayError
from headway.exporting.described import plain_copy
from headway.exporting.graphs import Graph
from headway.exporting.web import in_node
from headway.exporting.web.attention import NAME
from headway.exporting.web.description import describe
from headway.exporting.web.in_node import compare_in_node
from headway.exporting.web.packages import find_packages
from tests.fixtures.bundles import gpt
from tests.fixtures.web_pages import stand_ins

WRITTEN = 3


GRAPH = Graph(
    "model", nn.Identity(), (), {NAME.format(part="decoder", layer=i): () for i in range(3)}
)
"""The names that a description needs of a graph."""


def plain(tensor):
    return {"values": tensor.flatten().tolist(), "shape": list(tensor.shape)}


def printed(bundle, probes):
    """What a correct page prints."""
    texts = [
        {"ids": bundle.tokenizer.encode(text), "text": text} for text in probes["texts"]["source"]
    ]
    answers = []
    for one in probes["inputs"]:
        ids = bundle.tokenizer.begin(one["text"])
        prompt = len(ids)
        with torch.inference_mode():
            for _ in range(min(WRITTEN, bundle.model.max_length - prompt)):
                ids.append(int(bundle.model(torch.tensor([ids]))[0, -1].argmax()))
            with record_attention(bundle.model) as maps:
                logits = bundle.model(torch.tensor([ids]))
        answers.append(
            {
                "ids": {"text": {"values": ids, "generated": prompt}},
                "written": ids[prompt:],
                "seconds": 0.1,
                "logits": plain(logits),
                "maps": [[plain(weights) for (weights,) in maps.values()]],
            }
        )
    return {"texts": {"source": texts}, "answers": answers}


def shift(values):
    values["values"] = values["values"][1:] + values["values"][:1]


FAULTS = {
    "ids": lambda out: out["texts"]["source"][0]["ids"].append(5),
    "decodes": lambda out: out["texts"]["source"][0].update(text="another text"),
    "begin": lambda out: out["answers"][0]["ids"]["text"]["values"].pop(0),
    "logits differ": lambda out: out["answers"][0]["logits"]["values"].__setitem__(7, 0.5),
    "logits have the shape": lambda out: out["answers"][0]["logits"]["shape"].reverse(),
    "attention weights of the decoder differ": lambda out: shift(out["answers"][1]["maps"][0][2]),
    "NaN": lambda out: out["answers"][0]["logits"]["values"].__setitem__(0, float("nan")),
    "greedy token 2 is another one": lambda out: out["answers"][0]["written"].__setitem__(1, 0),
}
SAID = {"ids": "ids|token", "begin": "ids|token", "NaN": "differ by nan"}


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    bundle = gpt()
    packages = find_packages(stand_ins(tmp_path_factory.mktemp("npm")))
    model, description = plain_copy(bundle.model), describe(bundle, [GRAPH], "a", ["the fox"])
    outputs = {}

    def run(change, monkeypatch):
        def fake(description, graphs, packages, probes, where):
            outputs.setdefault("right", printed(bundle, probes))
            found = copy.deepcopy(outputs["right"])
            change(found)
            return found

        monkeypatch.setattr(in_node, "_run", fake)
        return compare_in_node(bundle, model, description, {}, packages, "here")

    return run


def test_a_page_that_computes_the_same_is_kept(checked, monkeypatch):
    found = checked(lambda out: None, monkeypatch)
    assert found.tokens > WRITTEN and found.texts > 10
    assert found.difference < 1e-5 and found.of_attention < 1e-5
    assert found.version == "onnxruntime-web 1.2.3 in Node"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_page_that_computes_something_else_is_found(checked, monkeypatch, fault):
    with pytest.raises(HeadwayError, match=SAID.get(fault, fault)):
        checked(FAULTS[fault], monkeypatch)
