"""Fixtures of the tests of decoding by graphs."""

from collections.abc import Iterator

import pytest
import torch

from headway.transforms.fast import dot


@pytest.fixture
def no_gradients() -> Iterator[None]:
    # the searches do so, too, but not those whose generators beartype wraps
    with torch.inference_mode():
        yield


@pytest.fixture(params=["short", "sdpa"])
def attention_path(request, monkeypatch):
    """Attention as a CPU computes it, and as a GPU does."""
    if request.param == "sdpa":
        monkeypatch.setattr(dot, "path", lambda *_: "sdpa")
