"""Errors for the values of another library's config.json: what is allowed, and what was found."""

from __future__ import annotations

import pytest

from headway.base.errors import DataError
from headway.interop.hf_config import HFConfig


@pytest.mark.parametrize(
    ("value", "found"),
    [(10**12, "1000000000000"), (2**31, "2147483648"), (0, "0"), ("128", "'128'"), (1.5, "1.5")],
)
def test_a_size_that_is_refused_is_shown_with_the_limits(value, found):
    limits = "must be a whole number above 0 and below 2,147,483,648"
    with pytest.raises(DataError) as caught:
        HFConfig({"hidden_size": value}, "config.json").whole("hidden_size")
    assert caught.value.what == f"hidden_size={found}: {limits}"
    with pytest.raises(DataError, match=f"^image_size={found}: {limits}, or two of them"):
        HFConfig({"image_size": value}, "config.json").sides("image_size", 224)


def test_a_smaller_limit_is_shown():
    with pytest.raises(DataError, match=r"num_hidden_layers=10000: .* above 0 and below 1,000"):
        HFConfig({"num_hidden_layers": 10_000}, "c").whole("num_hidden_layers", below=1000)


def test_a_text_instead_of_a_number_or_a_flag_is_shown_as_a_text():
    config = HFConfig({"dropout": "0.1", "bias": "true", "n": True}, "config.json")
    with pytest.raises(DataError, match=r"^dropout='0\.1': must be a number"):
        config.number("dropout", 0.0)
    with pytest.raises(DataError, match=r"^bias='true': must be true or false"):
        config.flag("bias", False)
    with pytest.raises(DataError, match=r"^n=True: must be a whole number"):
        config.whole("n")
