"""Gradient x input, against differences and against what must be nothing."""

import pytest
import torch

from headway.inspection.gradient_x_input import gradient_x_input
from headway.inspection.watch import watch
from tests.fixtures.bundles import BUNDLES, gpt, translator

ALL = pytest.mark.parametrize("name", BUNDLES)


def score(given):
    return given.flatten(1)[0, 7 : 7 + 3].sum() if given.ndim > 2 else given[0, 0]


@ALL
def test_it_is_the_slope_when_one_token_grows(name):
    make, given = BUNDLES[name]
    reading = make().reading(*given)
    reading.model.double()
    plain = reading.run
    found = {}
    embeddings = {
        side: reading.model.get_submodule(place) for side, place in reading.embeddings.items()
    }
    if next(iter(reading.embeddings)) == "image":
        for module in embeddings.values():  # the picture itself is float32
            module.register_forward_pre_hook(
                lambda _, inputs: tuple(
                    x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
                    for x in inputs
                )
            )
    found = gradient_x_input(reading, score)
    assert set(found) == set(reading.embeddings)
    for side, module in embeddings.items():
        for token in {0, len(reading.tokens[side]) - 1}:
            values = []
            for factor in (1 + 1e-5, 1 - 1e-5):

                def grown(_, inputs, output, token=token, factor=factor):
                    changed = output.clone()
                    changed[:, token] *= factor
                    return changed

                hook = module.register_forward_hook(grown)
                with torch.no_grad():
                    values.append(float(score(plain())))
                hook.remove()
            slope = (values[0] - values[1]) / 2e-5
            assert float(found[side][token]) == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_what_comes_later_does_nothing_and_the_model_stays_as_it_was():
    reading = gpt().reading("the fox eats the lemon")
    with torch.no_grad():
        before = reading.run()
    found = gradient_x_input(reading, lambda given: given[0, 3, 5])["text"]
    assert bool((found[4:] == 0).all()) and bool((found[:4] != 0).all())
    with torch.no_grad():
        assert torch.equal(reading.run(), before)
    assert all(parameter.grad is None for parameter in reading.model.parameters())


def test_a_frame_follows_the_likeliest_answer_of_each_place_to_every_side():
    bundle = translator()
    probe = bundle.probe("two dogs play", target="zwei hunde")
    frame = watch(bundle, "two dogs play", target="zwei hunde")
    assert len(frame.attributions) == 2 * len(frame.predictions)
    for guess in frame.predictions:
        own = [each for each in frame.attributions if each.position == guess.position]
        assert [each.side for each in own] == ["source", "read"]
        assert {each.of for each in own} == {guess.tokens[0]}
        with torch.no_grad():
            best = int(probe.reading.run()[0, guess.position].argmax())
        wanted = gradient_x_input(
            probe.reading, lambda given, p=guess.position, best=best: given[0, p, best]
        )
        assert own[0].scores == pytest.approx(wanted["source"].tolist())
