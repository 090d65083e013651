"""Steps that no graph can record are taken without graphs, after a warning with the reason."""

from functools import partial

import pytest
import torch

from headway.base.errors import HeadwayWarning
from headway.tasks import opening
from headway.tasks.opening import load
from headway.transforms import replay_steps
from headway.transforms.recorder import CudaRecorder
from tests.fixtures import bundles
from tests.fixtures.emulated_graph import EmulatedGraph
from tests.fixtures.graph_pairs import LONG, REFUSED, Pair, awaiting, random_tokens, twins

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.mark.parametrize("name", ["gpt", "gpt modern", "translator"])
def test_a_step_that_awaits_the_device_is_taken_without_graphs_after_one_warning(name):
    models = [awaiting(model) for model in twins(name)]
    inputs = [random_tokens(3, 5)] if name == "translator" else [random_tokens(3, 5), None]
    with pytest.warns(HeadwayWarning, match=REFUSED) as warned:
        pair = Pair(models, *inputs)
        pair.steps(12)
        pair.reorder([2, 0, 0, 1])
        pair.steps(2)
        Pair(models, *inputs).steps(2)
    assert len(warned) == 1 and models[1].step.graphs == []


def test_a_graph_for_which_memory_does_not_suffice_is_replaced_by_ordinary_steps():
    class Small(EmulatedGraph):
        def record(self, function):
            if len(function()) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
            return super().record(function)

    models = twins(LONG)
    replay_steps(models[1], recorder=Small, smallest=8)
    pair = Pair(models, random_tokens(2, 3))
    pair.steps(2)
    before = EmulatedGraph.replays
    pair.reorder([0, 1, 1, 0])
    with pytest.warns(HeadwayWarning, match="no memory for a CUDA graph of 4 .* of 8 tok.*2 GiB"):
        pair.steps(8)
    assert EmulatedGraph.replays == before
    Pair(models, random_tokens(2, 3)).steps(2)
    assert EmulatedGraph.replays == before + 2


def test_a_model_whose_step_is_mended_is_recorded_again():
    models = [awaiting(model) for model in twins(LONG)]
    pair = Pair(models, random_tokens(2, 3))
    with pytest.warns(HeadwayWarning, match=REFUSED):
        pair.steps(2)
    for model in models:
        del model.decoder.norm.forward
        with torch.inference_mode(False), torch.no_grad():
            model.output.weight = torch.nn.Parameter(model.output.weight.flip(0).clone())
    before = EmulatedGraph.replays
    pair.steps(3)
    assert EmulatedGraph.replays == before + 3


def test_the_reason_of_a_refusal_is_the_first_error_of_the_recording():
    """CUDA's end of a recording that failed raises an error of its own, which names no reason."""

    class Ending(EmulatedGraph):
        def record(self, function):
            try:
                return super().record(function)
            finally:
                raise RuntimeError("operation failed due to a previous error during capture")

    _, model = twins("gpt")
    replay_steps(awaiting(model), recorder=Ending, smallest=8)
    state = model.start(random_tokens(1, 3))
    with pytest.warns(HeadwayWarning, match=r"slower: aten\._local_scalar_dense"):
        model.step(random_tokens(1, 1), state)


def test_a_loaded_model_that_cannot_be_recorded_generates_the_text_of_the_plain_model(
    tmp_path, monkeypatch
):
    with torch.inference_mode(False):
        bundles.gpt().save(tmp_path / "model")
        plain = load(tmp_path / "model", fast=False)
        monkeypatch.setattr(CudaRecorder, "device_type", "cpu")
        monkeypatch.setattr(opening, "replay_steps", partial(replay_steps, recorder=EmulatedGraph))
        loaded = load(tmp_path / "model")
    for bundle in (plain, loaded):
        awaiting(bundle.model)
    expected = texts_of(plain)
    with pytest.warns(HeadwayWarning, match=REFUSED) as warned:
        assert texts_of(loaded) == expected
    assert len(warned) == 1


def texts_of(bundle):
    outputs = bundle.generate(["fox", "dog"], max_tokens=6, seed=2)
    return [output.text for of_prompt in outputs for output in of_prompt]
