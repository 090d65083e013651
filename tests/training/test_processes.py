"""Several processes train as one does: the same losses, gradients and order of the data."""

import json
import os
from dataclasses import replace
from itertools import islice

import pytest
import torch

from headway.base.errors import HeadwayError, UsageError
from headway.base.ranks import ALONE, Ranks, started
from headway.base.sharing import Interrupted, Share
from headway.data.stream import Batches
from headway.models import GPT
from headway.training import (
    NonFinite,
    OptimizerConfig,
    TextObjective,
    TrainingState,
    WeightAverage,
    fit,
    muon,
    optimizer,
)
from headway.training.muon import orthogonal as muon_orthogonal
from headway.transforms import fast
from headway.transforms.replicate import Replicas
from tests.fixtures.ragged_batches import Ragged, sequences
from tests.fixtures.ranks import run_ranks
from tests.fixtures.recorded_trainings import GPT_CONFIG


def trained(ranks, steps=6, *, kind="adamw", dtype=torch.float64, dropout=0.0):
    """Return the losses and gradient norms of some updates of two batches each, and the model."""
    torch.manual_seed(3)
    model = fast(GPT(replace(GPT_CONFIG, dropout=dropout))).to(dtype)
    updates = optimizer(model, OptimizerConfig(lr=0.01, kind=kind), ranks)
    run = TrainingState(model, updates, WeightAverage(model, 0.9))
    reports = []

    class Log:
        def after_step(self, run, report):
            reports.append([report.loss, report.nats, report.grad_norm, report.targets])

    replicas = None if ranks.is_alone else Replicas(model, ranks, seed=1)
    stream = Batches(Ragged(), sequences).shared(ranks, 0, 0)
    fit(run, stream, TextObjective(), [Log()], steps=steps, accumulate=2, replicas=replicas)
    if replicas is not None:
        replicas.check_equal(model.parameters(), "at the end")
    return torch.tensor(reports, dtype=torch.float64), dict(model.named_parameters())


def gradients(ranks, first):
    """Return the gradients of the update that begins at batch `first`, before their division."""
    torch.manual_seed(3)
    model = fast(GPT(GPT_CONFIG)).double()
    model.register_parameter("unused", torch.nn.Parameter(torch.ones(2).double()))
    total = count = 0.0
    for _, _, batch in islice(Batches(Ragged(), sequences).shared(ranks, 0, first), 2):
        if batch is not None:
            loss = TextObjective()(model, batch)
            loss.total.backward()
            total, count = total + float(loss.total.detach()), count + loss.count
    totals = [total, count]
    if not ranks.is_alone:
        totals = Replicas(model, ranks, seed=1).add(totals, step=1)
    assert model.unused.grad is None
    return totals, {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def furthest(these, those):
    """Return the largest difference of tensors of the same names, relative to the largest value."""
    assert these.keys() == those.keys()
    return max(
        float((a - those[name]).detach().abs().max() / those[name].detach().abs().max().clamp(1e-3))
        for name, a in these.items()
    )


def compare_with_one_process():
    """Compute everything together and alone, and print the differences and messages as JSON."""
    with started(print) as ranks:
        shown = {"totals": ranks.totals([1.0, ranks.rank], "a test")}
        shown["of the first"] = ranks.shared({"rank": ranks.rank}, "a test")
        shown["of all"] = ranks.gathered("x" * (ranks.rank + 1), "a test")
        try:
            ranks.check_same({"optimizer.lr": 0.1 * (ranks.rank + 1), "seed": 3}, "settings")
        except UsageError as error:
            shown["disagreement"] = str(error)
        shown["shared work"] = shared_work(ranks)
        shown |= differences(ranks)
        (reports, model), (again, same) = [trained(ranks, dropout=0.3) for _ in range(2)]
        shown["dropout is repeated"] = torch.equal(reports, again) and furthest(model, same) == 0
        Replicas(GPT(GPT_CONFIG), ranks, seed=1).begin(4)
        of_all = ranks.gathered(torch.rand(3).tolist(), "random numbers")
        shown["ranks have the same random numbers"] = of_all[0] == of_all[1]
        changed = torch.nn.Linear(2, 2)
        with torch.no_grad():
            changed.weight.fill_(1.0 + (ranks.rank == 1) * 1e-6)
        try:
            Replicas(changed, ranks, seed=1).check_equal([changed.weight], "after step 3")
        except HeadwayError as error:
            shown["different models"] = error.what
        shown["not finite"] = message_of_not_finite(ranks)
        shown["matrices"], shown["same bits"] = updates_by_muon(ranks)
        print(json.dumps(shown))


def differences(ranks):
    """Return the differences of gradients and of losses from those of one process."""
    shown = {"gradients": []}
    for first in (0, 1, 3):
        (totals, own), (expected, whole) = gradients(ranks, first), gradients(ALONE, first)
        assert totals == pytest.approx(expected, rel=1e-12)
        shown["gradients"].append(furthest(own, whole))
    for name, settings in CASES.items():
        reports, _ = trained(ranks, **settings)
        expected, _ = trained(ALONE, **settings)
        shown[name] = float(((reports - expected) / expected).abs().max())
    return shown


def shared_work(ranks):
    """Return results of batches that the processes share, and what each process computed."""
    computed, seen = [], []

    def compute(batch):
        computed.append(batch)
        return [batch / 3, f"text {batch}", torch.full((batch, 2), 1 / 3)]

    share = Share(seen.append, ranks).after(100)
    results = share.each([3, 0, 1, 2, 4], compute, size=lambda batch: batch)
    sums = share.split([5, 6, 7], lambda part: [item * len(part) for item in part])
    with pytest.raises(Interrupted) as interrupted:
        Share(lambda done: stop_at(done, ranks), ranks).each(range(6), float)
    tensors = [tensor.tolist() for *_, tensor in results]
    values = [result[:-1] for result in results]
    return [values, tensors, computed, seen, sums, interrupted.value.stop]


def updates_by_muon(ranks):
    """Return how many of five matrices this process makes orthogonal in each of two updates, and
    whether the result has the bits of one process."""
    computed, results = [], []
    for sharing in (ALONE, ranks):
        generator = torch.Generator().manual_seed(3)
        sizes = [(4, 6), (8, 4), (5, 5), (4, 6), (9, 9)]
        matrices = [torch.nn.Parameter(torch.randn(s, generator=generator)) for s in sizes]
        update = muon.muon(matrices, 0.1, 0.9, 0.1, sharing)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(muon, "orthogonal", lambda m: computed.append(m) or muon_orthogonal(m))
            for _ in range(2):
                for matrix in matrices:
                    matrix.grad = torch.randn(matrix.shape, generator=generator)
                computed.clear()
                update.step()
        results.append(matrices)
    return len(computed), all(map(torch.equal, *results))


def stop_at(done, ranks):
    if ranks.rank == 1 and done == 3:
        raise Interrupted("a signal")


def message_of_not_finite(ranks):
    """Return the error for an infinite loss of an example that process 1 has."""
    model = fast(GPT(GPT_CONFIG))

    def objective(model, batch):
        loss = TextObjective()(model, batch)
        return replace(loss, total=loss.total * (float("inf") if ranks.rank == 1 else 1.0))

    run = TrainingState(model, optimizer(model, OptimizerConfig()))
    stream = Batches(Ragged(), sequences).shared(ranks, 0, 0)
    try:
        fit(run, stream, objective, steps=1, replicas=Replicas(model, ranks, seed=1))
    except NonFinite as error:
        return str(error)


CASES = {
    "float64": {},
    "float64 muon": {"kind": "muon"},
    "float32": {"dtype": torch.float32},
}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    printed = run_ranks(compare_with_one_process, 2, tmp_path_factory.mktemp("ranks"))
    return [json.loads(text.splitlines()[-1]) for text in printed]


def test_processes_add_numbers_and_exchange_values(two):
    for shown in two:
        assert shown["totals"] == [2.0, 1.0] and shown["of the first"] == {"rank": 0}
        assert shown["of all"] == ["x", "xx"]


def test_processes_share_the_batches_of_an_evaluation_and_keep_their_order(two):
    batches = [3, 0, 1, 2, 4]
    for rank, shown in enumerate(two):
        values, tensors, computed, seen, sums, stop = shown["shared work"]
        assert values == [[batch / 3, f"text {batch}"] for batch in batches]
        third = torch.tensor(1 / 3).item()
        assert tensors == [[[third] * 2] * batch for batch in batches]
        assert computed == batches[rank::2]
        assert seen == [[100, 103, 106, 100], [103, 104, 100]][rank]
        assert sums == [10, 6, 14] and stop == "a signal"


def test_processes_that_disagree_are_refused_with_the_difference(two):
    for shown in two:
        assert (
            "about the settings: optimizer.lr is 0.1 in process 0 and 0.2 in process 1"
            in (shown["disagreement"])
        )


def test_gradients_are_those_of_one_process_even_if_a_process_has_no_example(two):
    assert max(two[0]["gradients"]) < 1e-12


@pytest.mark.parametrize("name", CASES)
def test_losses_are_those_of_one_process(two, name):
    assert two[0][name] < (1e-12 if "muon" not in name and "64" in name else 1e-5)


def test_processes_share_the_work_of_muon_and_have_the_bits_of_one(two):
    assert [shown["matrices"] for shown in two] == [3, 2]
    assert all(shown["same bits"] for shown in two)


@pytest.mark.slow
def test_four_processes_have_the_gradients_and_losses_of_one(tmp_path):
    """Up to three of them have no example of an update."""

    def compare():
        with started(print) as ranks:
            print(json.dumps(differences(ranks)))

    shown = json.loads(run_ranks(compare, 4, tmp_path)[0].splitlines()[-1])
    assert max(shown["gradients"]) < 1e-12 and shown["float64"] < 1e-12
    assert shown["float32"] < 1e-5


def test_random_numbers_differ_between_processes_and_repeat_with_the_step(two):
    for shown in two:
        assert shown["dropout is repeated"]
        assert not shown["ranks have the same random numbers"]


def test_models_that_differ_are_found(two):
    assert two[1]["different models"].startswith("the models of processes 1 and 0 differ after")


def test_the_examples_of_all_processes_are_named_if_a_loss_is_not_finite(two):
    for shown in two:
        assert "tokens 0, 2, 4, 1, 3 of the data" in shown["not finite"]


def test_one_process_needs_no_group():
    assert "RANK" not in os.environ
    with started(print) as ranks:
        assert ranks == Ranks() and ranks.is_alone and ranks.is_first
        assert ranks.totals([1.5], "a test") == [1.5] and ranks.gathered(3, "a test") == [3]
