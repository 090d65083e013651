"""Gradient x input, compared with finite differences and with attributions that must be zero."""

import pytest
import torch

from headway.inspection.gradient_x_input import gradient_x_input, gradients_x_input
from headway.inspection.watch import watch
from tests.fixtures.bundles import BUNDLES, gpt, translator

ALL = pytest.mark.parametrize("name", BUNDLES)


def score(logits):
    return logits.flatten(1)[0, 7 : 7 + 3].sum() if logits.ndim > 2 else logits[0, 0]


@ALL
def test_an_attribution_is_the_slope_of_the_score_when_one_token_is_scaled(name):
    make, inputs = BUNDLES[name]
    reading = make().reading(*inputs)
    reading.model.double()
    run = reading.run
    attributions = {}
    embeddings = {
        side: reading.model.get_submodule(path) for side, path in reading.embeddings.items()
    }
    if next(iter(reading.embeddings)) == "image":
        for module in embeddings.values():  # the pixels are float32
            module.register_forward_pre_hook(
                lambda _, inputs: tuple(
                    x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
                    for x in inputs
                )
            )
    attributions = gradient_x_input(reading, score)
    assert set(attributions) == set(reading.embeddings)
    for side, module in embeddings.items():
        for token in {0, len(reading.tokens[side]) - 1}:
            values = []
            for factor in (1 + 1e-5, 1 - 1e-5):

                def scale_token(_, inputs, output, token=token, factor=factor):
                    changed = output.clone()
                    changed[:, token] *= factor
                    return changed

                hook = module.register_forward_hook(scale_token)
                with torch.no_grad():
                    values.append(float(score(run())))
                hook.remove()
            slope = (values[0] - values[1]) / 2e-5
            assert float(attributions[side][token]) == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_later_tokens_have_no_attribution_and_the_model_is_unchanged():
    reading = gpt().reading("the fox eats the lemon")
    with torch.no_grad():
        before = reading.run()
    attribution = gradient_x_input(reading, lambda logits: logits[0, 3, 5])["text"]
    assert bool((attribution[4:] == 0).all()) and bool((attribution[:4] != 0).all())
    with torch.no_grad():
        assert torch.equal(reading.run(), before)
    assert all(parameter.grad is None for parameter in reading.model.parameters())


def test_a_frame_attributes_the_most_probable_token_of_each_position_to_every_side():
    bundle = translator()
    probe = bundle.probe("two dogs play", target="zwei hunde")
    frame = watch(bundle, "two dogs play", target="zwei hunde")
    assert len(frame.attributions) == 2 * len(frame.predictions)
    for prediction in frame.predictions:
        attributions = [
            attribution
            for attribution in frame.attributions
            if attribution.position == prediction.position
        ]
        assert [attribution.side for attribution in attributions] == ["source", "read"]
        assert {attribution.of for attribution in attributions} == {prediction.tokens[0]}
        with torch.no_grad():
            best = int(probe.reading.run()[0, prediction.position].argmax())
        expected = gradient_x_input(
            probe.reading, lambda logits, p=prediction.position, best=best: logits[0, p, best]
        )
        assert attributions[0].scores == pytest.approx(expected["source"].tolist())


@ALL
def test_several_scores_in_one_pass_equal_one_pass_each(name):
    make, inputs = BUNDLES[name]
    reading = make().reading(*inputs)
    runs = []
    run = reading.run
    object.__setattr__(reading, "run", lambda: runs.append(1) or run())

    def scores(output):
        return output.flatten()[:3]

    together = gradients_x_input(reading, scores)
    assert len(runs) == 1
    for at, attribution in enumerate(together):
        alone = gradient_x_input(reading, lambda output, at=at: scores(output)[at])
        assert set(alone) == set(attribution)
        assert all(torch.equal(alone[side], attribution[side]) for side in alone)
