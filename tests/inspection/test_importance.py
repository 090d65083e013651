"""A head that the answer needs is important; one that nobody hears is not."""

import pytest
import torch

from headway.inspection.ablation import without_heads
from headway.inspection.watch import METRIC, watch
from tests.fixtures.bundles import BUNDLES

ALONE = {"analyses": ("importance",)}


@pytest.mark.parametrize("name", ["gpt", "gpt modern", "classifier", "translator"])
def test_a_heads_worth_is_what_the_answer_loses_without_it(name):
    make, (first, *others) = BUNDLES[name]
    bundle = make()
    how = {"target": others[0]} if name == "translator" else {}
    frame = watch(bundle, first, **how, **ALONE)
    assert frame.metric == METRIC
    assert set(frame.importance) == {maps.name for maps in frame.maps}
    probe = bundle.probe(first, **how)

    def sure():
        with torch.no_grad():
            rows = probe.readout.logits(probe.reading.run()).log_softmax(-1)
        return rows.gather(-1, best).mean()

    with torch.no_grad():
        best = probe.readout.logits(probe.reading.run()).argmax(-1, keepdim=True)
    part, whole = next(iter(frame.importance)), sure()
    with without_heads(bundle.model, [(part, 0, 2)]):
        lost = float(whole - sure())
    assert frame.importance[part][0][2] == pytest.approx(lost, abs=1e-6)
    assert abs(lost) > 1e-5


def test_a_head_that_nobody_hears_is_worth_nothing():
    bundle = BUNDLES["gpt"][0]()
    attention = bundle.model.get_submodule("decoder.blocks.0.attention")
    width = attention.output.weight.shape[1] // attention.num_heads
    with torch.no_grad():
        attention.output.weight[:, 3 * width : 4 * width] = 0
    worth = torch.tensor(watch(bundle, "the fox", **ALONE).importance["decoder"][0])
    assert worth[3].abs() < 1e-7
    assert (worth[[0, 1, 2, 4, 5]].abs() > 1e-6).all()


def test_a_model_that_says_nothing_has_no_important_heads():
    make, given = BUNDLES["encoder without a head"]
    assert not watch(make(), *given, **ALONE).importance
