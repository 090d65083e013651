"""Any JSON of a page is parsed to a request, or refused with an error that names the key."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.base.errors import DataError
from headway.serving import InspectionRequest, parse

IMAGE_URL = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_subnormal=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
KEYS = ["text", "second", "target", "image", "heads", "map", "layer", "head", "position"]


def test_a_request_is_parsed():
    body = {"text": "a", "heads": [["decoder", 1, 2]], "image": IMAGE_URL, "map": "cross"}
    assert parse({**body, "position": 3}) == InspectionRequest(
        text="a", heads=(("decoder", 1, 2),), image=b"\x89PNG", maps="cross", position=3
    )
    assert parse({}) == InspectionRequest()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "object"),
        ({"txt": "a"}, "txt"),
        ({"text": 3}, "text"),
        ({"text": "a" * 20_001}, "20000.*text"),
        ({"target": "\ud800"}, "lone surrogate"),
        ({"layer": -1}, "layer"),
        ({"head": True}, "head"),
        ({"position": 1.5}, "position"),
        ({"heads": {}}, "heads"),
        ({"heads": [["decoder", 1]]}, "heads"),
        ({"heads": [[1, 1, 1]]}, "heads"),
        ({"heads": [["a", 0, 0]] * 4097}, "heads"),
        ({"image": "https://example.com/a.png"}, "image"),
        ({"image": "data:image/png;base64,&&"}, "base64"),
        ({"image": "data:audio/wav;base64,&&"}, "base64"),
    ],
)
def test_an_invalid_request_is_refused_by_name(body, message):
    with pytest.raises(DataError, match=message):
        parse(body)


@given(JSON | st.dictionaries(st.sampled_from(KEYS), JSON))
def test_any_json_is_a_request_or_an_error(body):
    try:
        assert isinstance(parse(body), InspectionRequest)
    except DataError as error:
        assert str(error)
