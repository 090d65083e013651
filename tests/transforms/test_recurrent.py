"""`FastGRU`: torch's numbers, by oneDNN forward and backward where the states are large."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from headway.blocks import GRU
from headway.training import Loss, TrainingState, WeightAverage, fit
from headway.transforms.fast import batched, recurrent
from headway.transforms.fast.recurrent import fast_gradients
from headway.transforms.fast.table import fast

MATMUL = torch.backends.mkldnn.matmul
B, T, E, H = 64, 5, 48, 40


@pytest.fixture(params=[False, True])
def is_faster(request, monkeypatch):
    """Whether oneDNN is to be used; it computes in float32 without AMX only."""
    if request.param and not batched.onednn_is_faster():
        pytest.skip("oneDNN is not the faster library on this processor")
    monkeypatch.setattr(batched, "onednn_is_faster", lambda: request.param)
    allow_small(monkeypatch)
    return request.param


def allow_small(monkeypatch):
    monkeypatch.setattr(batched, "WORK", 0)
    monkeypatch.setattr(recurrent, "WORK", 0)


class Watched(nn.Module):
    """A GRU that notes torch's setting when the gradient of its input is known."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = GRU(E, H, batch_first=True)
        self.settings: list[str] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        x.register_hook(lambda _: self.settings.append(MATMUL.fp32_precision))
        y, _ = self.gru(x, x.new_zeros(1, len(x), H))
        return y


def test_a_fast_gru_has_the_numbers_and_gradients_of_the_equations(is_faster):
    plain = GRU(E, H, batch_first=True)
    x, state = torch.randn(B, T, E), torch.randn(1, B, H)
    results = []
    for build in (lambda gru: gru, fast):
        gru = build(plain)
        gru.zero_grad()
        leaf = x.clone().requires_grad_()
        y, last = gru(leaf, state)
        with fast_gradients(gru)():
            (y.square().sum() + last.sum()).backward()
        results.append([y, last, leaf.grad, *(p.grad.clone() for p in gru.parameters())])
    assert gru.by_onednn == is_faster
    for expected, result in zip(*results, strict=True):
        assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_a_training_step_computes_the_gradients_of_a_gru_by_onednn(is_faster):
    before = MATMUL.fp32_precision
    model = fast(Watched())
    run = TrainingState(
        model, torch.optim.AdamW(model.parameters(), lr=0.01), WeightAverage(model, 0.9)
    )

    def objective(model, batch):
        total = model(batch).square().sum()
        return Loss(total=total, nats=total.detach(), count=1)

    batch = torch.randn(B, T, E)
    fit(run, iter([(0, 1, batch)]), objective, steps=1)
    assert model.settings == ["bf16" if is_faster else before]
    assert MATMUL.fp32_precision == before


@pytest.mark.parametrize("case", ["few states", "few steps", "float64", "autocast"])
def test_other_batches_are_left_to_torch(monkeypatch, case):
    monkeypatch.setattr(batched, "onednn_is_faster", lambda: True)
    if case != "few steps":
        allow_small(monkeypatch)
    dtype = torch.float64 if case == "float64" else torch.float32
    rows = 2 if case == "few states" else B
    gru = fast(GRU(E, H, batch_first=True)).to(dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=case == "autocast"):
        gru(torch.randn(rows, T, E, dtype=dtype), torch.zeros(1, rows, H, dtype=dtype))
    assert not gru.by_onednn
    assert isinstance(fast_gradients(gru)(), nullcontext)
