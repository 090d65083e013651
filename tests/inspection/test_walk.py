"""The arrays of a walk are those that the model computes: each step follows from the last."""

import math
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import headway
from headway.base.errors import UsageError
from headway.bundle import attention_of
from headway.inspection.tables import Tables, quoted
from headway.inspection.top_predictions import most_probable_predictions
from headway.inspection.tracing import tracing
from headway.inspection.walk import walk
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

UNCUT = Tables(rows=999, columns=9999)
WALKABLE = [name for name in BUNDLES if name not in ("rnn", "rnn feeding")]
MAPS = [(name, None) for name in WALKABLE] + [
    (name, part)
    for name in ("translator", "translator post-norm", "translator rotary", "captioner")
    for part in ("encoder", "decoder")
]


def probe_of(name):
    make, inputs = BUNDLES[name]
    bundle = make()
    positional, keywords = watch_inputs(bundle, inputs)
    return bundle.probe(*positional, **keywords)


def arrays_of(steps, title):
    """Return the arrays of each step with this title, by name."""
    return [{a.name: a.values for a in step.arrays} for step in steps if step.title == title]


def arrays_of_one(steps, title):
    (named_arrays,) = arrays_of(steps, title)
    return named_arrays


@pytest.mark.parametrize(("name", "part"), MAPS)
def test_each_step_follows_from_the_previous_one(name, part):
    probe = probe_of(name)
    layer = 0 if part == "encoder" else 1  # some encoders here have one layer
    steps = walk(probe, map=part, layer=layer, head=2, tables=UNCUT)
    projected = arrays_of_one(steps, "Queries, keys, values")
    rotated = arrays_of(steps, "Rotary positions")
    q, k = (
        (rotated[0]["q rotated"], rotated[0]["k rotated"])
        if rotated
        else (projected["q"], projected["k"])
    )
    scale = 1 / math.sqrt(q.shape[1])
    products, scores = arrays_of_one(steps, "Scores")["q · k"], arrays_of_one(steps, "Scale")["s"]
    assert_close(products, q @ k.T, rtol=1e-4, atol=1e-4)
    assert_close(scores, products * scale, rtol=1e-4, atol=1e-4)
    bias = arrays_of(steps, "Position bias")
    if bias:
        scores = scores + bias[0]["bias"]
    mask = arrays_of(steps, "Mask")
    allowed = mask[0]["allowed"] if mask else torch.ones_like(scores)
    weights = arrays_of(steps, "Softmax")[0]["a"]
    assert_close(
        weights, scores.masked_fill(allowed == 0, -torch.inf).softmax(-1), rtol=1e-4, atol=1e-5
    )
    context = arrays_of_one(steps, "Weighted sum")["context"]
    assert_close(context, weights @ projected["v"], rtol=1e-4, atol=1e-5)
    heads = arrays_of_one(steps, "Output projection")
    width = context.shape[1]
    assert_close(heads["heads"][:, 2 * width : 3 * width], context)
    for residual in arrays_of(steps, "Residual"):
        assert_close(residual["sum"], residual["x"] + residual["change"], rtol=1e-5, atol=1e-5)
    first, last = arrays_of(steps, "Residual")[0], arrays_of(steps, "Residual")[-1]
    assert_close(first["change"], heads["out"])
    assert_close(last["change"], arrays_of_one(steps, "Feed-forward")["output"])
    assert first["x"].shape == last["sum"].shape


@pytest.mark.parametrize(("name", "part"), MAPS)
def test_the_arrays_follow_from_the_weights_and_the_recorded_map(name, part):
    probe = probe_of(name)
    model = probe.reading.model
    steps = walk(probe, map=part, layer=0, head=1, tables=UNCUT)
    maps = attention_of(probe.reading).maps
    map_name = part or (
        "cross" if "cross" in probe.reading.axes else next(iter(probe.reading.axes))
    )
    layers = [name_ for name_ in maps if name_.endswith("cross") == (map_name == "cross")]
    layer = next(
        name_
        for name_ in layers
        if "blocks.0." in name_
        and (map_name == "cross" or (".decoder." in f".{name_}") == (map_name == "decoder"))
    )
    assert_close(arrays_of(steps, "Softmax")[0]["a"], maps[layer][1], rtol=0, atol=1e-6)
    attention = model.get_submodule(layer)
    norm = arrays_of(steps, "Norm before the sublayer")
    heads = arrays_of_one(steps, "Output projection")
    expected = attention.output.weight @ heads["heads"].T
    expected = expected.T + (0 if attention.output.bias is None else attention.output.bias)
    assert_close(heads["out"], expected.detach(), rtol=1e-4, atol=1e-4)
    if norm and name != "gpt modern":  # which normalises its queries too
        projected = attention.query.weight @ norm[0]["norm(x)"].T
        projected = projected.T + (0 if attention.query.bias is None else attention.query.bias)
        q = arrays_of_one(steps, "Queries, keys, values")["q"]
        assert_close(q, projected[:, q.shape[1] : 2 * q.shape[1]].detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", WALKABLE)
def test_the_walk_ends_at_the_models_answer_and_does_not_change_the_output(name):
    probe = probe_of(name)
    with torch.inference_mode():
        output = probe.reading.run()
        with tracing(probe.reading.model):
            assert torch.equal(probe.reading.run(), output)
        assert torch.equal(probe.reading.run(), output)
    steps = walk(probe, tables=UNCUT)
    if probe.readout is None or not len(probe.readout.positions):
        assert not arrays_of(steps, "Logits")
        return
    rows = probe.readout.logits(output).float()
    shown = arrays_of_one(steps, "Logits")["logits"][:, 0]
    row = next(
        i
        for i, logits in enumerate(rows)
        if torch.equal(logits.sort(descending=True).values, shown)
    )
    assert arrays_of(steps, "Softmax")[-1]["p"][:, 0].tolist() == pytest.approx(
        rows[row].softmax(-1).sort(descending=True).values.tolist()
    )
    (step,) = (step for step in steps if step.title == "Logits")
    prediction = most_probable_predictions(probe.readout, output, 1)[row]
    assert step.arrays[0].rows[0] == prediction.tokens[0]


def test_the_first_steps_show_the_input_of_the_model():
    probe = probe_of("gpt")
    model, ids = probe.reading.model, probe.reading.ids["text"]
    steps = walk(probe, tables=UNCUT)
    assert arrays_of_one(steps, "Tokens")["ids"][:, 0].tolist() == ids
    table, positions = model.embedding.tokens.weight, model.embedding.positions.table.vectors
    assert_close(arrays_of_one(steps, "Embedding")["embedding"], table[ids].detach())
    assert_close(arrays_of_one(steps, "Position")["position"], positions[: len(ids)].detach())
    assert_close(
        arrays_of_one(steps, "Position")["x"], (table[ids] + positions[: len(ids)]).detach()
    )
    probe = probe_of("translator")
    table = probe.reading.model.target_embedding.tokens.weight
    expected = table[probe.reading.ids["read"]].detach() * math.sqrt(24)
    steps = walk(probe, tables=UNCUT)
    assert_close(arrays_of_one(steps, "Embedding")["embedding"], expected)
    probe = probe_of("image encoder")
    steps = walk(probe, tables=UNCUT)
    inputs = arrays_of_one(steps, "Patches")["patches"]
    project = probe.reading.model.embedding.patches.project
    assert_close(
        arrays_of_one(steps, "Embedding")["x"], (inputs @ project.weight.T + project.bias).detach()
    )


def order(steps, *titles):
    all_titles = [step.title for step in steps]
    return [all_titles.index(title) for title in titles]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_norms_are_at_the_steps_where_the_model_has_them(norm):
    steps = walk(gpt(norm=norm).probe("the fox eats", written=0), layer=1)
    titles = [step.title for step in steps]
    assert titles.count("Norm before the sublayer") == (2 if norm == "pre" else 0)
    assert titles.count("Norm after the sum") == (0 if norm == "pre" else 2)
    assert ("Final norm" in titles) == (norm == "pre")
    indices = order(
        steps,
        "Tokens",
        "Embedding",
        "Position",
        "Earlier layers",
        "Queries, keys, values",
        "Scores",
        "Scale",
        "Mask",
        "Softmax",
        "Weighted sum",
        "Output projection",
        "Residual",
        "Feed-forward",
        "Later layers",
        "Logits",
    )
    assert indices == sorted(indices)


def test_a_decoder_block_is_walked_in_the_order_of_its_sublayers():
    bundle = translator()
    self_attention = walk(bundle.probe("two dogs", target="zwei"), map="decoder")
    cross_attention = walk(bundle.probe("two dogs", target="zwei"), map="cross")
    between = "Other attention of this layer"
    assert order(self_attention, "Softmax", between, "Feed-forward") == sorted(
        order(self_attention, "Softmax", between, "Feed-forward")
    )
    assert order(cross_attention, between, "Softmax", "Feed-forward") == sorted(
        order(cross_attention, between, "Softmax", "Feed-forward")
    )
    assert "Mask" not in [step.title for step in cross_attention]
    assert "Memory" in [step.title for step in walk(bundle.probe("two dogs"), map="encoder")]


@pytest.mark.parametrize("name", WALKABLE)
def test_every_source_is_a_definition_in_this_package_and_tables_are_readable(name):
    root = Path(headway.__file__).parents[1]
    for step in walk(probe_of(name)):
        path, line = step.source.rsplit(":", 1)
        assert path.startswith("src/headway/") and step.title and step.text and step.equation
        code = (root / path.removeprefix("src/")).read_text().split("\n")
        assert code[int(line) - 1].lstrip().startswith(("def ", "@"))
        for array in step.arrays:
            num_rows, num_columns = array.values.shape
            assert num_rows <= 12 and num_columns <= 16 and len(array.shape) in (1, 2)
            assert len(array.rows) == num_rows and len(array.columns) == num_columns
            assert bool(array.values.isfinite().all())


def test_the_walked_position_is_shown_in_a_text_of_any_length():
    bundle = gpt()
    text = "the fox eats the lemon and the dog eats the bread"
    for position in (0, 5, 11, 13):
        steps = walk(bundle.probe(text, written=0), position=position, head=5)
        (step,) = (step for step in steps if step.title == "Scale")
        name = bundle.reading(text).tokens["text"][position]
        assert name in step.arrays[0].rows and name in step.arrays[0].columns
        (step,) = (step for step in steps if step.title == "Output projection")
        assert any(column.startswith("h5.") for column in step.arrays[0].columns)


def test_a_head_of_every_group_and_kernel_is_walked():
    for kernel in ("dot", "additive", "bilinear", "linear", "linear-elu", "window"):
        bundle = gpt(**MODERN, attention=kernel, window=3)
        steps = walk(
            bundle.probe("the fox eats the lemon", written=0), layer=2, head=5, tables=UNCUT
        )
        reading = bundle.reading("the fox eats the lemon")
        maps = bundle.attention("the fox eats the lemon").maps
        name = "Weights" if kernel.startswith("linear") else "Softmax"
        weights = arrays_of(steps, name)[0]["a"]
        assert_close(weights, maps["decoder.blocks.2.attention"][5], rtol=0, atol=1e-6)
        projected = arrays_of_one(steps, "Queries, keys, values")
        assert_close(arrays_of_one(steps, "Weighted sum")["context"], weights @ projected["v"])
        rotated = arrays_of_one(steps, "Rotary positions")
        assert_close(rotated["k rotated"].norm(dim=1), projected["k"].norm(dim=1))
        assert_close(rotated["k rotated"][0], projected["k"][0])  # position 0 is not rotated
        assert not torch.allclose(rotated["k rotated"][2], projected["k"][2])
        allowed = arrays_of_one(steps, "Mask")["allowed"]
        assert int(allowed[-1].sum()) == (3 if kernel == "window" else len(reading.ids["text"]))


@pytest.mark.parametrize(
    ("make", "input", "keywords", "message"),
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
def test_a_map_layer_head_or_position_that_does_not_exist_is_refused(
    make, input, keywords, message
):
    with pytest.raises(UsageError, match=message):
        walk(make().probe(input, written=0), **keywords)


def test_the_walk_follows_the_position_from_which_the_answer_is_read():
    for name, token in (("encoder", "[MASK]"), ("classifier", "[CLS]"), ("gpt", "")):
        probe = probe_of(name)
        (step,) = (step for step in walk(probe) if step.title == "Tokens")
        walked = probe.reading.tokens["text"][-1] if name == "gpt" else token
        assert step.text.endswith(f"The following steps show the token “{walked.strip()}”.")


@pytest.mark.parametrize("text", ["fox", "the fox"])
def test_the_number_of_tokens_is_a_sentence_also_for_one_token(text):
    bundle = gpt()
    tokens = bundle.reading(text).tokens["text"]
    (step,) = (one for one in walk(bundle.probe(text, written=0), head=0) if one.title == "Tokens")
    expected = "is one token, which" if len(tokens) == 1 else f"into {len(tokens)} tokens, and"
    assert expected in step.text


def test_a_token_of_whitespace_is_visible_in_a_sentence():
    assert [quoted(token) for token in ("\n", "  ", " the")] == ["“↵”", "“␣␣”", "“the”"]
