"""Activation patching: what must come back does, what cannot matter does not."""

import pytest
import torch
from torch.testing import assert_close

from headway.errors import UsageError
from headway.inspection.activation_patching import patch_stream
from tests.fixtures.bundles import encoder, gpt, translator


def of(place, token):
    return lambda given: float(given[0, place, token])


def pair(bundle):
    """Two texts of as many pieces, which differ in the piece at place 2 alone."""
    ids = bundle.tokenizer.begin("the fox eats the lemon")
    other = [*ids]
    other[2] = next(i for i in range(20, bundle.tokenizer.size) if i not in ids)
    clean, corrupted = (bundle.reading("", row[1:]) for row in (ids, other))
    assert len(clean.ids["text"]) == len(ids)
    return clean, corrupted


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_everything_comes_back_where_everything_is_and_nothing_where_nothing_can_be(norm):
    bundle = gpt(norm=norm)
    clean, corrupted = pair(bundle)
    last = len(clean.ids["text"]) - 1
    found = patch_stream(clean, corrupted, of(last, 5))
    assert found.recovered.shape == (4, last + 1)
    assert found.layers == ["embedding", "1", "2", "3"] and found.side == "text"
    # at the input the two differ at place 2 alone, at the output the last place says it all
    assert_close(found.recovered[0, 2], torch.tensor(1.0), rtol=0, atol=1e-4)
    assert_close(found.recovered[3, last], torch.tensor(1.0), rtol=0, atol=1e-4)
    assert bool((found.recovered[0, [0, 1, *range(3, last + 1)]] == 0).all())
    assert bool((found.recovered[3, :last] == 0).all())
    assert bool((found.recovered[:, :2] == 0).all())  # before the change all is alike
    assert found.clean != found.corrupted and bool((found.recovered[1:3, 2:] != 0).any())


def test_either_stack_of_a_translator_and_one_of_shared_blocks_can_be_patched():
    bundle = translator()
    clean, corrupted = (bundle.reading(text, "zwei hunde") for text in ("two dogs", "dogs two"))
    found = patch_stream(clean, corrupted, of(2, 5), part="encoder")
    assert found.side == "source" and found.recovered.shape[0] == 2
    assert found.tokens == list(corrupted.tokens["source"])
    shared = encoder(shared_layers=True, num_layers=3)
    clean, corrupted = (
        shared.reading(f"A {a} looks {b}.") for a, b in (("fox", "on"), ("on", "fox"))
    )
    found = patch_stream(clean, corrupted, of(0, 9))
    assert found.recovered.shape[0] == 4
    assert_close(found.recovered[3, 0], torch.tensor(1.0), rtol=0, atol=1e-4)
    assert bool((found.recovered[3, 1:] == 0).all()) and bool((found.recovered[2, 1:] != 0).any())


def test_inputs_that_cannot_be_compared_are_refused():
    bundle = gpt()
    clean, corrupted = pair(bundle)
    with pytest.raises(UsageError, match="the same for both"):
        patch_stream(clean, clean, of(3, 5))
    with pytest.raises(UsageError, match="has 3 tokens and the corrupted one"):
        patch_stream(bundle.reading("", [5, 6]), corrupted, of(2, 5))
    with pytest.raises(UsageError, match="no encoder made of Transformer blocks"):
        patch_stream(clean, corrupted, of(3, 5), part="encoder")
    with pytest.raises(UsageError, match="one and the same model"):
        patch_stream(clean, gpt().reading("", [5]), of(0, 5))
