"""Training by recorded graphs gives the parameters of training without.

Without a GPU the graphs are those of `tests/fixtures/emulated_graph.py`.
"""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.data.image_batches import ImageBatch
from headway.data.packing import TextBatch
from headway.errors import UsageError
from headway.models import GPT, GPTConfig, ViTClassifierConfig, ViTConfig, vit_classifier
from headway.training import (
    ImageObjective,
    OptimizerConfig,
    RecordedGradients,
    TextObjective,
    TrainingState,
    TranslationObjective,
    fit,
    optimizer,
)
from headway.training import recorded as recorded_module
from headway.training.recorded import shape_of
from headway.transforms import fast, freeze, recompute
from tests.fixtures.emulated_graph import EmulatedGraph

VOCABULARY, LENGTH = 13, 9
GPT_CONFIG = GPTConfig(
    model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, vocabulary=VOCABULARY, max_length=LENGTH
)
VIT_CONFIG = ViTClassifierConfig(
    vit=ViTConfig(
        model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, image_size=8, patch_size=4, dropout=0.1
    ),
    num_classes=5,
)


def text(rows, length=LENGTH, lengths=None):
    ids = torch.randint(VOCABULARY, (rows, length + 1))
    read, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    return TextBatch(read, targets, lengths, tuple(range(rows)), targets.numel())


def pictures(rows):
    classes = torch.randint(5, (2, rows))
    images = torch.randn(rows, 3, 8, 8)
    return ImageBatch(images, classes[0], classes[1], torch.rand(rows), tuple(range(rows)))


def gpt(**changes):
    return fast(GPT(replace(GPT_CONFIG, **{"dropout": 0.1, **changes})))


def texts(*sizes):
    return [text(*((size,) if isinstance(size, int) else size)) for size in sizes]


CASES = {
    "gpt": (gpt, TextObjective(), lambda: texts(*[4] * 6), {}),
    "gpt modern": (
        lambda: gpt(positions="rotary", num_kv_heads=1, norm_kind="rms", activation="swiglu"),
        TextObjective(),
        lambda: texts(*[4] * 6),
        {},
    ),
    "plain gpt": (
        lambda: GPT(replace(GPT_CONFIG, dropout=0.1)),
        TextObjective(),
        lambda: texts(*[4] * 6),
        {},
    ),
    "two sizes by turns": (gpt, TextObjective(), lambda: texts(4, 3, 4, 3, 3, 4, 4), {}),
    "accumulated": (gpt, TextObjective(), lambda: texts(*[4, 4, 3] * 6), {"accumulate": 3}),
    "frozen": (lambda: freeze(gpt(), 1), TextObjective(), lambda: texts(*[4] * 5), {}),
    "images": (
        lambda: fast(vit_classifier(VIT_CONFIG)),
        ImageObjective(0.1),
        lambda: [pictures(3) for _ in range(5)],
        {},
    ),
}


def trained(build, objective, batches, options, recorder, precision=nullcontext):
    """Return losses and parameters after one pass, and the next random number."""
    torch.manual_seed(0)
    model = build()
    losses = []

    class Log:
        def after_step(self, run, report):
            losses.append((report.loss, report.nats, report.grad_norm, report.targets))

    run = TrainingState(model, optimizer(model, OptimizerConfig(lr=0.01)))
    stream = iter([(0, number + 1, batch) for number, batch in enumerate(batches)])
    steps = len(batches) // options.get("accumulate", 1)
    recorded = None if recorder is None else RecordedGradients(model, objective, recorder)
    options = {**options, "precision": precision, "recorded": recorded}
    fit(run, stream, objective, [Log()], steps=steps, **options)
    return losses, model.state_dict(), torch.rand(())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
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


def test_an_operation_that_awaits_the_device_is_named_when_it_is_recorded():
    class Awaits(TextObjective):
        def __call__(self, model, batch):
            loss = super().__call__(model, batch)
            return replace(loss, total=loss.total * (1 if float(loss.nats) < 1e9 else 2))

    model = gpt()
    run = TrainingState(model, optimizer(model, OptimizerConfig()))
    recorded = RecordedGradients(model, Awaits(), EmulatedGraph)
    stream = iter([(0, 0, batch) for batch in texts(3, 3)])
    with pytest.raises(UsageError, match="not permitted when a stream is capturing"):
        fit(run, stream, Awaits(), steps=2, recorded=recorded)
