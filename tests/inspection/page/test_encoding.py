"""What the page is given: names, sizes and values of every part."""

import gzip
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from headway.errors import UsageError
from headway.inspection.document import Document, Frame, Maps, Side
from headway.inspection.page import encode
from headway.inspection.page.byte_weights import to_weights
from headway.inspection.page.encoding import data_url, header_json
from tests.fixtures.documents import encoder_frame, everything, heads, hostile, seascape


def block(encoded, name, dtype="u1"):
    return np.frombuffer(gzip.decompress(encoded.blocks[name]), dtype)


def test_every_layer_of_weights_comes_back_from_its_block():
    frame = encoder_frame()
    encoded = encode(Document(title="t", frames=[frame]))
    for told, maps in zip(encoded.header["frames"][0]["maps"], frame.maps, strict=True):
        for name, weights in zip(told["blocks"], maps.weights, strict=True):
            codes = block(encoded, name).reshape(told["heads"], *told["shape"])
            error = np.abs(to_weights(codes, told["coding"]) - weights.numpy()).max()
            assert error <= 0.008 * told["coding"]["scale"]


def test_vectors_come_back_to_the_bit():
    frame = encoder_frame()
    encoded = encode(Document(title="t", frames=[frame]))
    told = encoded.header["frames"][0]["maps"][0]["vectors"]
    for one, made in zip(told, frame.maps[0].vectors, strict=True):
        assert one["width"] == 16 and one["scale"] == 0.25
        for name in ("q", "k", "norms"):
            expected = getattr(made, name).numpy().ravel()
            assert np.array_equal(block(encoded, one[name], "<f4"), expected)


def test_the_header_is_plain_json_with_the_agreed_names():
    header = json.loads(header_json(encode(everything(), live=True).header))
    assert set(header) == {
        "format",
        "version",
        "title",
        "notes",
        "live",
        "frames",
        "walk",
        "report",
    }
    frame = header["frames"][0]
    parts = (
        "label model answer sides maps opening predictions predictions_side lens attributions beam"
    )
    assert set(frame) == set(parts.split())
    parts = "tokens words image size grid reach num_prefix_tokens"
    assert set(frame["sides"]["sentence"]) == set(parts.split())
    parts = (
        "name measure queries keys layers heads shape causal normalised blocks coding thumbnails"
        " thumbnail entropy patterns importance metric vectors"
    )
    assert set(frame["maps"][0]) == set(parts.split())
    assert frame["maps"][0]["importance"] and frame["maps"][1]["importance"] is None


def test_entropy_is_left_out_where_no_token_has_a_choice():
    maps = Maps(
        name="m", queries="a", keys="a", layers=["1"], weights=[torch.ones(2, 1, 1)], causal=True
    )
    frame = Frame(label="", model={}, sides={"a": Side(tokens=["x"])}, maps=[maps])
    told = encode(Document(title="", frames=[frame])).header["frames"][0]["maps"][0]
    assert told["entropy"] == [[None, None]]


def test_chosen_layers_bring_along_all_that_is_theirs():
    frame = encoder_frame(layers=4)
    header = encode(Document(title="", frames=[frame]), layers=[2, 4]).header
    told = header["frames"][0]["maps"][0]
    assert told["layers"] == ["2", "4"] and len(told["blocks"]) == len(told["vectors"]) == 2
    assert [row[0] for row in told["importance"]] == pytest.approx(
        [frame.importance["encoder"][at][0] for at in (1, 3)], rel=1e-5
    )
    best = [[max(one, key=one.get) for one in layer] for layer in told["patterns"]]
    assert best == [[max(one, key=one.get) for one in frame.maps[0].patterns[at]] for at in (1, 3)]
    # The map of a single layer has no layer 2.
    assert [one["measure"] for one in header["frames"][0]["maps"]] == [
        "attention",
        "value-weighted",
    ]
    assert "Only layers 2, 4" in header["notes"][-1]


@pytest.mark.parametrize("layers, said", [([0], "counted from 1"), ([9], "layers are 1 to 4")])
def test_a_layer_that_is_not_there_is_named(layers, said):
    with pytest.raises(UsageError) as caught:
        encode(Document(title="", frames=[encoder_frame()]), layers=layers)
    assert said in str(caught.value.hint)


def test_levels_shrink_the_blocks():
    document = Document(title="", frames=[encoder_frame()])
    sizes = [sum(map(len, encode(document, levels=n).blocks.values())) for n in (31, 63, 255)]
    assert sizes == sorted(sizes) and len(set(sizes)) == 3
    with pytest.raises(UsageError):
        encode(document, levels=16)


def test_weights_that_do_not_fit_their_sides_are_refused():
    frame = encoder_frame()
    wrong = replace(frame.maps[0], weights=heads(4, 6, 16, 15))
    with pytest.raises(ValueError, match="does not fit"):
        encode(Document(title="", frames=[replace(frame, maps=[wrong])]))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_is_a_png_of_the_same_pixels(channels):
    pixels = seascape()[..., :channels]
    head, data = data_url(pixels).split(",")
    assert head == "data:image/png;base64"
    import base64

    made = Image.open(io.BytesIO(base64.b64decode(data)))
    made.load()
    assert np.array_equal(np.asarray(made).reshape(pixels.shape), pixels)


def test_nothing_in_a_header_can_end_the_element_it_stands_in():
    text = header_json(encode(hostile()).header)
    assert b"<" not in text
    assert json.loads(text)["frames"][0]["sides"]["<i>"]["tokens"][0].startswith("<script>")
