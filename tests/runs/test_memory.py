"""The free memory decides into how many parts a batch is cut, and whether graphs are used."""

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import nn

import headway
from headway.base.config_files import read_yaml
from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.ranks import Ranks
from headway.base.settings import override
from headway.data.stream import Batch
from headway.runs import check_same, memory, run, train
from headway.runs.memory import BOUND, kept_bytes
from headway.training import Loss, peak_memory
from tests.fixtures.command_line import write_corpus
from tests.fixtures.emulated_graph import EmulatedGraph
from tests.fixtures.language_model_runs import STORY, configured, weights
from tests.fixtures.recorded_trainings import CASES
from tests.fixtures.tiny_settings import TRANSLATOR


@dataclass(frozen=True)
class Rows(Batch):
    rows: torch.Tensor


class Noisy(nn.Module):
    """Two linear layers with dropout and a running mean."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 5), nn.Linear(5, 2)
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        self.mean.lerp_(hidden.detach().mean(0), 0.1)
        return self.second(torch.dropout(hidden, 0.5, True))


def squares(model, batch):
    total = model(batch.rows).square().sum()
    return Loss(total, total.detach(), len(batch.rows))


def test_the_memory_of_a_pass_is_that_of_the_tensors_it_keeps():
    model = Noisy()
    few, many = (
        kept_bytes(model, squares, Rows(torch.randn(rows, 3)), nullcontext) for rows in (10, 40)
    )
    assert many == 4 * few
    # inputs, hidden states before and after dropout, its mask, outputs; no weights
    assert 10 * 4 * (3 + 5 + 5 + 2) <= few <= 10 * 4 * (3 + 5 + 5 + 5 + 2)


def test_a_measured_pass_leaves_everything_as_it_was():
    torch.manual_seed(3)
    model = Noisy()
    before, numbers = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    kept_bytes(model, squares, Rows(torch.randn(10, 3, generator=torch.Generator())), nullcontext)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), numbers)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_pass_for_which_there_is_no_memory_needs_more_than_there_is():
    def fail(model, batch):
        raise torch.OutOfMemoryError("CUDA out of memory")

    assert kept_bytes(Noisy(), fail, Rows(torch.ones(1, 3)), nullcontext) == float("inf")


def test_a_pass_that_computes_gradients_is_not_measured():
    def learns(model, batch):
        loss = squares(model, batch)
        torch.autograd.grad(loss.total, list(model.parameters()), retain_graph=True)
        return loss

    assert kept_bytes(Noisy(), learns, Rows(torch.ones(1, 3)), nullcontext) is None


@pytest.mark.parametrize("name", CASES)
def test_the_memory_of_a_pass_is_near_the_peak_of_a_step(name):
    """Of all that a step allocates, above gradients, which are counted apart."""
    build, objective, make, _ = CASES[name]
    model, batch = build(), make()[0]

    def step():
        torch.autograd.backward(objective(model, batch).total)

    kept = kept_bytes(model, objective, batch, nullcontext)
    gradients = sum(4 * p.numel() for p in model.parameters() if p.requires_grad)
    bound = BOUND * memory._numbers(batch) * sum(sum(p.shape) for p in model.parameters())
    assert 0.6 * kept <= peak_memory(step) <= 1.7 * kept + gradients
    assert kept <= bound


@pytest.fixture
def free(monkeypatch):
    """The free memory of the machine in bytes; batches are measured, however small they are."""
    amount = [10**12]
    monkeypatch.setattr(memory, "free_memory", lambda device: amount[0])
    monkeypatch.setattr(memory, "BOUND", 10**12)
    return amount


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "story.txt"
    path.write_text(STORY)
    return str(path)


class Measured(Exception):
    """The memory that a run needs is known; the run ends here."""


@cache
def needed(story, folder):
    """The memory of the whole batch of a tiny run: for its weights, and for its activations."""
    needs, compute = [], memory._need

    def noted(*words, **options):
        needs.append(compute(*words, **options))
        raise Measured

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Measured):
        patch.setattr(memory, "_need", noted)
        train(configured(story, training__batch_size=8), folder)
    (need,) = needs
    return memory.USED * 10**12 - need.room, need.kept


@pytest.fixture
def with_room_for(free, story, tmp_path_factory):
    """Set the free memory to that in which a part of a batch fits."""

    def set_free(part):
        fixed, kept = needed(story, tmp_path_factory.getbasetemp() / "measured")
        free[0] = int((fixed + 1.1 * part * kept) / memory.USED)

    return set_free


@pytest.mark.parametrize("parts", [1, 2, 8])
def test_a_batch_that_does_not_fit_is_cut_as_gradient_accumulation_does(
    parts, story, tmp_path, free, with_room_for
):
    with_room_for(1 / parts)
    events = []
    config = configured(story, training__batch_size=8)
    train(config, tmp_path / "cut", listeners=[events.append])
    recorded = read_yaml(tmp_path / "cut" / "run.yaml")
    assert recorded["machine.micro_batches"] == parts
    assert (recorded["training.batch_size"], recorded["training.accumulate"]) == (8, 1)
    notes = [event["text"] for event in events if event["kind"] == "note"]
    (plan,) = [event for event in events if event["kind"] == "plan"]
    assert (f"batches in {parts} parts" in plan["machine"]) == (parts > 1)
    assert [f"batches are computed in {parts} parts" in note for note in notes] == [True] * (
        parts > 1
    )
    free[0] = 10**12
    accumulated = configured(story, training__batch_size=8 // parts, training__accumulate=parts)
    train(accumulated, tmp_path / "accumulated")
    expected = weights(tmp_path / "accumulated")
    assert all(torch.equal(x, expected[name]) for name, x in weights(tmp_path / "cut").items())


def test_a_run_is_resumed_with_its_parts_however_much_memory_is_free(
    story, tmp_path, free, with_room_for
):
    with_room_for(1 / 2)
    config = configured(story, training__batch_size=8)
    train(config, tmp_path / "whole")
    train(override(config, {"training.steps": 3}, "test"), tmp_path / "paused")
    free[0] = 10**12
    check_same(tmp_path / "whole", config)
    train(config, tmp_path / "paused")
    assert read_yaml(tmp_path / "paused" / "run.yaml")["machine.micro_batches"] == 2
    expected = weights(tmp_path / "whole")
    assert all(torch.equal(x, expected[name]) for name, x in weights(tmp_path / "paused").items())


def test_a_run_whose_batch_was_measured_has_the_bits_of_one_that_was_not(
    story, tmp_path, monkeypatch
):
    config = configured(story, model__dropout=0.1)
    train(config, tmp_path / "plain")
    monkeypatch.setattr(memory, "BOUND", 10**12)
    train(config, tmp_path / "measured")
    expected = weights(tmp_path / "plain")
    found = weights(tmp_path / "measured")
    assert all(torch.equal(x, expected[name]) for name, x in found.items())


@pytest.mark.parametrize("room", [0, -1])
def test_a_batch_that_cannot_fit_is_cut_into_single_examples(room, story, tmp_path, free):
    free[0] = room
    train(configured(story, training__batch_size=8), tmp_path / "run")
    assert read_yaml(tmp_path / "run" / "run.yaml")["machine.micro_batches"] == 8


def test_a_number_of_parts_that_the_user_sets_is_not_measured(story, tmp_path, free):
    free[0] = 0
    config = configured(story, training__batch_size=8, machine__micro_batches=4)
    train(config, tmp_path / "run")
    assert read_yaml(tmp_path / "run" / "run.yaml")["machine.micro_batches"] == 4
    with pytest.raises(UsageError, match=r"training\.batch_size=8 cannot be cut into 3"):
        train(configured(story, training__batch_size=8, machine__micro_batches=3), tmp_path / "b")


@pytest.mark.parametrize("time", [None, "60s"])
def test_a_batch_in_tokens_has_no_part_shorter_than_its_longest_sentence(
    time, tmp_path, free, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "corpus")
    free[0] = 0
    settings = {**TRANSLATOR, "training.updates": 3, "training.time": time, "machine.threads": 1}
    translator = headway.train(
        "translate", data="corpus", steps=2, run="x", settings=settings, quiet=True
    )
    parts = translator.config.machine.micro_batches
    assert translator.config.training.tokens == 220 and parts >= 1 and 220 % parts == 0


@pytest.mark.parametrize(("part", "is_used"), [(3, True), (1.5, False)])
def test_graphs_are_used_on_their_device_where_the_memory_is_enough(
    part, is_used, story, tmp_path, with_room_for, monkeypatch
):
    """The device of the emulated graphs is the CPU."""
    plain = configured(story, training__batch_size=8)
    with_room_for(part)
    for module in (memory, run):
        monkeypatch.setattr(module, "CudaRecorder", EmulatedGraph)
    monkeypatch.setattr(run, "set_up_gpu", lambda **_: None)
    events = []
    train(plain, tmp_path / "run", listeners=[events.append])
    (plan,) = [event for event in events if event["kind"] == "plan"]
    assert ("CUDA graphs" in plan["machine"]) == is_used
    assert read_yaml(tmp_path / "run" / "run.yaml")["machine.graphs"] is is_used


@pytest.mark.parametrize("settings", [{}, {"machine__graphs": True}])
def test_a_run_by_graphs_goes_on_without_them_on_another_device(
    settings, story, tmp_path, free, monkeypatch
):
    """By the same command, and by --resume, which reads the settings of the run."""
    with monkeypatch.context() as patch:
        for module in (memory, run):
            patch.setattr(module, "CudaRecorder", EmulatedGraph)
        patch.setattr(run, "set_up_gpu", lambda **_: None)
        train(configured(story, training__steps=3), tmp_path / "run")
    recorded = read_yaml(tmp_path / "run" / "run.yaml")
    assert recorded["machine.graphs"] is True
    train(configured(story, **settings), tmp_path / "run")
    assert read_yaml(tmp_path / "run" / "run.yaml")["machine.graphs"] is False


def test_a_translator_and_a_run_on_a_cpu_have_no_graphs(story, tmp_path):
    train(configured(story), tmp_path / "run")
    assert read_yaml(tmp_path / "run" / "run.yaml")["machine.graphs"] is False


@pytest.mark.parametrize(
    ("setting", "room", "size", "expected"),
    [
        ("auto", 0.9, 2, True),
        ("auto", 1.1, 2, False),
        ("auto", 0.9, 1, False),  # there is nobody to share with
        ("shard", 9.0, 2, True),
        ("replicate", 0.1, 2, False),
    ],
)
def test_processes_divide_a_model_whose_training_does_not_fit(
    monkeypatch, setting, room, size, expected
):
    """Gradient, two means and an average for each of two processes, which share the memory."""
    config = configured("story.txt", machine__shard=setting, training__average=0.9)
    model = nn.Linear(30, 20)
    states = 2 * 4 * 4 * (30 * 20 + 20)
    monkeypatch.setattr(memory, "free_memory", lambda device: room * states / memory.USED)
    ranks = Ranks(0, size, 0, size)
    assert memory.is_sharded(config, model, Machine("cpu", "float32", 1, ranks)) is expected


def test_compiled_blocks_are_not_divided_unasked(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda device: 1)
    monkeypatch.setattr(memory, "obstacle_to_shards", lambda model: "its blocks are compiled")
    machine = Machine("cpu", "float32", 1, Ranks(0, 2, 0, 2))
    assert not memory.is_sharded(configured("story.txt"), nn.Linear(3, 2), machine)
