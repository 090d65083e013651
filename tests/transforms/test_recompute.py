"""Activation checkpointing of blocks: the same outputs and names, less memory."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from headway.base.errors import UsageError
from headway.models import GPT, GPTConfig, parameter_count
from headway.transforms import recompute
from tests.fixtures import zoo

WITH_BLOCKS = [
    *("translator", "translator post-norm", "translator relative", "rnn under transformer"),
    *("feed-forward under transformer", "gpt", "gpt modern", "gpt post-norm"),
]


def loss_of(model: nn.Module) -> Tensor:
    """Return a loss that depends on the whole model; sources have different lengths."""
    read = torch.tensor([[1, 5, 9, 4], [1, 3, 3, 8]])
    if isinstance(model, GPT):
        return model(read).square().mean()
    source, keys = zoo.sources([[4, 5, 6, 2], [7, 2]])
    return model(source, read, keys).square().mean()


def gradients(model: nn.Module) -> dict[str, Tensor]:
    torch.manual_seed(5)
    model.train().zero_grad()
    loss = loss_of(model)
    torch.rand(3)  # the generator has advanced when the blocks run again
    loss.backward()
    by_name = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return by_name | {"loss": loss.detach(), "next random": torch.rand(3)}


@pytest.mark.parametrize("name", WITH_BLOCKS)
def test_gradients_under_dropout_equal_the_plain_ones(name):
    plain = zoo.MODELS[name].build()
    recomputed = recompute(deepcopy(plain))
    expected, actual = gradients(plain), gradients(recomputed)
    assert expected.keys() == actual.keys() and len(actual) > 10
    for key, value in expected.items():
        assert_close(actual[key], value, rtol=0, atol=1e-6)


def test_each_block_runs_twice_when_training_and_once_otherwise():
    model = recompute(recompute(zoo.MODELS["gpt"].build()))
    calls = []
    for block in model.decoder.blocks:
        block.attention.register_forward_hook(lambda *_: calls.append(1))
    gradients(model)
    assert len(calls) == 2 * 2
    calls.clear()
    with torch.no_grad():
        loss_of(model)
    assert len(calls) == 2


def test_names_copies_and_decoding_are_unchanged():
    plain = zoo.MODELS["gpt"].build()
    model = recompute(deepcopy(plain))
    assert list(model.state_dict()) == list(plain.state_dict())
    assert [n for n, _ in model.named_modules()] == [n for n, _ in plain.named_modules()]
    copy = deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        tokens = torch.tensor([[1, 5, 9]])
        assert torch.equal(copy(tokens), plain(tokens))  # not through the original's blocks
        state = copy.start(tokens[:, :0])
        assert_close(copy.step(tokens, state)[0], plain(tokens), rtol=0, atol=1e-6)


def stored_bytes(model: GPT, tokens: Tensor) -> int:
    """Return the bytes that the forward pass stores for the gradient, without parameters."""
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    stored: dict[int, Tensor] = {}

    def store(tensor: Tensor) -> Tensor:
        stored[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(store, lambda tensor: tensor):
        hidden = model.train().hidden(tokens)
    assert hidden.requires_grad
    return sum(
        t.untyped_storage().nbytes() for pointer, t in stored.items() if pointer not in parameters
    )


def test_blocks_store_little_more_than_their_inputs():
    config = GPTConfig(model_dim=24, num_heads=3, ffn_dim=96, num_layers=5, dropout=0.1)
    tokens = torch.randint(0, 8000, (3, 50))
    plain, recomputed = (
        stored_bytes(GPT(config), tokens),
        stored_bytes(recompute(GPT(config)), tokens),
    )
    input_bytes = 3 * 50 * 24 * 4
    assert plain > 5 * 12 * input_bytes
    assert (
        recomputed < (5 + 5) * input_bytes
    )  # one input per block; the embedding and the last norm


def test_a_model_without_blocks_is_refused():
    with pytest.raises(UsageError, match="no blocks"):
        recompute(zoo.MODELS["rnn"].build())
    assert parameter_count(recompute(zoo.MODELS["transformer under rnn"].build()))
