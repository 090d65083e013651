"""The importance of a head is the loss of the answer without it; an unused head has none."""

import pytest
import torch

from headway.inspection.ablation import without_heads
from headway.inspection.watch import METRIC, watch
from tests.fixtures.bundles import BUNDLES

ALONE = {"analyses": ("importance",)}


@pytest.mark.parametrize("name", ["gpt", "gpt modern", "classifier", "translator"])
def test_importance_is_the_loss_of_log_probability_without_the_head(name):
    make, (first, *more) = BUNDLES[name]
    bundle = make()
    options = {"target": more[0]} if name == "translator" else {}
    frame = watch(bundle, first, **options, **ALONE)
    assert frame.metric == METRIC
    assert set(frame.importance) == {maps.name for maps in frame.maps}
    probe = bundle.probe(first, **options)

    def mean_log_prob():
        with torch.no_grad():
            log_probs = probe.readout.logits(probe.reading.run()).log_softmax(-1)
        return log_probs.gather(-1, best).mean()

    with torch.no_grad():
        best = probe.readout.logits(probe.reading.run()).argmax(-1, keepdim=True)
    part, baseline = next(iter(frame.importance)), mean_log_prob()
    with without_heads(bundle.model, [(part, 0, 2)]):
        loss = float(baseline - mean_log_prob())
    assert frame.importance[part][0][2] == pytest.approx(loss, abs=1e-6)
    assert abs(loss) > 1e-5


def test_a_head_with_zero_output_weights_has_no_importance():
    bundle = BUNDLES["gpt"][0]()
    attention = bundle.model.get_submodule("decoder.blocks.0.attention")
    width = attention.output.weight.shape[1] // attention.num_heads
    with torch.no_grad():
        attention.output.weight[:, 3 * width : 4 * width] = 0
    importance = torch.tensor(watch(bundle, "the fox", **ALONE).importance["decoder"][0])
    assert importance[3].abs() < 1e-7
    assert (importance[[0, 1, 2, 4, 5]].abs() > 1e-6).all()


def test_a_model_without_predictions_has_no_important_heads():
    make, inputs = BUNDLES["encoder without a head"]
    assert not watch(make(), *inputs, **ALONE).importance
