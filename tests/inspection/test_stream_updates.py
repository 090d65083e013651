"""The relative size of what each sublayer adds to the residual stream."""

import pytest
import torch

from headway.inspection.stream_updates import recording_updates, relative_update
from headway.inspection.watch import watch
from tests.fixtures.bundles import gpt, translator


def test_an_update_is_the_length_of_the_change_over_the_length_of_the_vector():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])
    y = torch.tensor([[3.0, 9.0], [0.0, 0.0], [1.0, 0.0]])
    assert relative_update(x, y).tolist() == pytest.approx([1.0, 0.0, 0.0])


def test_a_frame_has_the_updates_of_every_sublayer_layer_and_token():
    bundle = translator()
    probe = bundle.probe("two dogs play", target="zwei hunde")
    block = bundle.model.decoder.blocks[1]
    seen = []
    hook = block.around_cross.register_forward_hook(lambda _, x, y: seen.append((x[0][0], y[0])))
    frame = watch(bundle, "two dogs play", target="zwei hunde")
    hook.remove()
    (x, y), *_ = seen
    expected = [float((b - a).norm() / a.norm()) for a, b in zip(x, y, strict=True)]
    assert frame.updates["decoder"][1]["cross"] == pytest.approx(expected, rel=1e-5)
    tokens = {name: len(names) for name, names in probe.reading.tokens.items()}
    for part, side, sublayers in (
        ("encoder", "source", ["attention", "feedforward"]),
        ("decoder", "read", ["attention", "cross", "feedforward"]),
    ):
        for layer in frame.updates[part]:
            assert list(layer) == sublayers
            assert {len(values) for values in layer.values()} == {tokens[side]}


def test_recording_changes_no_output_and_leaves_no_hook():
    bundle = gpt()
    reading = bundle.reading("the fox eats")
    with torch.no_grad():
        before = reading.run()
        with recording_updates(bundle.model) as updates:
            assert torch.equal(reading.run(), before)
    assert len(updates()["decoder"]) == len(bundle.model.decoder.blocks)
    assert not any(module._forward_hooks for module in bundle.model.modules())


def test_a_recurrent_network_has_no_updates():
    assert watch(translator(encoder="rnn", decoder="rnn"), "two dogs").updates == {}
