"""The tree of a beam search: every sum, every parent, and what won; nothing changed by watching."""

import pytest
import torch

from headway.decoding import beam_search
from headway.errors import UsageError
from headway.inspection.beams import beam_tree, candidate_tree
from headway.inspection.watch import watch
from tests.fixtures.bundles import captioner, gpt, translator
from tests.fixtures.captioners import PIXELS
from tests.fixtures.zoo import MODELS, limits, some_rows


@pytest.mark.parametrize("settings", [{"width": 4}, {"width": 4, "groups": 2, "diversity": 0.5}])
@pytest.mark.parametrize("name", ["translator", "rnn", "gpt", "captioner"])
def test_an_observed_search_finds_the_same_to_the_last_bit(name, settings):
    family = MODELS[name]
    model, rows, weighed = family.build(), some_rows(3, seed=1), []
    inputs = family.inputs(rows)
    plain = beam_search(model, inputs, limits(rows), num_best=2, **settings)
    found = beam_search(model, inputs, limits(rows), num_best=2, **settings, observe=weighed.append)
    assert found == plain and {each.item for each in weighed} == {0, 1, 2}
    ended: dict = {}  # several groups may end alike, and round in their last bit
    for each in weighed:
        if each.ends:
            assert each.continued
            ended.setdefault((each.item, each.before), []).append(each.log_probability)
    for item, best in enumerate(found):
        for hypothesis in best:
            assert hypothesis.log_probability in ended[item, hypothesis.tokens]


@pytest.mark.parametrize("beam", [2, 4])
def test_a_tree_holds_every_sum_and_the_path_of_the_winner(beam):
    bundle = translator()
    source = "the fox eats the lemon"
    leaves = beam_tree(bundle, source, beam=beam)
    (best,) = bundle.search([source], beam=beam)[0]
    side = bundle.tokenizer.target
    path = [leaf for leaf in leaves if leaf.chosen]
    assert [leaf.token for leaf in path] == side.token_strings([side.bos, *best.tokens, side.eos])
    assert path[-1].log_probability == best.log_probability and all(leaf.continued for leaf in path)
    reading = bundle.reading(source, "")
    for place, leaf in enumerate(leaves[1:], 1):
        assert leaf.parent is not None and leaf.parent < place
        assert leaves[leaf.parent].continued and leaves[leaf.parent].token != "</s>"
        assert leaf.log_probability <= leaves[leaf.parent].log_probability
    with torch.inference_mode():
        first = reading.run()[0, 0].clone()
        first[[side.pad, side.bos]] = -torch.inf
        wanted = first.log_softmax(-1).topk(2 * beam)
    begun = [leaf for leaf in leaves if leaf.parent == 0]
    assert [leaf.token for leaf in begun] == side.token_strings(wanted.indices.tolist())
    assert [leaf.log_probability for leaf in begun] == pytest.approx(wanted.values.tolist())
    assert sum(leaf.continued and leaf.token != "</s>" for leaf in begun) == beam


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


def test_a_frame_has_the_tree_of_what_the_model_wrote_itself():
    frame = watch(translator(), "two dogs play", analyses=("beam",))
    chosen = [leaf.token for leaf in frame.beam if leaf.chosen]
    assert chosen[1:] == list(frame.sides["target"].tokens)
    assert watch(translator(), "two dogs", target="zwei", analyses=("beam",)).beam == ()
    bundle = captioner()
    frame = watch(bundle, PIXELS[1], language="de", analyses=("beam",))
    chosen = [leaf.token for leaf in frame.beam if leaf.chosen]
    assert chosen[0] == "<de>"
    assert chosen[1:] == list(frame.sides["target"].tokens)[: len(chosen) - 1]


def test_what_groups_weigh_twice_is_one_node():
    family = MODELS["translator"]
    rows, weighed = some_rows(1, seed=3), []
    (found,) = beam_search(
        *(family.build(), family.inputs(rows), limits(rows)),
        width=4,
        groups=2,
        diversity=0.1,
        observe=weighed.append,
    )
    leaves = candidate_tree(weighed, "<s>", (*found[0].tokens, 2), str)
    paths = {(*each.before, each.token) for each in weighed}
    assert len(leaves) == len(paths) + 1 < len(weighed) + 1
    assert [leaf.token for leaf in leaves if leaf.chosen][1:-1] == [str(t) for t in found[0].tokens]


def test_what_is_no_tree_is_refused():
    with pytest.raises(UsageError, match="gives no search tree: at least two beams"):
        beam_tree(translator(), "two dogs", beam=1)
    with pytest.raises(UsageError, match="language model does not use beam search"):
        beam_tree(gpt(), "the fox")
    with pytest.raises(UsageError, match="a single text and a beam width above 1"):
        translator().search(["a", "b"], observe=print)
