"""In tests, the first arguments of each shape and type to a function of `headway` are checked."""

import pytest
import torch
from jaxtyping import TypeCheckError

from headway.attention import Mask
from headway.attention.kernel import masked_softmax
from headway.models import GPT, GPTConfig
from tests import shape_checks


def test_a_wrong_shape_and_a_wrong_type_are_refused_after_correct_ones():
    allowed = Mask(causal=True).dense(3, 4)
    masked_softmax(torch.randn(2, 2, 3, 4), allowed)
    masked_softmax(torch.randn(2, 2, 3, 4), allowed)
    for scores, mask in (
        (torch.randn(2, 2, 3, 5), allowed),
        (torch.randn(2, 2, 3, 4), allowed.float()),
        (torch.randn(2, 3, 4), allowed),
    ):
        with pytest.raises(TypeCheckError):
            masked_softmax(scores, mask)


def test_values_of_a_dataclass_are_checked():
    Mask(keys=torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(TypeCheckError):
        Mask(keys=torch.ones(2, 3))


def test_a_method_is_checked_when_a_model_calls_it(monkeypatch):
    config = GPTConfig(model_dim=8, num_heads=2, ffn_dim=8, num_layers=1, vocabulary=5)
    model = GPT(config).eval()
    tokens = torch.zeros(1, 3, dtype=torch.long)
    model(tokens)
    monkeypatch.setattr(model.embedding, "forward", lambda *_, **__: torch.zeros(4, 8))
    with pytest.raises(TypeCheckError):
        model(torch.zeros(1, 4, dtype=torch.long))


def test_only_the_first_calls_of_a_test_are_compared():
    allowed = Mask(causal=True).dense(3, 4)
    for _ in range(shape_checks._COMPARED):
        masked_softmax(torch.randn(2, 2, 3, 4), allowed)
    masked_softmax(torch.randn(2, 2, 3, 4), allowed.float() > 0)
    masked_softmax(torch.randn(2, 3, 4), allowed)
    shape_checks.start_test()
    with pytest.raises(TypeCheckError):
        masked_softmax(torch.randn(2, 3, 4), allowed)


def test_a_method_that_is_called_often_takes_the_place_of_its_check_until_the_next_file():
    shape_checks.start_file()
    check, mask = vars(Mask)["dense"], Mask(causal=True)
    for _ in range(shape_checks._COMPARED + shape_checks._PASSED):
        mask.dense(3, 4)
    assert vars(Mask)["dense"] is check.__wrapped__
    shape_checks.start_file()
    assert vars(Mask)["dense"] is check
