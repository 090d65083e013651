"""Fast kernels compared with the reference, float64 and torch; the numbers of the lectures."""

import math
from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch.testing import assert_close

from headway.attention import Mask, ScaledDot, SoftmaxKernel, linear
from headway.attention.kernel import masked_softmax
from headway.transforms.fast import additive, window
from headway.transforms.fast import masks as fast_masks
from headway.transforms.fast.flex import FlexDot
from headway.transforms.twins import plain_class
from tests.fixtures.kernel_inputs import MASKS, B, H, K, S, T, inputs
from tests.fixtures.zoo import KERNELS


def build_kernel(name, dtype=torch.float32):
    return KERNELS[name](H, K, K).to(dtype)


def phi(x):
    return [n + 1 if n > 0 else math.exp(n) for n in x]


def score_by_hand(name, kernel, h, q, k):
    """Return the score e(q, k) of one head, from lists of numbers."""
    parameters = {n: p.detach() for n, p in kernel.named_parameters()}
    pairs = list(product(range(K), repeat=2))
    if name in {"dot", "bilinear"}:
        matrix = torch.eye(K) if name == "dot" else parameters["matrix"][h]
        return sum(q[i] * float(matrix[i, j]) * k[j] for i, j in pairs)
    if name == "additive":
        total = 0.0
        for a in range(parameters["vector"].shape[1]):
            inner = sum(float(parameters["of_key"][h, i, a]) * k[i] for i in range(K))
            inner += sum(float(parameters["of_query"][h, i, a]) * q[i] for i in range(K))
            total += float(parameters["vector"][h, a]) * math.tanh(inner)
        return total
    if name == "capped dot":
        return 2.0 * math.tanh(0.4 * sum(a * b for a, b in zip(q, k, strict=True)) / 2.0)
    if name == "linear elu":
        return math.log(sum(a * b for a, b in zip(phi(q), phi(k), strict=True)))
    return sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(K)


def by_hand(name, kernel, q, k, v, mask, bias=None):
    """Loop over every query and key in float64, without any code of the kernels."""
    out = torch.zeros(B, H, T, v.shape[-1], dtype=torch.float64)
    if name == "window":
        mask = replace(mask, window=min(3, mask.window or 3))
    allowed = mask.dense(T, S).expand(B, 1, T, S)
    for b, h, t in product(range(B), range(H), range(T)):
        allowed_keys = [s for s in range(S) if allowed[b, 0, t, s]]
        query = q[b, h, t].double().tolist()
        scores = [
            score_by_hand(name, kernel, h, query, k[b, h, s].double().tolist())
            for s in allowed_keys
        ]
        if bias is not None:
            scores = [
                x + float(bias[b, h, t, s]) for x, s in zip(scores, allowed_keys, strict=True)
            ]
        weights = scores if name == "linear" else [math.exp(x - max(scores)) for x in scores]
        total = 1.0 if name == "linear" else sum(weights)
        if name == "sinks" and scores:
            total += math.exp(kernel.sinks[h].item() - max(scores))
        for weight, s in zip(weights, allowed_keys, strict=True):
            out[b, h, t] += weight / total * v[b, h, s].double()
    return out


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_equals_the_sum_written_out_by_hand(name, mask, biased):
    q, k, v = inputs()
    kernel, bias = build_kernel(name), torch.randn(B, H, T, S) if biased else None
    expected = by_hand(name, kernel, q, k, v, mask, bias)
    assert_close(kernel(q, k, v, mask, bias).double(), expected, rtol=0, atol=5e-6)


def reference(kernel, q, k, v, mask, bias):
    """Compute the context by the plain class of a softmax kernel, else by weights times values."""
    if not isinstance(kernel, SoftmaxKernel):
        return kernel.weights(q, k, mask, bias) @ v
    twin = type(kernel)
    kernel.__class__ = ScaledDot if twin is FlexDot else plain_class(kernel)
    try:
        return kernel(q, k, v, mask, bias)
    finally:
        kernel.__class__ = twin


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("name", KERNELS)
def test_fast_equals_the_reference_with_all_gradients_for_any_chunk_size(
    monkeypatch, name, mask, biased
):
    monkeypatch.setattr(additive, "CHUNK", 41)
    monkeypatch.setattr(linear, "CHUNK", 2)
    monkeypatch.setattr(window, "CHUNK", 2)
    kernel = build_kernel(name, torch.float64)
    grads = []
    for compute in (kernel, partial(reference, kernel)):
        torch.manual_seed(3)
        bias = torch.randn(B, H, T, S, dtype=torch.float64)
        leaves = [x.requires_grad_() for x in (*inputs(torch.float64), bias)]
        leaves = leaves if biased else leaves[:3]
        kernel.zero_grad()
        out = compute(*leaves[:3], mask, leaves[3] if biased else None)
        out.backward(torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out))
        parameter_grads = [p.grad.clone() for p in kernel.parameters()]
        assert all(torch.isfinite(leaf.grad).all() for leaf in leaves)
        grads.append([out, *(leaf.grad for leaf in leaves), *parameter_grads])
    for result, expected in zip(*grads, strict=True):
        assert_close(result, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_passes_a_gradient_check(name):
    kernel = build_kernel(name, torch.float64)
    q, k, v = (x[:1, :, :3].requires_grad_() for x in inputs(torch.float64, values=2))

    def context(q, k, v, *parameters):
        by_name = dict(zip(dict(kernel.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(kernel, by_name, (q, k, v, Mask(causal=True)))

    parameters_ = [p.detach().clone().requires_grad_() for p in kernel.parameters()]
    assert torch.autograd.gradcheck(context, (q, k, v, *parameters_))


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("name", KERNELS)
def test_weights_times_values_is_the_context(name, mask):
    q, k, v = inputs()
    kernel = build_kernel(name)
    weights = kernel.weights(q, k, mask)
    assert_close(weights @ v, kernel(q, k, v, mask), rtol=0, atol=5e-6)
    effective_mask = kernel.narrowed(mask) if name == "window" else mask
    allowed = effective_mask.dense(T, S).expand(B, H, T, S)
    assert bool((weights[~allowed] == 0).all())
    if kernel.normalised:
        assert_close(weights.sum(-1), allowed.any(-1).float(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_a_query_without_keys_gets_zero_and_finite_gradients(name):
    q, k, v = (x.requires_grad_() for x in inputs())
    context = build_kernel(name)(q, k, v, MASKS["a sequence without keys"])
    assert torch.equal(context[1], torch.zeros_like(context[1]))
    context.sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))


@pytest.mark.parametrize("name", KERNELS)
def test_scores_in_the_thousands_give_finite_outputs(name):
    q, k, v = inputs()
    context = build_kernel(name)(q * 1e4, k * 1e4, v, MASKS["causal and padded"])
    assert torch.isfinite(context).all()


@pytest.mark.parametrize("name", KERNELS)
def test_bfloat16_stays_close_to_float32(name):
    q, k, v = inputs()
    kernel = build_kernel(name)
    low = kernel(*(x.bfloat16() for x in (q, k, v)), MASKS["causal and padded"])
    assert low.dtype == torch.bfloat16
    full = kernel(q, k, v, MASKS["causal and padded"])
    assert (low.float() - full).abs().max() < 0.05


def test_the_numbers_of_the_lectures():
    def softmax(*scores: float) -> list[float]:
        q, k = torch.ones(1, 1, 1, 1), torch.tensor(scores).view(1, 1, -1, 1)
        allowed = torch.isfinite(k.flatten())[None]
        weights = ScaledDot().weights(q, k.nan_to_num(neginf=0.0), Mask(keys=allowed))
        return [round(float(w), 2) for w in weights.flatten()]

    q = torch.zeros(1, 1, 1, 64)
    q[..., 0] = 1
    k = torch.zeros(1, 1, 2, 64)
    k[0, 0, :, 0] = torch.tensor([112.0, 96.0])
    weights = ScaledDot().weights(q, k, Mask()).flatten()
    assert [round(float(w), 2) for w in weights] == [0.88, 0.12]
    inf = float("inf")
    assert softmax(-0.28, 0.29, -inf) == [0.36, 0.64, 0.0]
    assert softmax(-0.06, -inf, -inf) == [1.0, 0.0, 0.0]
    assert softmax(0.53, -0.5, 2.91) == [0.08, 0.03, 0.89]
    mix = torch.tensor([0.36, 0.40, 0.24]) @ torch.tensor([0.6, -0.35, 3.86])
    assert round(float(mix), 2) == 1.0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(0, 5),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 4)),
    st.integers(0, 2**30),
)
def test_a_mask_allows_the_pairs_of_its_definition(num_queries, earlier, causal, window, seed):
    """Each pair of query and key is compared with the definition."""
    num_keys = num_queries + earlier
    generator = torch.Generator().manual_seed(seed)
    keys = torch.rand(2, num_keys, generator=generator) > 0.3
    mask = Mask(causal=causal, window=window, keys=keys)
    dense = mask.dense(num_queries, num_keys)
    for b in range(2):
        for t in range(num_queries):
            for s in range(num_keys):
                position = earlier + t
                allowed = bool(keys[b, s]) and not (causal and s > position)
                allowed = allowed and not (window is not None and abs(s - position) >= window)
                assert bool(dense[b, 0, t, s]) == allowed
    added = fast_masks.additive(mask, num_queries, num_keys, torch.zeros(1))
    assert added is not None and torch.equal((added == 0).expand_as(dense), dense)


def test_a_mask_that_hides_nothing_adds_no_tensor():
    added, causal, like = fast_masks.additive, Mask(causal=True), torch.zeros(1)
    assert added(Mask(), 3, 4, like) is None
    assert added(causal, 1, 4, like) is None  # one new token attends to all
    assert added(causal, 2, 4, like) is not None
    with pytest.raises(ValueError, match="at least 1"):
        Mask(window=0)
    with pytest.raises(ValueError, match="needs causal=True"):
        Mask(past=torch.tensor([1, 2]))


def test_the_mask_of_a_softmax_must_be_boolean():
    scores = torch.randn(B, H, T, S)
    masked_softmax(scores, Mask(causal=True).dense(T, S))
    with pytest.raises(TypeCheckError):
        masked_softmax(scores, torch.zeros(1, 1, T, S))
