"""Decoding by graphs: the tokens and logits of ordinary steps, in every search.

Without a GPU the graphs are those of `tests/fixtures/emulated_graph.py`.
"""

import gc
import threading
from copy import deepcopy

import pytest
import torch

from headway.base.errors import UsageError
from headway.decoding import MostProbable, Sampling, sample
from headway.decoding.sampling import open_rows, read_prompts
from headway.models import GPT
from headway.tasks.opening import load
from headway.transforms import graphs, lora, replay_steps, step_graph
from headway.transforms.recorder import CudaRecorder
from tests.fixtures import bundles
from tests.fixtures.emulated_graph import EmulatedGraph
from tests.fixtures.graph_pairs import FAMILIES, LONG, Pair, random_tokens, twins
from tests.fixtures.searches import searches_of
from tests.fixtures.zoo import MODELS, VOCABULARY, some_rows

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.mark.turns(8)
@pytest.mark.parametrize("kind", ["fast", "plain"])
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.usefixtures("attention_path")
def test_every_search_finds_what_it_finds_with_ordinary_steps(name, kind):
    ordinary, model = twins(name, kind=kind)
    known = name if name in MODELS else "gpt"
    for search, run in searches_of(known, some_rows(4, seed=5)).items():
        before = EmulatedGraph.replays
        assert run(model) == run(ordinary), search
        assert EmulatedGraph.replays > before, f"{search} did not use graphs"


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("most_moved", [0, step_graph.MOST_MOVED])
@pytest.mark.usefixtures("attention_path")
def test_logits_are_those_of_ordinary_steps_whatever_happens_to_the_state(
    name, most_moved, monkeypatch
):
    monkeypatch.setattr(step_graph, "MOST_MOVED", most_moved)
    keys = torch.tensor([[True] * 5, [True] * 2 + [False] * 3, [True] * 4 + [False]])
    pair = Pair(twins(name), random_tokens(3, 5), keys)
    pair.steps(7)  # past the capacity of the first graph
    pair.reorder([2, 0, 0, 1, 2])  # more rows than the graph has
    pair.steps(2)
    pair.reorder([4, 1, 2, 0, 3])
    pair.reorder([1, 1, 0, 3])
    pair.steps(1)
    pair.rewind([3, 9, 0, 1])
    pair.steps(2)
    pair.step(random_tokens(4, 3))  # several tokens: an ordinary step in the tensors of the graph
    pair.steps(2)
    pair.reorder([3])
    pair.steps(1)


@pytest.mark.parametrize("name", ["gpt", "gpt modern"])
def test_orders_are_applied_to_all_layers_at_once_before_the_next_step(name):
    pair = Pair(twins(name), random_tokens(4, 3), None)
    pair.steps(1)
    for _ in range(2):
        before = EmulatedGraph.replays
        pair.reorder([1, 0, 0, 3])
        pair.reorder([2, 1, 3, 1])
        assert EmulatedGraph.replays == before
        pair.steps(1)
        assert EmulatedGraph.replays == before + 2


def test_several_samples_of_prompts_of_different_lengths_are_those_of_ordinary_steps():
    ordinary, model = twins(LONG)
    sampling = Sampling(eos=VOCABULARY, max_tokens=40)
    prompts, seeds = [[4, 5, 6, 7], [9], [3, 8]], [[1, 2, 3], [4], [5, 6]]
    found, expected = (sample(m, prompts, sampling, seeds) for m in (model, ordinary))
    assert [[row.tokens for row in rows] for rows in found] == [
        [row.tokens for row in rows] for rows in expected
    ]
    assert all(len(row.tokens) == 40 for rows in found for row in rows)


def test_states_that_take_turns_keep_their_own_keys_and_values():
    models = twins(LONG)
    first, second = (Pair(models, random_tokens(2, 3, seed)) for seed in (5, 6))
    for number in range(12):
        first.steps(1, number)
        second.steps(1, number + 1)
        if number % 4 == 3:
            first.reorder([1, 0])
    assert len({graph._owner() for graph in models[1].step.graphs if not graph.is_free}) == 2


def test_a_state_that_left_its_graph_does_not_write_into_it_again():
    """A reordering writes into the tensors of the one before, which may be those of a graph."""
    models = twins(LONG)
    first = Pair(models, random_tokens(4, 3, 5))
    first.steps(1)
    first.reorder([0, 0, 1, 2, 3])  # leaves the graph of 4 rows for one of 8
    first.steps(1)
    second = Pair(models, random_tokens(4, 3, 6))
    second.steps(1)
    assert [graph.shape.rows for graph in models[1].step.graphs] == [8, 4]
    first.reorder([3, 2, 1, 0])
    second.steps(1)
    first.steps(1)


def test_sequences_are_admitted_and_released_between_steps():
    models = twins(LONG)
    pair = Pair(models, random_tokens(1, 4))
    pair.steps(2)
    for joining in (1, 3, 2):  # into the graph, and beyond its rows
        other = Pair(models, random_tokens(joining, 6, joining))
        other.steps(joining)
        for mine, theirs in zip(pair.states, other.states, strict=True):
            mine.join(theirs)
        del other
        pair.steps(2)
    for row in (0, 5, 2):
        last = len(pair.states[0].lengths) - 1
        pair.reorder([last if n == row else n for n in range(last)])
        pair.steps(1)


def test_a_graph_serves_the_next_search_once_its_state_is_gone(monkeypatch):
    models = twins(LONG)
    for rows in (3, 4, 3):
        pair = Pair(models, random_tokens(rows, 3))
        pair.steps(2)
        del pair
        gc.collect()
    assert len(models[1].step.graphs) == 1


def test_graphs_are_bounded_and_states_beyond_take_ordinary_steps(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 2)
    models = twins(LONG)
    pairs = [Pair(models, random_tokens(1, 3, seed)) for seed in range(3)]
    for number in range(8):  # the lengths pass the capacity of the first graphs
        for pair in pairs:
            pair.steps(1, number)
        assert len(models[1].step.graphs) == 2
    assert sum(pair.states[1].cache.layers[0].stores[0].shape[2] > 16 for pair in pairs) == 0
    monkeypatch.setattr(EmulatedGraph, "free", 0)
    monkeypatch.setattr(graphs, "PART", 0.4)  # none of the size of both together
    for pair in pairs:
        pair.steps(6)


def test_a_text_that_outgrows_the_last_graph_leaves_it_for_a_larger_one(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 1)
    models = twins(LONG)
    pair = Pair(models, random_tokens(1, 0))  # nothing but what the first step appends
    pair.steps(1)
    assert not models[1].step.graphs
    before = EmulatedGraph.replays
    pair.steps(20)
    assert EmulatedGraph.replays == before + 20
    assert [graph.shape.capacity for graph in models[1].step.graphs] == [32]


def test_logits_of_earlier_steps_are_not_overwritten():
    _, model = twins(LONG)
    state = model.start(random_tokens(2, 3))
    first, _ = model.step(random_tokens(2, 1), state)
    kept = first.clone()
    model.step(random_tokens(2, 1, 7), state)
    assert torch.equal(first, kept)


def test_hooks_are_called_and_other_modes_take_ordinary_steps():
    _, model = twins("gpt")
    state = model.start(random_tokens(2, 3))
    model.step(random_tokens(2, 1), state)
    called = []
    before = EmulatedGraph.replays
    handle = model.embedding.register_forward_pre_hook(lambda *_: called.append(1))
    model.step(random_tokens(2, 1), state)
    assert called == [1]
    handle.remove()
    model.train()
    model.step(random_tokens(2, 1), state)
    model.eval()
    with torch.inference_mode(False):
        assert model.step(random_tokens(2, 1), model.start(random_tokens(2, 3)))[0].requires_grad
    assert EmulatedGraph.replays == before
    model.step(random_tokens(2, 1), state)
    assert EmulatedGraph.replays == before + 1


def test_steps_under_autocast_have_graphs_of_their_own():
    models = twins(LONG)
    pair = Pair(models, random_tokens(2, 3))
    pair.steps(1)
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype=dtype):
            before = EmulatedGraph.replays
            pair.steps(1)
            for model in models:
                for parameter in model.parameters():
                    parameter.mul_(1.1)
            pair.steps(1)
            assert EmulatedGraph.replays == before + 2
    pair.steps(1)
    dtypes = {None, torch.bfloat16, torch.float16}
    assert {graph.shape.autocast for graph in models[1].step.graphs} == dtypes


def test_new_values_of_parameters_are_used_and_new_parameters_are_recorded_again():
    models = twins(LONG)
    Pair(models, random_tokens(2, 3)).steps(1)
    for model in models:
        for parameter in model.parameters():
            parameter.mul_(1.5)
    Pair(models, random_tokens(2, 3)).steps(1)
    count = EmulatedGraph.count
    for model in models:
        with torch.inference_mode(False), torch.no_grad():
            model.output.weight = torch.nn.Parameter(model.output.weight.flip(0).clone())
    Pair(models, random_tokens(2, 3)).steps(1)
    assert EmulatedGraph.count == count + 1
    for model in models:
        with torch.inference_mode(False):
            torch.manual_seed(1)
            lora(model, rank=2).eval()
        for parameter in model.parameters():
            parameter.add_(0.1)
    Pair(models, random_tokens(2, 3)).steps(1)
    assert EmulatedGraph.count == count + 2


def test_a_copy_of_a_model_records_graphs_of_its_own():
    models = twins(LONG)
    Pair(models, random_tokens(2, 3)).steps(1)
    with torch.inference_mode(False):
        copies = deepcopy(models)
    for copied in copies:
        copied.output.weight.mul_(2)
    Pair(copies, random_tokens(2, 3)).steps(1)
    Pair(models, random_tokens(2, 3)).steps(1)
    assert copies[1].step is not models[1].step and copies[1].step.model is copies[1]


def test_threads_may_decode_with_one_model():
    ordinary, model = twins(LONG)
    sampling = Sampling(eos=VOCABULARY, max_tokens=20, rules=(MostProbable(),))
    found: dict[int, list[int]] = {}

    def decode(number: int) -> None:
        with torch.inference_mode():
            ((row,),) = sample(model, [[number, 4]], sampling, [[0]])
        found[number] = row.tokens

    threads = [threading.Thread(target=decode, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, tokens in found.items():
        ((row,),) = sample(ordinary, [[number, 4]], sampling, [[0]])
        assert tokens == row.tokens


def test_a_text_that_is_too_long_is_the_error_of_an_ordinary_step():
    _, model = twins("gpt")
    state = model.start(random_tokens(1, 30))
    model.step(random_tokens(1, 1), state)
    model.step(random_tokens(1, 1), state)
    with pytest.raises(ValueError, match="33 positions are needed"):
        model.step(random_tokens(1, 1), state)


def test_on_other_devices_nothing_changes_and_other_models_are_refused():
    _, model = twins("gpt")
    replay_steps(model)  # CUDA graphs, for a model on the CPU
    rows = open_rows(model, [[4, 5]], [[0]], Sampling(eos=2, max_tokens=3))
    model.step(random_tokens(1, 1), read_prompts(model, rows))
    assert model.step.graphs == [] and isinstance(model, GPT)
    with pytest.raises(UsageError, match="a Translator cannot decode by CUDA graphs"):
        replay_steps(MODELS["rnn"].build())


@pytest.mark.parametrize("make", [bundles.gpt, bundles.translator, bundles.captioner])
def test_a_model_that_is_loaded_on_a_cuda_device_decodes_by_graphs(make, tmp_path, monkeypatch):
    with torch.inference_mode(False):
        make().save(tmp_path / "model")
        assert "step" not in vars(load(tmp_path / "model").model)
        monkeypatch.setattr(CudaRecorder, "device_type", "cpu")
        assert isinstance(load(tmp_path / "model").model.step, graphs.ReplayedSteps)
        assert "step" not in vars(load(tmp_path / "model", fast=False).model)


@pytest.mark.parametrize(
    "make",
    [lambda: bundles.translator(encoder="rnn", decoder="rnn"), bundles.bert_classifier],
    ids=["recurrent", "classifier"],
)
def test_a_model_without_a_transformer_decoder_is_loaded_on_a_cuda_device(
    make, tmp_path, monkeypatch
):
    with torch.inference_mode(False):
        make().save(tmp_path / "model")
        monkeypatch.setattr(CudaRecorder, "device_type", "cpu")
        assert "step" not in vars(load(tmp_path / "model").model)


def test_the_emulation_refuses_memory_that_was_freed_since_the_recording():
    numbers = [torch.ones(3), torch.ones(3)]
    views = [x[1:] for x in numbers]
    graph = EmulatedGraph(torch.device("cpu"))
    result = graph.record(lambda: numbers[0] + views[1].sum())
    del numbers[1]  # its memory is that of the view, too
    numbers[0].fill_(2)
    graph.replay()
    assert result.tolist() == [4, 4, 4]
    views.clear()
    with pytest.raises(RuntimeError, match="uses memory that was freed"):
        graph.replay()
