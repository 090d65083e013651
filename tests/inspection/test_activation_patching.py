"""Activation patching recovers the clean output where it must, and nothing where it cannot."""

import pytest
import torch
from torch.testing import assert_close

from headway.base.errors import UsageError
from headway.inspection.activation_patching import patch_stream
from tests.fixtures.bundles import encoder, gpt, translator


def logit_at(position, token):
    return lambda logits: float(logits[0, position, token])


def clean_and_corrupted(bundle):
    """Return readings of two texts of equal length that differ only in the token at position 2."""
    ids = bundle.tokenizer.begin("the fox eats the lemon")
    changed = [*ids]
    changed[2] = next(i for i in range(20, bundle.tokenizer.size) if i not in ids)
    clean, corrupted = (bundle.reading("", row[1:]) for row in (ids, changed))
    assert len(clean.ids["text"]) == len(ids)
    return clean, corrupted


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_patching_recovers_everything_at_the_changed_token_and_nothing_elsewhere(norm):
    bundle = gpt(norm=norm)
    clean, corrupted = clean_and_corrupted(bundle)
    last = len(clean.ids["text"]) - 1
    patching = patch_stream(clean, corrupted, logit_at(last, 5))
    assert patching.recovered.shape == (4, last + 1)
    assert patching.layers == ["embedding", "1", "2", "3"] and patching.side == "text"
    # the inputs differ only at position 2; the metric reads the output only at the last position
    assert_close(patching.recovered[0, 2], torch.tensor(1.0), rtol=0, atol=1e-4)
    assert_close(patching.recovered[3, last], torch.tensor(1.0), rtol=0, atol=1e-4)
    assert bool((patching.recovered[0, [0, 1, *range(3, last + 1)]] == 0).all())
    assert bool((patching.recovered[3, :last] == 0).all())
    assert bool(
        (patching.recovered[:, :2] == 0).all()
    )  # the positions before the change are equal in both
    assert patching.clean != patching.corrupted and bool((patching.recovered[1:3, 2:] != 0).any())


def test_either_stack_of_a_translator_and_one_of_shared_blocks_can_be_patched():
    bundle = translator()
    clean, corrupted = (bundle.reading(text, "zwei hunde") for text in ("two dogs", "dogs two"))
    patching = patch_stream(clean, corrupted, logit_at(2, 5), part="encoder")
    assert patching.side == "source" and patching.recovered.shape[0] == 2
    assert patching.tokens == list(corrupted.tokens["source"])
    shared = encoder(shared_layers=True, num_layers=3)
    clean, corrupted = (
        shared.reading(f"A {a} looks {b}.") for a, b in (("fox", "on"), ("on", "fox"))
    )
    patching = patch_stream(clean, corrupted, logit_at(0, 9))
    assert patching.recovered.shape[0] == 4
    assert_close(patching.recovered[3, 0], torch.tensor(1.0), rtol=0, atol=1e-4)
    assert bool((patching.recovered[3, 1:] == 0).all()) and bool(
        (patching.recovered[2, 1:] != 0).any()
    )


def test_inputs_that_cannot_be_compared_are_refused():
    bundle = gpt()
    clean, corrupted = clean_and_corrupted(bundle)
    with pytest.raises(UsageError, match="the same for both"):
        patch_stream(clean, clean, logit_at(3, 5))
    with pytest.raises(UsageError, match="has 3 tokens and the corrupted one"):
        patch_stream(bundle.reading("", [5, 6]), corrupted, logit_at(2, 5))
    with pytest.raises(UsageError, match="no encoder made of Transformer blocks"):
        patch_stream(clean, corrupted, logit_at(3, 5), part="encoder")
    with pytest.raises(UsageError, match="one and the same model"):
        patch_stream(clean, gpt().reading("", [5]), logit_at(0, 5))
