"""Training by recorded graphs gives the parameters of training without.

Without a GPU the graphs are those of `tests/fixtures/emulated_graph.py`.
"""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.base.errors import UsageError
from headway.tasks.translation.objective import TranslationObjective
from headway.training import (
    OptimizerConfig,
    RecordedGradients,
    TextObjective,
    TrainingState,
    fit,
    optimizer,
)
from headway.training import recorded as recorded_module
from headway.training.recorded import shape_of
from headway.transforms import recompute
from tests.fixtures.emulated_graph import EmulatedGraph
from tests.fixtures.recorded_trainings import CASES, LENGTH, gpt, text, texts, trained


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=[] if is_quick else pytest.mark.slow)
        for name in CASES
        for dtype, is_quick in (
            (torch.float32, True),
            (torch.bfloat16, name in ("gpt modern", "accumulated", "images")),
        )
    ],
)
def test_losses_parameters_and_random_numbers_are_those_of_ordinary_steps(name, dtype):
    build, objective, make, options = CASES[name]
    torch.manual_seed(1)
    batches = make()

    def precision():
        return torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32)

    before = EmulatedGraph.replays
    found = trained(build, objective, batches, options, EmulatedGraph, precision)
    assert EmulatedGraph.replays >= before + len(batches) // 2
    expected = trained(build, objective, batches, options, None, precision)
    assert_close(found, expected, rtol=0, atol=0)


def test_a_graph_is_recorded_when_its_shape_returns_and_dropped_when_the_memory_changes():
    model, before = gpt(), EmulatedGraph.count
    run = TrainingState(model, optimizer(model, OptimizerConfig(lr=0.01)))
    recorded = RecordedGradients(model, TextObjective(), EmulatedGraph)

    def train(*sizes):
        run.stop = None
        stream = iter([(0, 0, batch) for batch in texts(*sizes)])
        fit(run, stream, TextObjective(), steps=run.step + len(sizes), recorded=recorded)
        return EmulatedGraph.count - before

    assert train(4, 3, 2) == 0
    assert train(4, 3, 4, 4, 3, 2) == 3
    assert train(*range(1, 8), *range(1, 8)) == recorded_module.MOST_GRAPHS == 4

    class Moves:
        def after_step(self, run, report):
            if report.targets == 2 * LENGTH:
                weight = run.model.output.weight
                weight.data = weight.data.clone()

    run.stop, count = None, EmulatedGraph.count
    stream = iter([(0, 0, batch) for batch in texts(4, 4, 2, 4, 3)])
    fit(run, stream, TextObjective(), [Moves()], steps=run.step + 5, recorded=recorded)
    assert EmulatedGraph.count == count + 2


def test_batches_with_documents_and_uncounted_ones_are_computed_as_always():
    batch = text(2)
    assert shape_of(batch) == shape_of(text(2)) != shape_of(text(3))
    assert shape_of(replace(batch, count=5)) != shape_of(batch)
    assert shape_of(replace(batch, lengths=((4, 5),) * 2)) is None
    assert shape_of(batch.tokens) is None
    before = EmulatedGraph.count
    documents = texts(*[(2, LENGTH, ((4, 5),) * 2)] * 3)
    found = trained(gpt, TextObjective(), documents, {}, EmulatedGraph)
    assert_close(found, trained(gpt, TextObjective(), documents, {}, None), rtol=0, atol=0)
    assert EmulatedGraph.count == before


@pytest.mark.parametrize(("sizes", "others"), [([4] * 30, None), (range(1, 31), 20)])
def test_a_note_says_if_most_batches_have_no_graph(sizes, others):
    model, notes = gpt(), []
    run = TrainingState(model, optimizer(model, OptimizerConfig()))
    run.listeners.append(lambda event: notes.append(event["text"]))
    recorded = RecordedGradients(model, TextObjective(), EmulatedGraph)
    stream = iter([(0, 0, batch) for batch in texts(*sizes)])
    fit(run, stream, TextObjective(), [recorded], steps=30, recorded=recorded)
    assert len(notes) == (others is not None)
    assert all(f"{others} of the first 20 batches" in note for note in notes)


def test_what_cannot_be_recorded_is_refused():
    model = gpt()
    with pytest.raises(UsageError, match="TranslationObjective have different shapes"):
        RecordedGradients(model, TranslationObjective(0))
    recompute(model)
    with pytest.raises(UsageError, match="recompute"):
        RecordedGradients(model, TextObjective())


class NoMemory(EmulatedGraph):
    """A device without memory for a graph."""

    def record(self, function):
        function()
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_run_goes_on_without_graphs_where_there_is_no_memory_for_them():
    batches = texts(*[4] * 6)
    found = trained(gpt, TextObjective(), batches, {}, NoMemory)
    assert_close(found, trained(gpt, TextObjective(), batches, {}, None), rtol=0, atol=0)


def test_an_operation_that_awaits_the_device_is_named_and_the_run_goes_on():
    class Awaits(TextObjective):
        def __call__(self, model, batch):
            loss = super().__call__(model, batch)
            return replace(loss, total=loss.total * (1 if float(loss.nats) < 1e9 else 2))

    model, notes = gpt(), []
    run = TrainingState(model, optimizer(model, OptimizerConfig()))
    run.listeners.append(lambda event: notes.append(event["text"]))
    recorded = RecordedGradients(model, Awaits(), EmulatedGraph)
    stream = iter([(0, 0, batch) for batch in texts(3, 3, 3)])
    fit(run, stream, Awaits(), [recorded], steps=3, recorded=recorded)
    (note,) = notes
    assert note.startswith("graphs: the training goes on without, which is slower")
    assert "not permitted when a stream is capturing" in note
