"""Requests of the page to real bundles."""

import pytest

from headway.base.errors import UsageError
from headway.blocks import Experts
from headway.serving import BundleViewer, InspectionRequest
from tests.fixtures.bundles import BUNDLES, captioner, gpt, translator
from tests.fixtures.images import png

TEXT = "the fox eats the lemon"


def test_a_text_is_inspected_and_kept_in_the_input_field():
    (frame,) = BundleViewer(gpt(), "my model").look(InspectionRequest(text=TEXT)).frames
    assert frame.label == "my model" and frame.model["input"] == TEXT
    assert frame.maps[0].vectors


def test_the_experts_of_a_mixture_have_what_they_read_in_held_out_text():
    bundle = gpt(activation="swiglu", experts=Experts(total=3, ffn_dim=8))
    viewer = BundleViewer(bundle, "m", passages=[TEXT, "the dog eats the bread"])
    (frame,) = viewer.look(InspectionRequest(text="the bread")).frames
    assert [mixture.layer for mixture in frame.mixtures] == [1, 2, 3]
    for mixture in frame.mixtures:
        assert sum(expert.load for expert in mixture.held_out) == pytest.approx(1)
        assert len(mixture.effects) == 3


def test_heads_switched_off_change_the_second_frame_only_and_are_restored():
    viewer = BundleViewer(gpt(), "m")
    request = InspectionRequest(text=TEXT, heads=(("decoder", 0, 1), ("decoder", 1, 2)))
    whole, ablated = viewer.without(request).frames
    assert ablated.label == "without decoder 1.2, decoder 2.3"
    (restored,) = viewer.look(InspectionRequest(text=TEXT)).frames
    assert (whole.maps[0].weights[2] - restored.maps[0].weights[2]).abs().max() == 0
    assert (whole.maps[0].weights[2] - ablated.maps[0].weights[2]).abs().max() > 1e-4


def test_a_translation_uses_the_entered_target():
    (frame,) = (
        BundleViewer(translator(), "m").look(InspectionRequest(text="bread", target="zwei")).frames
    )
    assert "".join(frame.sides["target"].tokens).strip().startswith("zwei")


def test_requests_without_an_image_are_about_the_last_one():
    import numpy as np

    viewer = BundleViewer(captioner(), "m")
    with pytest.raises(UsageError, match="the image is missing"):
        viewer.look(InspectionRequest(text=""))
    image = png(np.random.default_rng(0).integers(0, 256, (20, 21, 3)).astype(np.uint8))
    (frame,) = viewer.look(InspectionRequest(image=image)).frames
    whole, _ = viewer.without(InspectionRequest(heads=(("cross", 0, 0),))).frames
    assert (frame.maps[0].weights[0] - whole.maps[0].weights[0]).abs().max() == 0


@pytest.mark.parametrize("name", ["gpt", "encoder", "classifier", "translator"])
def test_a_walk_follows_the_requested_head(name):
    viewer = BundleViewer(BUNDLES[name][0](), "m")
    document = viewer.walk(InspectionRequest(text=TEXT, layer=0, head=1, position=1))
    assert len(document.walk) > 8
    with pytest.raises(UsageError, match="layer 99"):
        viewer.walk(InspectionRequest(text=TEXT, layer=99))


def test_the_first_page_shows_a_sentence_or_asks_for_an_image():
    assert BundleViewer(gpt(), "m").first().frames
    empty = BundleViewer(captioner(), "m").first()
    assert not empty.frames and "image" in empty.notes[0]
