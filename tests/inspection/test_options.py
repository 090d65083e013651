"""The page of a language model with any option: saved, loaded, drawn, and walked through."""

import json
import re

import pytest
import torch
from torch.testing import assert_close

import headway as library
from headway.inspection.tables import Tables
from headway.inspection.walk import walk
from tests.fixtures.bundles import MODERN, SENTENCE, gpt
from tests.fixtures.command_line import headway

WINDOWS = {**MODERN, "layers": "lg", "window": 3}
OPTIONS = {
    "sandwich": {**WINDOWS, "norm": "sandwich", "norm_kind": "rms-offset", "score_cap": 4.0},
    "inner": {**MODERN, "norm": "inner", "qk_norm_over": "all"},
    "parallel": {"norm": "parallel", "positions": "rotary", "rotary_fraction": 0.5},
    "one norm": {"norm": "parallel-shared", "norm_kind": "layer-gain", "output_bias": True},
    "scales": {**WINDOWS, "score_scale": 0.3, "residual_scale": 0.4, "logit_cap": 5.0},
    "sinks": {**WINDOWS, "sinks": True, "activation": "swiglu-clamped"},
    "no parameters": {"norm_kind": "layer-plain", "embedding_norm": False, "layers": "gl"},
}
AFTER = {"sandwich": 2, "inner": 2}


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", OPTIONS)
def test_the_page_of_a_saved_model_is_made(name, tmp_path):
    bundle = gpt(**OPTIONS[name])
    bundle.save(tmp_path / "model")
    again = library.load(tmp_path / "model", "cpu")
    assert again.model.config == bundle.model.config
    tokens = torch.tensor([bundle.tokenizer.begin(SENTENCE)])
    with torch.no_grad():
        assert_close(again.model(tokens), bundle.model(tokens), rtol=1e-5, atol=1e-5)
    headway("inspect", "model", SENTENCE, "--html", "page.html", cwd=tmp_path)
    page = (tmp_path / "page.html").read_text()
    assert json.loads(re.search(r'id="header">(.*?)</script>', page, re.S)[1])


@pytest.mark.parametrize("name", OPTIONS)
def test_the_steps_of_a_block_are_those_that_the_model_computes(name):
    probe = gpt(**OPTIONS[name]).probe(SENTENCE)
    steps = walk(probe, layer=1, head=2, tables=Tables(rows=999, columns=9999))
    titles = [step.title for step in steps]
    assert titles.count("Norm after the sublayer") == AFTER.get(name, 0)
    assert titles.count("Norm before the sublayer") == (0 if name == "inner" else 2)
    for step in steps:
        if step.title == "Residual":
            arrays = {array.name: torch.as_tensor(array.values) for array in step.arrays}
            assert_close(arrays["x"] + arrays["change"], arrays["sum"], rtol=1e-4, atol=1e-4)
