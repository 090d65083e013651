"""The walk's numbers are the model's own: each step follows from the one before it."""

import math
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import headway
from headway.bundle import attention_of
from headway.errors import UsageError
from headway.inspection.tables import Tables
from headway.inspection.top_predictions import most_probable_predictions
from headway.inspection.tracing import tracing
from headway.inspection.walk import walk, walk_through
from tests.fixtures.bundles import (
    BUNDLES,
    MODERN,
    captioner,
    gpt,
    image_encoder,
    translator,
    watch_inputs,
)
from tests.fixtures.captioners import PIXELS

WHOLE = Tables(rows=999, columns=9999)
WALKABLE = [name for name in BUNDLES if name not in ("rnn", "rnn feeding")]
PLACES = [(name, None) for name in WALKABLE] + [
    (name, part)
    for name in ("translator", "translator post-norm", "translator rotary", "captioner")
    for part in ("encoder", "decoder")
]


def probed(name):
    make, given = BUNDLES[name]
    bundle = make()
    inputs, named = watch_inputs(bundle, given)
    return bundle.probe(*inputs, **named)


def tables(steps, title):
    """The arrays of each step of that title, by name."""
    return [
        {each.name: each.values for each in step.arrays} for step in steps if step.title == title
    ]


def only(steps, title):
    (found,) = tables(steps, title)
    return found


@pytest.mark.parametrize(("name", "part"), PLACES)
def test_each_step_follows_from_the_one_before_it(name, part):
    one = probed(name)
    layer = 0 if part == "encoder" else 1  # some encoders here have one layer
    steps = walk_through(one, map=part, layer=layer, head=2, tables=WHOLE)
    made = only(steps, "Queries, keys, values")
    turned = tables(steps, "Rotary positions")
    q, k = (turned[0]["q rotated"], turned[0]["k rotated"]) if turned else (made["q"], made["k"])
    scale = 1 / math.sqrt(q.shape[1])
    products, scores = only(steps, "Scores")["q · k"], only(steps, "Scale")["s"]
    assert_close(products, q @ k.T, rtol=1e-4, atol=1e-4)
    assert_close(scores, products * scale, rtol=1e-4, atol=1e-4)
    bias = tables(steps, "Position bias")
    if bias:
        scores = scores + bias[0]["bias"]
    mask = tables(steps, "Mask")
    allowed = mask[0]["allowed"] if mask else torch.ones_like(scores)
    weights = tables(steps, "Softmax")[0]["a"]
    assert_close(
        weights, scores.masked_fill(allowed == 0, -torch.inf).softmax(-1), rtol=1e-4, atol=1e-5
    )
    context = only(steps, "Weighted sum")["context"]
    assert_close(context, weights @ made["v"], rtol=1e-4, atol=1e-5)
    heads = only(steps, "Output projection")
    width = context.shape[1]
    assert_close(heads["heads"][:, 2 * width : 3 * width], context)
    for residual in tables(steps, "Residual"):
        assert_close(residual["sum"], residual["x"] + residual["change"], rtol=1e-5, atol=1e-5)
    first, last = tables(steps, "Residual")[0], tables(steps, "Residual")[-1]
    assert_close(first["change"], heads["out"])
    assert_close(last["change"], only(steps, "Feed-forward")["output"])
    assert first["x"].shape == last["sum"].shape


@pytest.mark.parametrize(("name", "part"), PLACES)
def test_the_numbers_are_those_of_the_weights_and_of_the_captured_map(name, part):
    one = probed(name)
    model = one.reading.model
    steps = walk_through(one, map=part, layer=0, head=1, tables=WHOLE)
    maps = attention_of(one.reading).maps
    used = part or ("cross" if "cross" in one.reading.axes else next(iter(one.reading.axes)))
    layers = [each for each in maps if each.endswith("cross") == (used == "cross")]
    layer = next(
        each
        for each in layers
        if "blocks.0." in each
        and (used == "cross" or (".decoder." in f".{each}") == (used == "decoder"))
    )
    assert_close(tables(steps, "Softmax")[0]["a"], maps[layer][1], rtol=0, atol=1e-6)
    attention = model.get_submodule(layer)
    norm = tables(steps, "Norm before the sublayer")
    heads = only(steps, "Output projection")
    made = attention.output.weight @ heads["heads"].T
    made = made.T + (0 if attention.output.bias is None else attention.output.bias)
    assert_close(heads["out"], made.detach(), rtol=1e-4, atol=1e-4)
    if norm and name != "gpt modern":  # whose queries are normed too
        inside = attention.query.weight @ norm[0]["norm(x)"].T
        inside = inside.T + (0 if attention.query.bias is None else attention.query.bias)
        q = only(steps, "Queries, keys, values")["q"]
        assert_close(q, inside[:, q.shape[1] : 2 * q.shape[1]].detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", WALKABLE)
def test_the_walk_ends_at_the_models_own_answer_and_changes_no_bit(name):
    one = probed(name)
    with torch.inference_mode():
        plain = one.reading.run()
        with tracing(one.reading.model):
            assert torch.equal(one.reading.run(), plain)
        assert torch.equal(one.reading.run(), plain)
    steps = walk_through(one, tables=WHOLE)
    if one.readout is None or not len(one.readout.positions):
        assert not tables(steps, "Logits")
        return
    rows = one.readout.logits(plain).float()
    shown = only(steps, "Logits")["logits"][:, 0]
    row = next(
        i for i, own in enumerate(rows) if torch.equal(own.sort(descending=True).values, shown)
    )
    assert tables(steps, "Softmax")[-1]["p"][:, 0].tolist() == pytest.approx(
        rows[row].softmax(-1).sort(descending=True).values.tolist()
    )
    (step,) = (each for each in steps if each.title == "Logits")
    guess = most_probable_predictions(one.readout, plain, 1)[row]
    assert step.arrays[0].rows[0] == guess.tokens[0]


def test_the_input_is_what_the_model_reads():
    one = probed("gpt")
    model, ids = one.reading.model, one.reading.ids["text"]
    steps = walk_through(one, tables=WHOLE)
    assert only(steps, "Tokens")["ids"][:, 0].tolist() == ids
    table, places = model.embedding.tokens.weight, model.embedding.positions.table.vectors
    assert_close(only(steps, "Embedding")["embedding"], table[ids].detach())
    assert_close(only(steps, "Position")["position"], places[: len(ids)].detach())
    assert_close(only(steps, "Position")["x"], (table[ids] + places[: len(ids)]).detach())
    one = probed("translator")
    table = one.reading.model.target_embedding.tokens.weight
    wanted = table[one.reading.ids["read"]].detach() * math.sqrt(24)
    steps = walk_through(one, tables=WHOLE)
    assert_close(only(steps, "Embedding")["embedding"], wanted)
    one = probed("image encoder")
    steps = walk_through(one, tables=WHOLE)
    inputs = only(steps, "Patches")["patches"]
    project = one.reading.model.embedding.patches.project
    assert_close(only(steps, "Embedding")["x"], (inputs @ project.weight.T + project.bias).detach())


def order(steps, *titles):
    shown = [step.title for step in steps]
    return [shown.index(title) for title in titles]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_norms_stand_where_this_model_has_them(norm):
    steps = walk(gpt(norm=norm), "the fox eats", layer=1)
    found = [step.title for step in steps]
    assert found.count("Norm before the sublayer") == (2 if norm == "pre" else 0)
    assert found.count("Norm after the sum") == (0 if norm == "pre" else 2)
    assert ("Final norm" in found) == (norm == "pre")
    places = order(
        steps,
        *("Tokens", "Embedding", "Position", "Earlier layers", "Queries, keys, values"),
        *("Scores", "Scale", "Mask", "Softmax", "Weighted sum", "Output projection"),
        *("Residual", "Feed-forward", "Later layers", "Logits"),
    )
    assert places == sorted(places)


def test_a_decoder_block_is_walked_in_its_own_order():
    bundle = translator()
    own = walk(bundle, "two dogs", target="zwei", map="decoder")
    across = walk(bundle, "two dogs", target="zwei", map="cross")
    between = "Other attention of this layer"
    assert order(own, "Softmax", between, "Feed-forward") == sorted(
        order(own, "Softmax", between, "Feed-forward")
    )
    assert order(across, between, "Softmax", "Feed-forward") == sorted(
        order(across, between, "Softmax", "Feed-forward")
    )
    assert "Mask" not in [step.title for step in across]
    assert "Memory" in [step.title for step in walk(bundle, "two dogs", map="encoder")]


@pytest.mark.parametrize("name", WALKABLE)
def test_every_source_is_a_definition_in_this_package_and_tables_are_readable(name):
    root = Path(headway.__file__).parents[1]
    for step in walk_through(probed(name)):
        path, line = step.source.rsplit(":", 1)
        assert path.startswith("src/headway/") and step.title and step.text and step.equation
        code = (root / path.removeprefix("src/")).read_text().split("\n")
        assert code[int(line) - 1].lstrip().startswith(("def ", "@"))
        for each in step.arrays:
            down, across = each.values.shape
            assert down <= 12 and across <= 16 and len(each.shape) in (1, 2)
            assert len(each.rows) == down and len(each.columns) == across
            assert bool(each.values.isfinite().all())


def test_what_is_walked_is_seen_however_long_the_text_is():
    bundle = gpt()
    text = "the fox eats the lemon and the dog eats the bread"
    for place in (0, 5, 11, 13):
        steps = walk(bundle, text, position=place, head=5)
        (step,) = (each for each in steps if each.title == "Scale")
        name = bundle.reading(text).tokens["text"][place]
        assert name in step.arrays[0].rows and name in step.arrays[0].columns
        (step,) = (each for each in steps if each.title == "Output projection")
        assert any(column.startswith("h5.") for column in step.arrays[0].columns)


def test_a_head_of_every_group_and_kind_is_walked():
    for kernel in ("dot", "additive", "bilinear", "linear", "linear-elu", "window"):
        bundle = gpt(**MODERN, attention=kernel, window=3)
        steps = walk(bundle, "the fox eats the lemon", layer=2, head=5, tables=WHOLE)
        reading = bundle.reading("the fox eats the lemon")
        maps = bundle.attention("the fox eats the lemon").maps
        name = "Weights" if kernel.startswith("linear") else "Softmax"
        weights = tables(steps, name)[0]["a"]
        assert_close(weights, maps["decoder.blocks.2.attention"][5], rtol=0, atol=1e-6)
        made = only(steps, "Queries, keys, values")
        assert_close(only(steps, "Weighted sum")["context"], weights @ made["v"])
        turned = only(steps, "Rotary positions")
        assert_close(turned["k rotated"].norm(dim=1), made["k"].norm(dim=1))
        assert_close(turned["k rotated"][0], made["k"][0])  # place 0 is not turned
        assert not torch.allclose(turned["k rotated"][2], made["k"][2])
        allowed = only(steps, "Mask")["allowed"]
        assert int(allowed[-1].sum()) == (3 if kernel == "window" else len(reading.ids["text"]))


@pytest.mark.parametrize(
    ("make", "given", "named", "message"),
    [
        (gpt, "a", {"map": "cross"}, "no map 'cross'; its maps are decoder"),
        (gpt, "a", {"layer": 3}, "decoder has no layer 3: its layers are 0 to 2"),
        (gpt, "a", {"head": 6}, "has no head 6: its heads are 0 to 5"),
        (gpt, "a", {"position": 99}, "text has no position 99: its positions are"),
        (
            lambda: translator(encoder="rnn", decoder="rnn"),
            "a",
            {},
            "this is a recurrent network",
        ),
        (lambda: translator(encoder="feed-forward"), "a", {"map": "encoder"}, "no attention"),
        (
            image_encoder,
            PIXELS[0],
            {"position": 6},
            "no position 6: its positions are 0 to 5",
        ),
        (captioner, PIXELS[0], {"map": "encoder", "layer": 1}, "no layer 1"),
    ],
)
def test_what_is_not_there_cannot_be_walked(make, given, named, message):
    with pytest.raises(UsageError, match=message):
        walk(make(), given, **named)


def test_the_walk_follows_the_place_from_which_the_answer_is_read():
    for name, token in (("encoder", "[MASK]"), ("classifier", "[CLS]"), ("gpt", "")):
        one = probed(name)
        (step,) = (each for each in walk_through(one) if each.title == "Tokens")
        seen = one.reading.tokens["text"][-1] if name == "gpt" else token
        assert step.text.endswith(f"The following steps show the token {seen!r}.")
