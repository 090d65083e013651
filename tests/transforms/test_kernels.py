"""The kernels in Triton give the numbers of the equations, on a GPU or in Triton's interpreter.

Triton comes with torch for CUDA. Without a GPU its interpreter executes the kernels on the CPU.
"""

import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

pytest.importorskip("triton")

from headway.blocks import LayerNorm, RMSNorm
from headway.blocks.feedforward import ACTIVATIONS
from headway.models import GPT, GPTConfig, ViT, ViTConfig
from headway.transforms import kernels, quantize, replay_steps
from headway.transforms.fast import block, residual, static_cache
from headway.transforms.fast.table import fast, prepare_for_inference
from headway.transforms.kernels import activation_name, norms, one_vector
from headway.transforms.kernels.linear import linear_for_training
from headway.transforms.kernels.loss import loss_of_rows
from headway.transforms.kernels.new_token import attend_new_tokens
from headway.transforms.kernels.norms import added, added_and_normed
from headway.transforms.kernels.one_vector import linear_of_vector
from headway.transforms.recorder import CudaRecorder, Recorder
from tests.fixtures.zoo import MODELS, VOCABULARY

ROOT = Path(__file__).resolve().parents[2]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = [
    # of NumPy, by the interpreter
    pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning"),
    *([pytest.mark.gpu] if DEVICE == "cuda" else []),
]


class CalledAgain(Recorder):
    """What stands for a graph on the CPU, where the interpreter's operations are not torch's."""

    device_type = "cpu"

    @staticmethod
    def free_bytes(device):
        return 2**40

    def record(self, function):
        self._function, self._result = function, function()
        return self._result

    def replay(self):
        with torch.inference_mode(False), torch.no_grad():
            self._result.copy_(self._function())


@pytest.fixture
def by_kernels(monkeypatch):
    """Let kernels compute wherever they are asked whether they do."""
    if DEVICE == "cpu":
        for module in (block, static_cache):
            monkeypatch.setattr(module, "computes", lambda x: x.dtype in kernels.DTYPES)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    if DEVICE == "cpu":
        for name in ("one_vector", "new_token"):
            monkeypatch.setattr(getattr(kernels, name), "starts_early", lambda device: False)


@pytest.mark.parametrize("norm", [None, LayerNorm, RMSNorm])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.turns(4)
@pytest.mark.parametrize(("outputs", "inputs"), [(7, 12), (2050, 9), (3, 8200)])
def test_a_linear_layer_of_one_vector(outputs, inputs, has_bias, activation, norm):
    x = torch.randn(1, 1, inputs, device=DEVICE)
    weight = torch.randn(outputs, inputs, device=DEVICE) / inputs**0.5
    bias = torch.randn(outputs, device=DEVICE) if has_bias else None
    residual = torch.randn(1, 1, outputs, device=DEVICE) if has_bias else None
    layer = None if norm is None else norm(inputs).to(DEVICE)
    if layer is not None:
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter)
    with torch.no_grad():
        expected = F.linear(x if layer is None else layer(x), weight, bias)
        expected = expected if activation is None else ACTIVATIONS[activation](expected)
        expected = expected if residual is None else expected + residual
        y = linear_of_vector(x, weight, bias, norm=layer, activation=activation, residual=residual)
    assert_close(y, expected, rtol=1e-4, atol=1e-4)


def test_every_activation_of_a_feedforward_network_has_its_name():
    assert {name: activation_name(f) for name, f in ACTIVATIONS.items()} == {
        name: name for name in ACTIVATIONS
    }
    assert activation_name(torch.tanh) is None


@pytest.mark.parametrize(("heads", "groups"), [(3, 3), (6, 2), (4, 1)])
@pytest.mark.parametrize(("size", "value_size"), [(8, 8), (5, 12)])
def test_attention_of_new_tokens(size, value_size, heads, groups):
    past, capacity = torch.tensor([0, 70, 140]), 150
    keys, values = (torch.randn(3, groups, capacity, n, device=DEVICE) for n in (size, value_size))
    q = torch.randn(3, heads, 1, size, device=DEVICE)
    joint = torch.randn(3, 1, groups * (size + value_size), device=DEVICE)
    k, v = (  # views of one product, as a model makes them
        part.view(3, 1, groups, -1).transpose(1, 2)
        for part in joint.split([groups * size, groups * value_size], dim=-1)
    )
    stores = (keys.clone(), values.clone())
    context = attend_new_tokens(q, k, v, stores, past.to(DEVICE))
    for row, count in enumerate(past.tolist()):
        for store, before, new in zip(stores, (keys, values), (k, v), strict=True):
            assert torch.equal(store[row, :, count], new[row, :, 0])
            assert torch.equal(store[row, :, :count], before[row, :, :count])
            assert torch.equal(store[row, :, count + 1 :], before[row, :, count + 1 :])
        all_keys, all_values = (
            store[row, :, : count + 1].repeat_interleave(heads // groups, 0) for store in stores
        )
        expected = F.scaled_dot_product_attention(q[row], all_keys, all_values)
        assert_close(context[row], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("vocabulary", "padding"), [(7, 0), (2048, 0), (2051, 13)])
def test_the_loss_of_rows_and_its_gradient(vocabulary, padding, is_weighted, smoothing):
    logits = 3 * torch.randn(5, vocabulary, device=DEVICE)
    targets = torch.randint(vocabulary, (5,), device=DEVICE)
    weights = torch.rand(5, device=DEVICE) if is_weighted else None
    logits.requires_grad_()
    log_p = logits.log_softmax(-1)
    surprises = -log_p.gather(1, targets[:, None])[:, 0] * (1 if weights is None else weights)
    smooth = -log_p.mean(-1) * (1 if weights is None else weights)
    expected = (1 - smoothing) * surprises + smoothing * smooth
    expected.sum().backward()
    padded = F.pad(logits.detach(), (0, padding), value=5.0)
    losses, found = loss_of_rows(padded, vocabulary, targets, weights, smoothing, wants_grad=False)
    assert torch.equal(padded[:, :vocabulary], logits)
    assert_close((losses, found), (expected.detach(), surprises.detach()))
    loss_of_rows(padded, vocabulary, targets, weights, smoothing, wants_grad=True)
    assert_close(padded, F.pad(logits.grad, (0, padding)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make_norm", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("uses", ["both", "normed", "total"])
@pytest.mark.parametrize("has_change", [False, True])
def test_a_sum_and_its_norm_with_their_gradients(has_change, uses, make_norm):
    norm = make_norm(13).to(DEVICE)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    x, factor, change = (torch.randn(2, 520, 13, device=DEVICE) for _ in range(3))
    found = {}
    for way in ("kernel", "plain"):
        leaves = [y.clone().requires_grad_() for y in ((x, change) if has_change else (x,))]
        norm.zero_grad()
        if way == "kernel":
            total, normed = added_and_normed(*leaves, *[None][has_change:], norm, torch.float32)
        else:
            total = sum(leaves)
            normed = norm(total)
        y = factor * (total if uses == "total" else normed)
        (added(total, y) if uses == "both" else y).square().sum().backward()
        of_parameters = [torch.zeros(()) if p.grad is None else p.grad for p in norm.parameters()]
        found[way] = [total, normed, *(leaf.grad for leaf in leaves), *of_parameters]
    assert_close(found["kernel"], found["plain"], rtol=1e-4, atol=1e-3)


def test_a_sum_of_two_dtypes_and_its_norm_in_a_third():
    norm = LayerNorm(13).to(DEVICE)
    x, change = torch.randn(2, 2, 7, 13, device=DEVICE)
    small = change.bfloat16().requires_grad_()
    total, normed = added_and_normed(x, small, norm, torch.float16)
    assert total.dtype == torch.float32 and torch.equal(total, x + small)
    assert_close(normed, norm(x + small).half(), rtol=0.01, atol=0.01)
    (total.sum() + normed.float().square().sum()).backward()
    assert small.grad.dtype == torch.bfloat16
    total = added(x, small)
    assert total.dtype == torch.float32 and torch.equal(total, x + small)


STACKS = {
    "decoder": lambda: GPT(
        GPTConfig(
            model_dim=24, num_heads=3, ffn_dim=40, num_layers=3, vocabulary=VOCABULARY, dropout=0.0
        )
    ),
    "encoder": lambda: ViT(
        ViTConfig(model_dim=24, num_heads=3, ffn_dim=40, num_layers=3, image_size=8, patch_size=4)
    ),
}


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", STACKS)
def test_a_stack_by_one_kernel_between_two_sublayers(name, precision, monkeypatch):
    plain = STACKS[name]().to(DEVICE)
    model = fast(deepcopy(plain))
    tokens = torch.randint(VOCABULARY, (2, 7), device=DEVICE)
    inputs = tokens if name == "decoder" else torch.randn(2, 3, 8, 8, device=DEVICE)
    factor = torch.randn_like(plain(inputs))  # the gradient of its square would be 0 by the norm
    monkeypatch.setattr(residual, "LARGE", 0)
    monkeypatch.setattr(residual, "computes", lambda x: x.dtype in kernels.DTYPES)
    launched = []
    kernel = norms.added_and_normed
    monkeypatch.setattr(norms, "added_and_normed", lambda *a: launched.append(1) or kernel(*a))
    for one in (plain, model):
        with torch.autocast(DEVICE, precision, enabled=precision != torch.float32):
            y = one(inputs)
        (y.float() * factor).sum().backward()
    assert len(launched) == 2 * 3 + 1
    for (part, p), q in zip(plain.named_parameters(), model.parameters(), strict=True):
        bound = 1e-4 if precision == torch.float32 else 0.1
        assert (p.grad - q.grad).norm() <= bound * (p.grad.norm() + 1), part
    # a hook sees the outputs of its block, which is then called
    model.zero_grad()
    seen = []
    stack = model.decoder if name == "decoder" else model.encoder
    stack.blocks[1].register_forward_hook(lambda *_: seen.append(1))
    model(inputs)
    assert seen


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS.values()])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(70, 5, 133), (5, 3, 7)])
def test_a_linear_layer_for_training(rows, inputs, outputs, activation):
    layer = torch.nn.Linear(inputs, outputs).to(DEVICE)
    x, dy = (
        torch.randn(2, rows, inputs, device=DEVICE),
        torch.randn(2, rows, outputs, device=DEVICE),
    )
    found = {}
    for way in ("kernel", "plain"):
        leaf = x.clone().requires_grad_()
        layer.zero_grad()
        if way == "kernel":
            y = linear_for_training(leaf, layer.weight, layer.bias, torch.float32, activation)
        else:
            y = layer(leaf) if activation is None else activation(layer(leaf))
        y.backward(dy)
        found[way] = [y.detach(), leaf.grad, layer.weight.grad.clone(), layer.bias.grad.clone()]
    assert_close(found["kernel"], found["plain"], rtol=1e-4, atol=1e-4)
    leaf = x.bfloat16().requires_grad_()
    layer.zero_grad()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        y = linear_for_training(leaf, layer.weight, layer.bias, torch.bfloat16, activation)
    y.backward(dy.bfloat16())
    assert y.dtype == leaf.grad.dtype == torch.bfloat16
    bound = 0.05 if activation is F.relu else 0.01  # an output near 0 may be rounded to it
    for one, other in zip((layer.weight.grad, layer.bias.grad), found["plain"][2:], strict=True):
        assert one.dtype == torch.float32 and (one - other).norm() < bound * other.norm()


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("gpt")])
@pytest.mark.parametrize("num_rows", [1, 3])
def test_recorded_steps_by_kernels_are_ordinary_steps(num_rows, name, by_kernels, monkeypatch):
    launched = compared(MODELS[name].plain(), num_rows, 1e-4, monkeypatch)
    assert launched == (num_rows == 1 and name in ("gpt", "gpt modern"))


def test_recorded_steps_by_kernels_read_matrices_in_bfloat16(by_kernels, monkeypatch):
    config = GPTConfig(
        model_dim=48, num_heads=3, ffn_dim=64, num_layers=2, vocabulary=VOCABULARY, max_length=16
    )
    # the prompt and the logits are products of inputs rounded to bfloat16
    assert compared(quantize(GPT(config), "bfloat16"), 1, 0.01, monkeypatch)


def compared(plain, num_rows, tolerance, monkeypatch):
    """Compare recorded steps with those of the equations; return whether kernels were launched."""
    plain = plain.to(DEVICE).eval()
    ordinary = deepcopy(plain)
    recorder = CudaRecorder if DEVICE == "cuda" else CalledAgain
    model = replay_steps(prepare_for_inference(plain), recorder=recorder)
    launched = []
    compute = one_vector.linear_of_vector
    monkeypatch.setattr(
        one_vector,
        "linear_of_vector",
        lambda *args, **options: (launched.append(args), compute(*args, **options))[1],
    )
    tokens = torch.randint(VOCABULARY, (num_rows, 9), device=DEVICE)
    with torch.inference_mode():
        states = [one.start(tokens[:, :3]) for one in (ordinary, model)]
        for at in range(3, 9):
            one, other = (
                a.step(tokens[:, at : at + 1], state)[0]
                for a, state in zip((ordinary, model), states, strict=True)
            )
            assert_close(other, one, rtol=tolerance, atol=tolerance)
    return bool(launched)


def test_every_kernel_is_compiled_for_a_gpu():
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    program = [sys.executable, "-m", "tests.transforms.compile_kernels"]
    done = subprocess.run(
        program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
