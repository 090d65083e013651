"""Construction of models without values, on the meta device; and models of another dtype."""

import pytest
import torch
from torch import nn

from headway.models import GPT, GPTConfig, shapes_only
from tests.fixtures.zoo import MODELS, some_rows


def test_a_model_of_shapes_only_has_the_shapes_and_no_values():
    config = GPTConfig(model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, vocabulary=11)
    with shapes_only():
        model = GPT(config)
    whole = GPT(config)
    assert all(p.is_meta for p in model.parameters())
    assert {n: p.shape for n, p in model.named_parameters()} == {
        n: p.shape for n, p in whole.named_parameters()
    }


def test_tensors_with_memory_are_initialised_inside_the_block_as_outside():
    torch.manual_seed(3)
    expected = nn.init.normal_(torch.empty(5))
    torch.manual_seed(3)
    with shapes_only():
        assert torch.equal(nn.init.normal_(torch.empty(5, device="cpu")), expected)
        assert nn.init.xavier_uniform_(torch.empty(5, 7)).is_meta


def test_tensors_created_after_the_block_have_memory():
    with shapes_only():
        pass
    assert nn.Linear(3, 4).weight.device.type == "cpu"


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("captioner")])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_model_of_another_dtype_computes_in_it(name, dtype):
    family, rows = MODELS[name], some_rows(3, seed=5)
    model, read = family.build(), torch.randint(3, 11, (3, 4))
    expected = family.full(model, rows, read)
    logits = family.full(model.to(dtype), rows, read)
    assert logits.dtype == dtype
    atol = 0.1 if dtype == torch.bfloat16 else 1e-4
    torch.testing.assert_close(logits.float(), expected, rtol=0, atol=atol)
