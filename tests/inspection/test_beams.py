"""The tree of a beam search: scores, parents and the winner; observing changes nothing."""

import pytest
import torch

from headway.base.errors import UsageError
from headway.inspection.beams import candidate_tree, search_tree
from headway.inspection.watch import watch
from tests.fixtures.bundles import captioner, gpt, translator
from tests.fixtures.captioners import PIXELS
from tests.fixtures.searches import beam_search
from tests.fixtures.zoo import MODELS, limits, some_rows


@pytest.mark.parametrize("settings", [{"beam": 4}, {"beam": 4, "beam_groups": 2, "diversity": 0.5}])
@pytest.mark.parametrize("name", ["translator", "rnn", "gpt", "captioner"])
def test_observing_a_search_does_not_change_its_hypotheses(name, settings):
    family = MODELS[name]
    model, rows, candidates = family.build(), some_rows(3, seed=1), []
    inputs = family.inputs(rows)
    plain = beam_search(model, inputs, limits(rows), num_best=2, **settings)
    observed = beam_search(
        model, inputs, limits(rows), num_best=2, **settings, observe=candidates.append
    )
    assert observed == plain and {candidate.item for candidate in candidates} == {0, 1, 2}
    ended: dict = {}  # several groups may end with the same tokens, and differ in rounding
    for candidate in candidates:
        if candidate.ends:
            assert candidate.continued
            ended.setdefault((candidate.item, candidate.before), []).append(
                candidate.log_probability
            )
    for item, best in enumerate(observed):
        for hypothesis in best:
            assert hypothesis.log_probability in ended[item, hypothesis.tokens]


@pytest.mark.parametrize("beam", [2, 4])
def test_a_tree_has_every_log_probability_and_the_path_of_the_winner(beam):
    bundle = translator()
    source = "the fox eats the lemon"
    leaves, _ = search_tree(bundle, source, beam=beam)
    (best,) = bundle.search([source], beam=beam)[0]
    side = bundle.tokenizer.target
    path = [leaf for leaf in leaves if leaf.chosen]
    assert [leaf.token for leaf in path] == side.token_strings([side.bos, *best.tokens, side.eos])
    assert path[-1].log_probability == best.log_probability and all(leaf.continued for leaf in path)
    reading = bundle.reading(source, "")
    for index, leaf in enumerate(leaves[1:], 1):
        assert leaf.parent is not None and leaf.parent < index
        assert leaves[leaf.parent].continued and leaves[leaf.parent].token != "</s>"
        assert leaf.log_probability <= leaves[leaf.parent].log_probability
    with torch.inference_mode():
        first = reading.run()[0, 0].clone()
        first[[side.pad, side.bos]] = -torch.inf
        expected = first.log_softmax(-1).topk(2 * beam)
    first_leaves = [leaf for leaf in leaves if leaf.parent == 0]
    assert [leaf.token for leaf in first_leaves] == side.token_strings(expected.indices.tolist())
    assert [leaf.log_probability for leaf in first_leaves] == pytest.approx(
        expected.values.tolist()
    )
    assert sum(leaf.continued and leaf.token != "</s>" for leaf in first_leaves) == beam


def test_a_frame_and_its_tree_come_from_one_search(monkeypatch):
    bundle, searches = translator(), []
    search = bundle.search
    monkeypatch.setattr(bundle, "search", lambda *a, **k: searches.append(a) or search(*a, **k))
    frame = watch(bundle, "two dogs play")
    assert len(searches) == 1
    written = [leaf.token for leaf in frame.beam if leaf.chosen]
    assert written[1:] == frame.sides["target"].tokens[: len(written) - 1] and len(written) > 2
    with pytest.raises(UsageError, match="empty"):
        watch(bundle, "  ")
    assert len(searches) == 1
    plain = watch(bundle, "two dogs play", analyses=())
    assert plain.answer == frame.answer and plain.sides == frame.sides


def test_a_frame_has_the_tree_of_the_models_own_output():
    frame = watch(translator(), "two dogs play", analyses=("beam",))
    chosen = [leaf.token for leaf in frame.beam if leaf.chosen]
    assert chosen[1:] == list(frame.sides["target"].tokens)
    assert watch(translator(), "two dogs", target="zwei", analyses=("beam",)).beam == ()
    bundle = captioner()
    frame = watch(bundle, PIXELS[1], language="de", analyses=("beam",))
    chosen = [leaf.token for leaf in frame.beam if leaf.chosen]
    assert chosen[0] == "<de>"
    assert chosen[1:] == list(frame.sides["target"].tokens)[: len(chosen) - 1]


def test_a_candidate_of_two_groups_is_one_node():
    family = MODELS["translator"]
    rows, candidates = some_rows(1, seed=3), []
    (hypotheses,) = beam_search(
        family.build(),
        family.inputs(rows),
        limits(rows),
        beam=4,
        beam_groups=2,
        diversity=0.1,
        observe=candidates.append,
    )
    leaves = candidate_tree(candidates, "<s>", (*hypotheses[0].tokens, 2), str)
    paths = {(*candidate.before, candidate.token) for candidate in candidates}
    assert len(leaves) == len(paths) + 1 < len(candidates) + 1
    assert [leaf.token for leaf in leaves if leaf.chosen][1:-1] == [
        str(t) for t in hypotheses[0].tokens
    ]


def test_searches_without_a_tree_are_refused():
    with pytest.raises(UsageError, match="gives no search tree: at least two beams"):
        search_tree(translator(), "two dogs", beam=1)
    with pytest.raises(UsageError, match="language model does not use beam search"):
        search_tree(gpt(), "the fox")
    with pytest.raises(UsageError, match="a single text and a beam width above 1"):
        translator().search(["a", "b"], observe=print)
