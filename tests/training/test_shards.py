"""Processes with a part of the model each train as processes with the whole model do."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headway.base.errors import HeadwayError, UsageError
from headway.base.ranks import ALONE, ANOTHER_FAILED, started
from headway.base.tensors import StoredTensor, stored_tensors
from headway.data.stream import Batches
from headway.models import GPT
from headway.training import (
    Averaging,
    Checkpointing,
    OptimizerConfig,
    TextObjective,
    TrainingState,
    WeightAverage,
    fit,
    load_state,
    muon,
    optimizer,
    save_state,
    state_files,
)
from headway.training.state import averaged
from headway.transforms import compile, fast, lora, recompute
from headway.transforms.replicate import Replicas
from headway.transforms.shard import Shards, Uncounted
from tests.fixtures.ragged_batches import Ragged, sequences
from tests.fixtures.ranks import codes_of, run_ranks, start_ranks
from tests.fixtures.recorded_trainings import GPT_CONFIG

STEPS = 6
CONFIG = replace(GPT_CONFIG, model_dim=64, num_heads=4, ffn_dim=96)
"""Half of each parameter fills the vectors of any processor: torch's AdamW on CPUs rounds (1 - b2)
g^2 in another way for the numbers at the end of a tensor that fill no vector."""


def begun(ranks, shard, *, kind="adamw", dropout=0.0, transform=lambda model: model):
    """Return a run before its first step, and what its processes share."""
    torch.manual_seed(3)
    model = transform(fast(GPT(replace(CONFIG, dropout=dropout))))
    replicas = None
    if not ranks.is_alone:
        replicas = (Shards if shard else Replicas)(model, ranks, seed=1)
    config = OptimizerConfig(lr=0.01, kind=kind, eps=1e-5)
    run = TrainingState(model, optimizer(model, config, ranks), WeightAverage(model, 0.9))
    run.shards = replicas if shard else None
    return run, replicas


def go_on(run, ranks, replicas, steps=STEPS, *, accumulate=1, clip=1e9):
    """Train up to step `steps`; return losses and gradient norms, and the averaged weights."""
    reports = []

    class Log:
        def after_step(self, run, report):
            reports.append([report.loss, report.nats, report.grad_norm, report.targets])

    batches, objective = Batches(Ragged(), sequences), TextObjective()
    if run.shards is None:
        stream = batches.shared(ranks, run.epoch, run.position)
    else:
        stream = batches.shared(ranks, run.epoch, run.position, Uncounted)
        objective = run.shards.objective(objective)
    settings = {"steps": steps, "accumulate": accumulate, "clip": clip}
    run.stop = None
    fit(run, stream, objective, [Averaging(), Log()], **settings, replicas=replicas)
    run.model.eval()
    with averaged(run) as model:
        assert not model.training
        weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    return torch.tensor(reports, dtype=torch.float64), weights


def trained(ranks, shard, settings=(), **model):
    run, replicas = begun(ranks, shard, **model)
    return go_on(run, ranks, replicas, **dict(settings))


def difference(these, those):
    """Return the largest differences: of losses, relative, and of averaged weights."""
    (reports, weights), (expected, whole) = these, those
    assert weights.keys() == whole.keys()
    assert torch.allclose(reports[:, 2], expected[:, 2], rtol=1e-3)  # the norms of the gradients
    losses = float(((reports - expected) / expected)[:, :2].abs().max())
    return [losses, max(float((w - whole[name]).abs().max()) for name, w in weights.items())]


def is_same(these, those):
    """Whether losses, norms of gradients and averaged weights have the same bits."""
    (reports, weights), (expected, whole) = these, those
    return torch.equal(reports, expected) and all(w.equal(whole[n]) for n, w in weights.items())


def adapted(model):
    torch.manual_seed(4)
    return lora(model, rank=2)


MODELS = {
    "plain": {},
    "dropout": {"dropout": 0.3},
    "muon": {"kind": "muon"},
    "lora": {"transform": adapted},
}
CLIPPED = {"clip": 0.1}
WINDOWS = {"accumulate": 2, **CLIPPED}


def compare():
    """Train in all ways, and print the differences as JSON."""
    muon.multiplies_bfloat16 = lambda device: False  # bfloat16 would enlarge differences
    with started(print) as ranks:
        shown = {}
        for name, model in MODELS.items():
            in_parts, copies = trained(ranks, True, **model), trained(ranks, False, **model)
            shown[name] = is_same(in_parts, copies)
            if name != "dropout":
                alone = trained(ALONE, False, **model)
                shown[f"{name}, one process"] = difference(in_parts, alone)
            if name == "dropout":
                again = trained(ranks, True, **model, transform=recompute)
                shown["recompute"] = difference(again, in_parts)
        shown["clipped"] = is_same(*(trained(ranks, shard, CLIPPED) for shard in (True, False)))
        windows = [trained(ranks, shard, WINDOWS) for shard in (True, False)]
        shown["windows"] = [is_same(*windows), *difference(*windows)]
        shown["parts"] = parts(ranks)
        shown["refused"] = refused(ranks)
        shown["resumed"] = resumed(ranks)
        shown["in background"] = in_background(ranks)
        shown["read"] = read(ranks)
        print(json.dumps(shown))


def parts(ranks):
    """Return the number of numbers that a process holds, and of the whole model."""
    run, _ = begun(ranks, shard=True)
    held = sum(p.to_local().numel() for p in run.model.parameters())
    return [held, sum(p.numel() for p in run.model.parameters())]


def refused(ranks):
    with pytest.raises(UsageError) as error:
        Shards(compile(GPT(GPT_CONFIG)), ranks, seed=1)
    return str(error.value)


def resumed(ranks):
    """Stop a run in the middle, and let other numbers of processes go on with its checkpoint.

    Return the differences from an undisturbed run of one process, and the names of the files.
    """
    whole = trained(ALONE, False)
    differences = {}
    for first, second in (("parts", "one"), ("one", "parts"), ("parts", "parts")):
        folder = Path("checkpoints", f"{first}-{second}")
        reports = []
        for name, steps in ((first, 3), (second, STEPS)):
            own = ALONE if name == "one" else ranks
            run, replicas = begun(own, shard=name == "parts")
            if folder.exists():
                load_state(run, folder)
            losses, weights = go_on(run, own, replicas, steps)
            reports.append(losses)
            if steps == 3 and (name == "parts" or ranks.is_first):
                save_state(run, folder)
            ranks.totals([0.0], "the checkpoint")
        differences[f"{first}, {second}"] = difference((torch.cat(reports), weights), whole)
    names = sorted(path.name for path in Path("checkpoints/parts-one").iterdir())
    return [differences, names]


def in_background(ranks):
    """Save in the middle of a run, which goes on, and resume.

    Return the differences from a run without a checkpoint, and whether both have the same bits.
    """
    run, replicas = begun(ranks, shard=True)
    save = Checkpointing(Path("background"), 3, replicas=replicas, in_background=True)
    with save.completed(run):
        first = go_on(run, ranks, replicas, 3)[0]
        save.save(run)
        later = go_on(run, ranks, replicas)
    again, replicas = begun(ranks, shard=True)
    load_state(again, Path("background", "step-3"))
    resumed = go_on(again, ranks, replicas)
    whole = torch.cat((first, later[0])), later[1]
    return [difference(whole, trained(ranks, True)), difference(resumed, later)]


def read(ranks):
    """Return the fraction of the numbers of a checkpoint that a process reads when it resumes."""
    numbers = []

    def counted(stored, rows, read=StoredTensor.rows):
        tensor = read(stored, rows)
        numbers.append(tensor.numel() if tensor.is_floating_point() else 0)
        return tensor

    run, _ = begun(ranks, shard=True)
    with pytest.MonkeyPatch.context() as patch, stored_tensors(saved()) as tensors:
        patch.setattr(StoredTensor, "rows", counted)
        load_state(run, Path("background", "step-3"))
        whole = sum(math.prod(t.shape) for n, t in tensors.items() if not n.startswith("rng."))
    return sum(numbers) / whole


def saved():
    return sorted(Path("background", "step-3").glob("state*.safetensors"))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    printed = run_ranks(compare, 2, tmp_path_factory.mktemp("shards"))
    return [json.loads(text.splitlines()[-1]) for text in printed]


@pytest.mark.parametrize("name", [*MODELS, "clipped"])
def test_two_parts_train_bit_for_bit_as_two_copies(two, name):
    assert two[0][name] and two[1][name]


def test_parts_that_recompute_train_bit_for_bit_as_those_that_do_not(two):
    assert two[0]["recompute"] == [0, 0]


def test_windows_of_batches_are_equal_up_to_the_order_of_sums(two):
    """Copies add up the batches of a window first, and parts the processes: other bits."""
    is_equal, *differences = two[0]["windows"]
    assert not is_equal and max(differences) < 1e-6


@pytest.mark.parametrize("name", ["plain", "lora"])
def test_losses_of_parts_are_those_of_one_process(two, name):
    # copies differ as much: adapters that begin at 0 have tiny gradients, which AdamW enlarges
    assert two[0][f"{name}, one process"][0] < (1e-6 if name == "plain" else 1e-5)


def test_muon_gathers_whole_matrices(two):
    assert max(two[0]["muon, one process"]) < 1e-5


def test_each_process_holds_half_of_the_model(two):
    (first, whole), (second, _) = two[0]["parts"], two[1]["parts"]
    assert first + second == whole and abs(first - second) < 0.1 * whole


def test_compiled_blocks_are_not_divided(two):
    assert "cannot be sharded, since its blocks are compiled" in two[0]["refused"]


def test_checkpoints_of_parts_are_those_of_any_number_of_processes(two):
    differences, names = two[0]["resumed"]
    for losses, weights in differences.values():
        assert losses < 1e-6 and weights < 1e-5
    assert names == [
        "MANIFEST.json",
        *("state-00001-of-00002.safetensors", "state-00002-of-00002.safetensors", "state.json"),
    ]


def test_a_checkpoint_that_threads_write_is_that_of_its_step(two):
    for shown in two:
        assert shown["in background"] == [[0, 0], [0, 0]]


def test_an_error_of_the_thread_of_one_process_ends_all_without_a_checkpoint(tmp_path):
    def run():
        def fail(path, tensors):
            raise HeadwayError("the disk of process 1 is full")

        with started(print) as ranks:
            run, replicas = begun(ranks, shard=True)
            if ranks.rank == 1:
                state_files.write_tensors = fail
            save = Checkpointing(Path("checkpoints"), 9, replicas=replicas, in_background=True)
            with save.completed(run):
                save.save(run)
                go_on(run, ranks, replicas)

    assert codes_of(start_ranks(run, 2, tmp_path)) == [ANOTHER_FAILED, 1]
    assert "the disk of process 1 is full" in (tmp_path / "rank-1.txt").read_text()
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_process_reads_its_part_of_a_checkpoint(two):
    fractions = [shown["read"] for shown in two]
    assert sum(fractions) == pytest.approx(1, abs=0.01) and max(fractions) < 0.55


@pytest.mark.slow
def test_four_parts_train_as_one_process(tmp_path):
    shown = json.loads(run_ranks(compare, 4, tmp_path)[0].splitlines()[-1])
    for name in ("plain", "lora", "muon"):  # the tiny gradients of new adapters: see above
        assert shown[f"{name}, one process"][0] < (1e-6 if name == "plain" else 1e-5)
    assert shown["recompute"] == [0, 0] and max(shown["windows"][1:]) < 1e-6
    assert all(losses < 1e-6 for losses, _ in shown["resumed"][0].values())
