"""How many outputs a server decodes together if its user sets no number."""

import gc

import pytest
import torch

from headway.serving.engine.slots import default_slots, slots_in
from headway.transforms import replay_steps
from tests.fixtures import bundles
from tests.fixtures.emulated_graph import EmulatedGraph
from tests.fixtures.model_server import language_model


def test_a_cpu_and_a_model_that_generates_no_text_have_16_slots():
    assert default_slots(language_model()) == default_slots(bundles.translator()) == 16


def test_the_slots_of_a_gpu_are_those_whose_keys_and_values_have_room():
    bundle = language_model()  # 3 layers, keys and values of 24 numbers of 4 bytes, 400 tokens
    of_output = 3 * 2 * 24 * 4 * 512  # the capacity of a graph
    slots = {n: slots_in(bundle, n * of_output) for n in (0, 16, 63, 64, 255, 256, 900)}
    assert slots == {0: 16, 16: 16, 63: 32, 64: 64, 255: 128, 256: 256, 900: 256}
    wider = language_model(num_layers=6)
    assert slots_in(wider, 128 * of_output) == 64


@pytest.mark.parametrize("models", [1, 2])
def test_outputs_of_full_length_in_all_slots_of_a_gpu_are_replayed(monkeypatch, models):
    """Also in the turn with the most memory, in which others join outputs of full length."""
    bundle = language_model(max_length=128, num_layers=1)
    of_output = 2 * 24 * 4 * 128
    size = models * 32 * of_output * 4  # 32 slots are a quarter of it
    gc.collect()
    size += bytes_of_states()  # of other tests
    monkeypatch.setattr(EmulatedGraph, "free_bytes", lambda device: size - bytes_of_states())
    slots = default_slots(bundle, models, EmulatedGraph)
    assert slots == 32
    model = replay_steps(bundle.model, recorder=EmulatedGraph, smallest=8)
    with torch.inference_mode():
        state, steps, before = None, 0, EmulatedGraph.replays
        for rows in (1, 15, 16):
            joining = model.start(torch.ones(rows, 120, dtype=torch.long))
            if state is None:
                state = joining
            else:
                state.join(joining)
            del joining
            for _ in range(2):
                _, state = model.step(torch.ones(len(state.lengths), 1, dtype=torch.long), state)
                steps += 1
        while max(state.lengths) < 128:
            _, state = model.step(torch.ones(slots, 1, dtype=torch.long), state)
            steps += 1
    assert EmulatedGraph.replays - before == steps
    graph = model.step.graphs[-1]
    assert (graph.shape.rows, graph.shape.capacity) == (32, 128)


def bytes_of_states():
    """Return the size of all keys and values that are in memory."""
    found = [x for x in gc.get_objects() if type(x) is torch.Tensor and x.ndim == 4]
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in found}
    return sum(storages.values())
