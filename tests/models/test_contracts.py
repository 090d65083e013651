"""Construction of models without values, on the meta device."""

import torch
from torch import nn

from headway.models import GPT, GPTConfig, shapes_only


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
