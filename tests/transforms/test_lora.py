"""Low-rank adapters: no effect at first, few parameters, and plain layers after merging."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import headway
from headway.bundle import TextBundle
from headway.models import parameter_count
from headway.transforms import LoRALinear, lora, merge_lora, recompute
from headway.transforms.quantize import NUMBERS
from tests.fixtures import bundles, zoo
from tests.fixtures.rounding import gpt

ADAPTABLE = [n for n in zoo.MODELS if n != "rnn without attention"]
READ = torch.tensor([[1, 5, 9], [1, 3, 8]])
ROWS = [[4, 5, 6, 2], [7, 2]]


def lora_state(model: nn.Module) -> dict[str, Tensor]:
    """The adapters alone, by name."""
    return {
        n: p.detach() for n, p in model.named_parameters() if n.endswith((".lora_a", ".lora_b"))
    }


def logits(name: str, model: nn.Module) -> Tensor:
    return zoo.MODELS[name].full(model, ROWS, READ)


def trained(name: str, model: nn.Module, steps: int = 4) -> nn.Module:
    updates = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
    model.train()
    for _ in range(steps):
        updates.zero_grad()
        logits(name, model).square().mean().backward()
        updates.step()
    return model.eval()


def test_an_adapted_layer_equals_its_equation():
    linear = nn.Linear(5, 4)
    layer, x = LoRALinear(linear, 2, 6.0), torch.randn(3, 7, 5)
    nn.init.normal_(layer.lora_b)
    weight = linear.weight + 6.0 / 2 * layer.lora_b @ layer.lora_a
    assert_close(layer(x), x @ weight.T + linear.bias, rtol=0, atol=1e-5)
    assert layer.lora_a.shape == (2, 5) and layer.lora_b.shape == (4, 2)


def test_dropout_applies_to_the_input_of_the_adapter_only():
    layer, x = LoRALinear(nn.Linear(50, 4), 2, 2.0, dropout=0.5), torch.randn(3, 50)
    nn.init.ones_(layer.lora_b)
    plain = nn.functional.linear(x, layer.weight, layer.bias)
    torch.manual_seed(1)
    update = layer(x) - plain
    torch.manual_seed(1)
    expected = layer.dropout(x) @ layer.lora_a.T @ layer.lora_b.T
    assert_close(update, expected, rtol=0, atol=1e-5)
    assert not torch.allclose(layer.eval()(x) - plain, update, atol=1e-3)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ADAPTABLE)
def test_the_first_output_equals_the_plain_models_and_only_adapters_are_trained(name):
    plain = zoo.MODELS[name].plain()
    model = lora(deepcopy(plain), 2)
    # torch's GRU sums in another order when its weights need no gradient
    frozen = deepcopy(plain).requires_grad_(False)
    with torch.no_grad():
        assert torch.equal(logits(name, model), logits(name, frozen))
    trained(name, model)
    before, after = plain.state_dict(), model.state_dict()
    assert all(torch.equal(after[n], value) for n, value in before.items())
    added = after.keys() - before.keys()
    assert added == lora_state(model).keys() == {n for n in after if ".lora_" in n}
    assert {n for n, p in model.named_parameters() if p.requires_grad} == added
    with torch.no_grad():
        assert not torch.allclose(logits(name, model), logits(name, plain), atol=1e-3)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ADAPTABLE)
def test_a_merged_model_is_plain_again_and_computes_the_same(name):
    plain = zoo.MODELS[name].plain()
    model = trained(name, lora(deepcopy(plain), 2, alpha=4.0, dropout=0.1))
    merged = merge_lora(deepcopy(model))
    with torch.no_grad():
        assert_close(logits(name, merged), logits(name, model), rtol=0, atol=1e-5)
    assert list(merged.state_dict()) == list(plain.state_dict())
    assert [n for n, _ in merged.named_parameters()] == [n for n, _ in plain.named_parameters()]
    assert all(p.requires_grad for p in merged.parameters())
    kinds = [(n, type(m)) for n, m in merged.named_modules()]
    assert kinds == [(n, type(m)) for n, m in plain.named_modules()]
    assert not merged.training and any(isinstance(m, LoRALinear) for m in model.modules())


def test_a_fine_tuned_model_is_restored_from_its_adapters_alone():
    plain = zoo.MODELS["gpt"].plain()
    model = trained("gpt", lora(deepcopy(plain), 3))
    state = lora_state(model)
    assert sum(t.numel() for t in state.values()) < parameter_count(plain) / 3
    restored = lora(deepcopy(plain), 3)
    assert restored.load_state_dict(state, strict=False).unexpected_keys == []
    with torch.no_grad():
        assert torch.equal(logits("gpt", restored), logits("gpt", model))


def test_by_default_attention_and_feed_forward_layers_are_adapted_otherwise_the_targets():
    build = zoo.MODELS["translator"].build
    names = {n.rsplit(".", 1)[0] for n in lora_state(lora(build(), 2))}
    assert len(names) == 2 * 6 + 2 * 10 and "decoder.blocks.1.cross.value" in names
    query_value = lora_state(lora(build(), 2, targets=["*.query", "*.value"]))
    assert {n.split(".")[-2] for n in query_value} == {"query", "value"}
    single = lora_state(lora(build(), 2, targets=["encoder.blocks.0.feedforward.expand"]))
    assert len(single) == 2


def test_adapters_learn_inside_blocks_that_are_recomputed():
    """The inputs of the first block need no gradient, as the embedding is frozen."""
    gradients = []
    for wrap in (lambda model: model, recompute):
        torch.manual_seed(2)
        model = wrap(lora(zoo.MODELS["gpt"].plain(), 2)).train()
        for module in model.modules():
            if isinstance(module, LoRALinear):
                nn.init.normal_(module.lora_b)
        logits("gpt", model).square().mean().backward()
        gradients.append([p.grad for p in model.parameters() if p.requires_grad])
    for plain, recomputed in zip(*gradients, strict=True):
        assert plain.any()
        assert_close(recomputed, plain, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gpt", {"targets": ["*.quary"]}, r"targets=\['\*.quary'\]"),
        ("gpt", {"targets": ["output"]}, "output shares its matrix"),
        ("gpt", {"rank": 0}, "rank=0"),
        ("gpt", {"rank": 25}, "rank=25 .* 24 x 24"),
        ("rnn without attention", {}, "no attention or feed-forward one"),
    ],
)
def test_settings_that_adapt_nothing_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        lora(zoo.MODELS[name].plain(), **{"rank": 2, **options})


def test_adapters_on_adapters_are_refused_and_merging_none_changes_nothing():
    model = zoo.MODELS["gpt"].plain()
    model.embedding.requires_grad_(False)
    merge_lora(model)
    assert not model.embedding.tokens.weight.requires_grad
    with pytest.raises(ValueError, match="merge_lora first"):
        lora(lora(model, 2), 2)


@pytest.mark.parametrize("kind", sorted(NUMBERS))
def test_a_loaded_model_of_small_numbers_is_adapted_and_merged(kind, tmp_path):
    model = gpt(vocabulary=bundles.TOKENIZER.size, model_dim=64)
    TextBundle(model, bundles.TOKENIZER).save(tmp_path / "m")
    bundle = headway.load(tmp_path / "m", dtype=kind)
    prompt, tokens = ["the fox eats"], torch.randint(bundles.TOKENIZER.size, (2, 9))
    with torch.no_grad():
        before, text = bundle.model(tokens), bundle.generate(prompt, max_tokens=8, temperature=0)
        weights = {n: m.weight for n, m in bundle.model.named_modules() if n.endswith(".query")}
        adapted = lora(bundle.model, 2)
        assert_close(adapted(tokens), before, rtol=0, atol=0.05)  # fast products round otherwise
        assert bundle.generate(prompt, max_tokens=8, temperature=0)[0][0].text == text[0][0].text
        for name, weight in weights.items():
            assert torch.equal(adapted.get_submodule(name).weight, weight)
            nn.init.ones_(adapted.get_submodule(name).lora_b)
        changed = adapted(tokens)
        assert (changed - before).abs().max() > 0.1
        assert_close(merge_lora(adapted)(tokens), changed, rtol=0, atol=0.05)
