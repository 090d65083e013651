"""The data of the page: names, sizes and values of every part."""

import gzip
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from headway.base.errors import UsageError
from headway.inspection.document import Document, Frame, Maps, Side
from headway.inspection.page import encode
from headway.inspection.page.byte_weights import to_weights
from headway.inspection.page.encoding import data_url, header_json
from tests.fixtures.documents import encoder_frame, everything, heads, hostile, seascape


def block(encoded, name, dtype="u1"):
    return np.frombuffer(gzip.decompress(encoded.blocks[name]), dtype)


def test_every_layer_of_weights_can_be_decoded_from_its_block():
    frame = encoder_frame()
    encoded = encode(Document(title="t", frames=[frame]))
    for header, maps in zip(encoded.header["frames"][0]["maps"], frame.maps, strict=True):
        for name, weights in zip(header["blocks"], maps.weights, strict=True):
            codes = block(encoded, name).reshape(header["heads"], *header["shape"])
            error = np.abs(to_weights(codes, header["coding"]) - weights.numpy()).max()
            assert error <= 0.008 * header["coding"]["scale"]


def test_vectors_are_stored_exactly():
    frame = encoder_frame()
    encoded = encode(Document(title="t", frames=[frame]))
    headers = encoded.header["frames"][0]["maps"][0]["vectors"]
    for header, vectors in zip(headers, frame.maps[0].vectors, strict=True):
        assert header["width"] == 16 and header["scale"] == 0.25
        for name in ("q", "k", "norms"):
            expected = getattr(vectors, name).numpy().ravel()
            assert np.array_equal(block(encoded, header[name], "<f4"), expected)


def test_the_header_is_plain_json_with_the_documented_keys():
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
        "examples",
        "modality",
    }
    frame = header["frames"][0]
    keys = (
        "label model answer sides maps opening predictions predictions_side lens attributions beam "
        "effects updates mixtures"
    )
    assert set(frame) == set(keys.split())
    keys = "tokens words image size grid reach num_prefix_tokens generated"
    assert set(frame["sides"]["sentence"]) == set(keys.split())
    keys = (
        "name measure queries keys layers heads shape causal normalised blocks coding thumbnails"
        " thumbnail entropy patterns importance metric vectors"
    )
    assert set(frame["maps"][0]) == set(keys.split())
    assert frame["maps"][0]["importance"] and frame["maps"][1]["importance"] is None


def test_a_token_with_one_key_has_no_entropy():
    maps = Maps(
        name="m", queries="a", keys="a", layers=["1"], weights=[torch.ones(2, 1, 1)], causal=True
    )
    frame = Frame(label="", model={}, sides={"a": Side(tokens=["x"])}, maps=[maps])
    header = encode(Document(title="", frames=[frame])).header["frames"][0]["maps"][0]
    assert header["entropy"] == [[None, None]]


def test_selected_layers_keep_all_their_data():
    frame = encoder_frame(layers=4)
    header = encode(Document(title="", frames=[frame]), layers=[2, 4]).header
    map_header = header["frames"][0]["maps"][0]
    assert (
        map_header["layers"] == ["2", "4"]
        and len(map_header["blocks"]) == len(map_header["vectors"]) == 2
    )
    assert [row[0] for row in map_header["importance"]] == pytest.approx(
        [frame.importance["encoder"][i][0] for i in (1, 3)], rel=1e-5
    )
    best_patterns = [
        [max(scores, key=scores.get) for scores in heads] for heads in map_header["patterns"]
    ]
    assert best_patterns == [
        [max(scores, key=scores.get) for scores in frame.maps[0].patterns[layer]]
        for layer in (1, 3)
    ]
    # The map of a single layer has no layer 2.
    assert [encoded["measure"] for encoded in header["frames"][0]["maps"]] == [
        "attention",
        "value-weighted",
    ]
    assert "Only layers 2, 4" in header["notes"][-1]


@pytest.mark.parametrize("layers, message", [([0], "counted from 1"), ([9], "layers are 1 to 4")])
def test_a_layer_that_does_not_exist_is_refused(layers, message):
    with pytest.raises(UsageError) as error:
        encode(Document(title="", frames=[encoder_frame()]), layers=layers)
    assert message in str(error.value.hint)


def test_fewer_levels_make_smaller_blocks():
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
def test_an_image_is_encoded_as_a_png_of_the_same_pixels(channels):
    pixels = seascape()[..., :channels]
    head, data = data_url(pixels).split(",")
    assert head == "data:image/png;base64"
    import base64

    image = Image.open(io.BytesIO(base64.b64decode(data)))
    image.load()
    assert np.array_equal(np.asarray(image).reshape(pixels.shape), pixels)


def test_nothing_in_a_header_can_end_its_html_element():
    text = header_json(encode(hostile()).header)
    assert b"<" not in text
    assert json.loads(text)["frames"][0]["sides"]["<i>"]["tokens"][0].startswith("<script>")
