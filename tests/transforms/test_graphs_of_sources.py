"""Decoding by graphs after a source: translators and captioners, whose beams share its keys."""

import pytest

from tests.fixtures.emulated_graph import EmulatedGraph
from tests.fixtures.graph_pairs import OF_SOURCES, Pair, twins
from tests.fixtures.searches import searches_of
from tests.fixtures.zoo import some_rows

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.mark.turns(10)
@pytest.mark.parametrize("kind", ["fast", "plain"])
@pytest.mark.parametrize("name", OF_SOURCES)
@pytest.mark.usefixtures("attention_path")
def test_every_search_finds_what_it_finds_with_ordinary_steps(name, kind):
    ordinary, model = twins(name, kind=kind)
    ends_at_once = name == "translator with sinusoids in halves"  # in greedy search
    for search, run in searches_of(name, some_rows(4, seed=5)).items():
        before = EmulatedGraph.replays
        assert run(model) == run(ordinary), search
        is_exempt = ends_at_once and search == "greedy"
        assert is_exempt or EmulatedGraph.replays > before, f"{search} did not use graphs"


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", OF_SOURCES)
@pytest.mark.usefixtures("attention_path")
def test_logits_after_sources_are_those_of_ordinary_steps_whatever_happens_to_the_state(name):
    rows = [[4, 5, 6], [7, 8, 9, 3, 5], [6], [5, 3]]
    inputs = OF_SOURCES[name].inputs(rows)
    pair = Pair(twins(name), *inputs)
    before = EmulatedGraph.replays
    pair.steps(6)  # past the capacity of the first graph
    pair.reorder([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])  # three beams of each sentence
    pair.steps(2)
    pair.reorder([2, 0, 1, 4, 3, 3, 6, 6, 7, 9, 10, 11])
    pair.steps(1)
    kept = [state.memory.layers for state in pair.states]
    pair.reorder([3, 4, 5, 9, 9, 9])  # two sentences are finished
    pair.steps(2)
    del kept
    pair.reorder([3, 0, 1])  # the beams of a sentence are apart
    pair.rewind([4, 2, 5])
    pair.steps(1)
    other = Pair(pair.models, *OF_SOURCES[name].inputs(rows[:2]))
    other.steps(2)
    for mine, theirs in zip(pair.states, other.states, strict=True):
        mine.join(theirs)
    pair.steps(2)
    last = len(pair.states[0].lengths) - 1
    pair.reorder([last if n == 1 else n for n in range(last)])
    pair.steps(1)
    assert EmulatedGraph.replays >= before + 14
