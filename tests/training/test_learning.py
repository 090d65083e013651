"""Losses, gradients and averages, compared with torch and the papers' formulas."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from headway.tasks.translation.batches import TranslationBatch
from headway.tasks.translation.objective import TranslationObjective
from headway.training import (
    Loss,
    NonFinite,
    StopRequest,
    TrainingState,
    WeightAverage,
    fit,
    repeated,
)
from headway.transforms.fast import cross_entropy
from headway.transforms.fast.cross_entropy import chunked_cross_entropy
from tests.fixtures.zoo import MODELS, sources

N, D, V = 23, 6, 11


@pytest.mark.parametrize("chunk", [1, 5, 23, 512])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_the_chunked_loss_and_its_gradients_equal_torchs(monkeypatch, chunk, smoothing):
    monkeypatch.setattr(cross_entropy, "CHUNK", chunk)
    targets = torch.randint(0, V, (N,))
    results = []
    for ours in (True, False):
        torch.manual_seed(1)
        hidden = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
        weight = torch.randn(V, D, dtype=torch.float64, requires_grad=True)
        if ours:
            loss, nats = chunked_cross_entropy(hidden, weight, targets, smoothing)
            plain = F.cross_entropy(hidden @ weight.T, targets, reduction="sum")
            assert_close(nats, plain.detach(), rtol=0, atol=1e-10)
        else:
            logits = hidden @ weight.T
            loss = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
        (loss * 0.7).backward()
        results.append((loss.detach(), hidden.grad, weight.grad))
    for value, expected in zip(*results, strict=True):
        assert_close(value, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_weights_multiply_the_loss_of_each_target(monkeypatch, smoothing):
    monkeypatch.setattr(cross_entropy, "CHUNK", 5)
    targets, weights = torch.randint(0, V, (N,)), torch.rand(N, dtype=torch.float64)
    hidden = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(V, D, dtype=torch.float64, requires_grad=True)
    total, nats = chunked_cross_entropy(hidden, weight, targets, smoothing, weights)
    losses = F.cross_entropy(
        hidden @ weight.T, targets, reduction="none", label_smoothing=smoothing
    )
    assert_close(total, losses @ weights, rtol=0, atol=1e-10)
    plain = F.cross_entropy((hidden @ weight.T).detach(), targets, reduction="none")
    assert_close(nats, plain @ weights, rtol=0, atol=1e-10)
    gradients = torch.autograd.grad(total, (hidden, weight))
    for ours, theirs in zip(
        gradients, torch.autograd.grad(losses @ weights, (hidden, weight)), strict=False
    ):
        assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_the_chunked_loss_in_float32_is_exact_to_a_millionth_and_survives_extreme_logits():
    hidden, weight = torch.randn(N, D), torch.randn(V, D)
    targets = torch.randint(0, V, (N,))
    total, _ = chunked_cross_entropy(hidden, weight, targets)
    expected = F.cross_entropy((hidden @ weight.T).double(), targets, reduction="sum")
    assert float(total) == pytest.approx(float(expected), rel=1e-6)
    huge, nats = chunked_cross_entropy(hidden * 1e4, weight, targets, 0.1)
    assert math.isfinite(float(huge)) and math.isfinite(float(nats))


def test_the_loss_never_holds_all_logits():
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                largest = max(largest, out.numel())
            return out

    rows, vocabulary = 3 * cross_entropy.CHUNK, 100
    hidden = torch.randn(rows, 4, requires_grad=True)
    weight = torch.randn(vocabulary, 4, requires_grad=True)
    with Watch():
        loss, _ = chunked_cross_entropy(hidden, weight, torch.zeros(rows, dtype=torch.long))
        loss.backward()
    assert largest == cross_entropy.CHUNK * vocabulary


@dataclass
class Rows:
    """A micro-batch of a linear model: ragged numbers of targets."""

    x: torch.Tensor
    y: torch.Tensor
    indices: tuple[int, ...] = field(default=(0,))


def squared(model: nn.Module, batch: Rows) -> Loss:
    total = (model(batch.x)[:, 0] - batch.y).square().sum()
    return Loss(total, total.detach(), len(batch.y))


def stream(batches, epoch=0, position=0):
    while True:
        while position < len(batches):
            batch, position = batches[position], position + 1
            done = position == len(batches)
            yield (epoch + done, 0 if done else position, batch)
        epoch, position = epoch + 1, 0


def trained(batches, accumulate: int, steps: int, dtype=torch.float64) -> torch.Tensor:
    torch.manual_seed(2)
    model = nn.Linear(3, 1).to(dtype)
    run = TrainingState(model, torch.optim.SGD(model.parameters(), lr=0.1))
    fit(
        run,
        stream(batches),
        squared,
        [],
        steps=steps,
        learning_rate=lambda step: 0.1,
        accumulate=accumulate,
        clip=1e9,
        precision=nullcontext,
        request=StopRequest(),
    )
    return model.weight.detach().clone()


def ragged(sizes, dtype=torch.float64):
    torch.manual_seed(6)
    return [Rows(torch.randn(n, 3, dtype=dtype), torch.randn(n, dtype=dtype)) for n in sizes]


def merged(batches):
    return Rows(torch.cat([b.x for b in batches]), torch.cat([b.y for b in batches]))


def test_ragged_micro_batches_give_the_full_batchs_gradient():
    batches = ragged([1, 7, 2, 5, 3, 4, 1, 9])
    whole = trained([merged(batches)], 1, 3)
    assert_close(trained(batches, 8, 3), whole, rtol=0, atol=1e-12)
    pairs = [merged(batches[i : i + 2]) for i in range(0, 8, 2)]
    assert_close(trained(pairs, 4, 3), whole, rtol=0, atol=1e-12)
    # A mean of the micro-batches' means is another gradient: the sizes matter.
    mean_of_means = [Rows(b.x / len(b.y) ** 0.5, b.y / len(b.y) ** 0.5) for b in batches]
    assert not torch.allclose(trained(mean_of_means, 8, 3), whole, atol=1e-3)


def test_a_window_may_cross_the_end_of_an_epoch():
    batches = ragged([2, 5, 3])
    order = [batches[i % 3] for i in range(8)]
    windows = [merged(order[i : i + 4]) for i in (0, 4)]
    assert_close(trained(batches, 4, 2), trained(windows, 1, 2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("where", ["data", "weights"])
def test_a_loss_that_is_not_finite_is_not_applied_and_the_error_names_the_examples(where):
    batches = ragged([2, 3], torch.float32)
    batches[1].indices = (17, 4)
    model = nn.Linear(3, 1)
    run = TrainingState(model, torch.optim.Adam(model.parameters()))
    if where == "data":
        batches[1].x[0, 0] = float("nan")
    else:
        batches[1].x[0, 0] = 1e30
    before = None

    def keep(run, report):
        nonlocal before
        before = [p.detach().clone() for p in model.parameters()]

    class Keep:
        after_step = staticmethod(keep)

    with pytest.raises(NonFinite, match="17, 4"):
        fit(
            run,
            stream(batches),
            squared,
            [Keep()],
            steps=5,
            learning_rate=lambda step: 0.1,
            precision=nullcontext,
            request=StopRequest(),
        )
    assert run.step == 1 and before is not None
    for old, new in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, new)


def test_the_average_follows_its_formula_and_the_weights_are_restored_bit_exactly():
    model = nn.Linear(2, 1)
    average = WeightAverage(model, 0.9)
    expected = model.weight.detach().clone()
    for step in range(1, 30):
        with torch.no_grad():
            model.weight.add_(torch.randn_like(model.weight))
        average.update(model, step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.weight.detach()
    weights = model.weight.detach().clone()
    with pytest.raises(RuntimeError), average.applied(model):
        assert_close(model.weight.detach(), expected, rtol=0, atol=1e-5)
        raise RuntimeError
    assert torch.equal(model.weight, weights)
    with pytest.raises(ValueError, match="decay"):
        WeightAverage(model, 1.0)


def test_custom_batches_can_be_repeated_and_the_optimizer_keeps_its_rate():
    batches = repeated([torch.full((2,), 1.0), torch.full((3,), 2.0)])
    assert [next(batches)[:2] for _ in range(4)] == [(0, 1), (1, 0), (1, 1), (2, 0)]
    with pytest.raises(ValueError, match="at least one batch"):
        repeated([])
    model = torch.nn.Linear(1, 1, bias=False)
    state = TrainingState(model, torch.optim.SGD(model.parameters(), lr=0.25))
    rates = []

    class Watch:
        def after_step(self, run, report):
            rates.append(report.lr)

    def objective(model, batch):
        total = model(batch[:, None]).sum()
        return Loss(total, total.detach(), len(batch))

    before = model.weight.item()
    fit(state, batches, objective, [Watch()], steps=1, clip=100.0)
    assert rates == [0.25]
    assert model.weight.item() == pytest.approx(before - 0.25 * 1.0)  # a mean over the batch


def test_parts_that_an_observer_evaluates_are_trained_in_the_next_step():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))
    state = TrainingState(model, torch.optim.SGD(model.parameters(), lr=0.1))
    modes = []

    class Evaluation:
        def after_step(self, run, report):
            run.model.eval() if run.step == 1 else run.model[1].eval()

    def objective(model, batch):
        modes.append([module.training for module in model.modules()])
        return squared(model, batch)

    batches = stream(ragged([2, 3], torch.float32))
    fit(state, batches, objective, [Evaluation()], steps=3)
    assert modes == [[True] * 4] * 3


def test_padding_of_targets_is_not_counted():
    model = MODELS["translator"].build()
    source, keys = sources([[4, 5, 2], [6, 2]])
    read, targets = torch.tensor([[1, 3, 4], [1, 5, 0]]), torch.tensor([[3, 4, 2], [5, 2, 0]])
    objective = TranslationObjective(pad=0, smoothing=0.1)
    both = objective(model, TranslationBatch(source, keys, read, targets, (0, 1)))
    longer = TranslationBatch(source[:1], None, read[:1], targets[:1], (0,))
    shorter = TranslationBatch(source[1:, :2], None, read[1:, :2], targets[1:, :2], (1,))
    alone = [objective(model, batch) for batch in (longer, shorter)]
    assert both.count == sum(loss.count for loss in alone) == 5
    assert_close(both.total, alone[0].total + alone[1].total, rtol=1e-5, atol=1e-5)
    assert_close(both.nats, alone[0].nats + alone[1].nats, rtol=1e-5, atol=1e-5)
