"""Frames of every kind of model: they show what the model computed and predicted."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.attention import record_inputs
from headway.base.errors import UsageError
from headway.inspection.ablation import without_heads
from headway.inspection.block_stacks import stacks_of
from headway.inspection.logit_lens import lens_logits
from headway.inspection.watch import watch
from headway.models import WordsConfig, words_model
from headway.tasks.word_vectors.model import WordsBundle
from headway.text import Vocabulary
from tests.fixtures.bundles import (
    BUNDLES,
    SENTENCE,
    answerer,
    bert_classifier,
    captioner,
    encoder,
    gpt,
    gpt_classifier,
    image_encoder,
    tagger,
    translator,
    watch_inputs,
)
from tests.fixtures.captioners import PIXELS
from tests.fixtures.image_classifiers import LABELS, classifier

ALL = pytest.mark.parametrize("name", BUNDLES)


@pytest.mark.turns(3)
@ALL
def test_a_frame_is_complete_and_its_parts_are_consistent(name):
    make, inputs = BUNDLES[name]
    bundle = make()
    positional, keywords = watch_inputs(bundle, inputs)
    frame = watch(bundle, *positional, **keywords, vectors=True, top=4)
    assert frame.model["kind"] == bundle.kind and frame.label
    assert frame.model["parameters"] == sum(p.numel() for p in set(bundle.model.parameters()))
    attention_maps = [maps for maps in frame.maps if maps.measure == "attention"]
    recorded = bundle.attention(*inputs).maps
    assert [layer for maps in attention_maps for layer in maps.layers] == sorted(
        recorded, key=[layer for maps in attention_maps for layer in maps.layers].index
    )
    for maps in frame.maps:
        size = len(frame.sides[maps.queries].tokens), len(frame.sides[maps.keys].tokens)
        assert len(maps.layers) == len(maps.weights) > 0
        for i, weights in enumerate(maps.weights):
            assert weights.shape[1:] == size and weights.dtype == torch.float32
            if maps.measure == "attention":
                assert torch.equal(weights, recorded[maps.layers[i]])
                assert len(maps.patterns[i]) == len(weights)
                assert all(0 <= x <= 1 for head in maps.patterns[i] for x in head.values())
            assert not maps.causal or torch.equal(weights, weights.tril())
    for prediction in frame.predictions:
        assert len(prediction.tokens) == len(prediction.probabilities) <= 4
        assert list(prediction.probabilities) == sorted(prediction.probabilities, reverse=True)
        assert 0 < sum(prediction.probabilities) <= 1 + 1e-5
    for attribution in frame.attributions:
        assert len(attribution.scores) == len(frame.sides[attribution.side].tokens)
        assert (
            attribution.position in [prediction.position for prediction in frame.predictions]
            or not frame.predictions
        )


@ALL
def test_vectors_give_the_weights_and_norms_are_those_of_the_written_vectors(name):
    make, inputs = BUNDLES[name]
    bundle = make()
    positional, keywords = watch_inputs(bundle, inputs)
    frame = watch(bundle, *positional, **keywords, vectors=True, analyses=("value-weighted",))
    with record_inputs(bundle.model) as recorded, torch.inference_mode():
        bundle.reading(*inputs).run()
    weighted = {maps.name: maps for maps in frame.maps if maps.measure == "value-weighted"}
    for maps in (m for m in frame.maps if m.measure == "attention"):
        for layer, (name_, weights, vectors) in enumerate(
            zip(maps.layers, maps.weights, maps.vectors, strict=True)
        ):
            call = recorded[name_][-1]
            if vectors.scale is not None:
                scores = vectors.q @ vectors.k.mT * vectors.scale
                bias = [x.bias[0] for x in recorded[name_] if x.bias is not None]
                scores = scores + torch.cat(bias, dim=1) if bias else scores
                masked = scores.masked_fill(weights == 0, -torch.inf)
                assert_close(masked.softmax(-1), weights, rtol=0, atol=1e-5)
            values = call.v[0] @ call.output  # H S D, the vector that each head adds for each key
            assert_close(vectors.norms, values.norm(dim=-1))
            parts = weights[:, :, :, None] * values[:, None]  # H T S D
            assert_close(weighted[maps.name].weights[layer], parts.norm(dim=-1))


def test_a_frame_of_a_translation_has_its_source_and_its_most_probable_tokens():
    bundle = translator()
    frame = watch(bundle, "the fox eats the lemon", top=3)
    (best,) = bundle.search(["the fox eats the lemon"])[0]
    assert frame.answer == best.text and set(frame.sides) == {"source", "read", "target"}
    assert [(m.name, m.queries, m.keys) for m in frame.maps if m.measure == "attention"] == [
        ("encoder", "source", "source"),
        ("decoder", "read", "read"),
        ("cross", "target", "source"),
    ]
    target = bundle.tokenizer.target
    ids = [*best.tokens, target.eos]
    reading = bundle.reading("the fox eats the lemon")
    with torch.inference_mode():
        logits = reading.run()[0]
    probabilities, allowed = logits.softmax(-1), logits.clone()
    allowed[:, [target.pad, target.bos]] = -torch.inf  # which no search generates
    for t, prediction in enumerate(frame.predictions):
        assert prediction.position == t and frame.predictions_side == "target"
        assert prediction.probabilities[0] == pytest.approx(float(probabilities[t].max()))
        assert list(prediction.tokens[:1]) == target.token_strings([int(probabilities[t].argmax())])
    assert best.finished
    total = sum(float(allowed.log_softmax(-1)[t, token]) for t, token in enumerate(ids))
    assert total == pytest.approx(best.log_probability, abs=1e-3)


def test_a_greedy_continuation_has_the_most_probable_token_at_each_position():
    bundle = gpt()
    frame = watch(bundle, "the fox eats", written=5, top=2)
    tokens = frame.sides["text"].tokens
    prompt_length = len(bundle.tokenizer.begin("the fox eats"))
    ((expected,),) = bundle.generate(["the fox eats"], max_tokens=5, temperature=0.0)
    assert frame.answer == expected.text and len(tokens) == prompt_length + len(expected.tokens)
    by_position = {prediction.position: prediction for prediction in frame.predictions}
    assert sorted(by_position) == list(range(1, len(tokens) + 1))
    for position in range(prompt_length, len(tokens)):
        assert by_position[position].tokens[0] == tokens[position]
    assert len(watch(bundle, "the fox eats", written=0).sides["text"].tokens) == prompt_length
    longest = watch(gpt(max_length=8), "the fox eats", written=30)
    assert len(longest.sides["text"].tokens) <= 8


def test_predictions_of_masked_tokens_are_those_of_fill():
    bundle = encoder(max_length=40)
    text = "The [MASK] waves to the [MASK]."
    frame = watch(bundle, text, top=5)
    (filled,) = bundle.fill([text])
    assert [list(prediction.tokens) for prediction in frame.predictions] == [
        [candidate.word for candidate in candidates] for candidates in filled
    ]
    for prediction, candidates in zip(frame.predictions, filled, strict=True):
        assert_close(list(prediction.probabilities), [c.probability for c in candidates])
        assert frame.sides["text"].tokens[prediction.position] == "[MASK]"
    assert watch(bundle, "The baker waves.").predictions == []


def test_classes_tags_and_answers_are_those_of_the_bundles_methods():
    bundle = bert_classifier(pairs=True)
    (classified,) = bundle.classify([(SENTENCE, "A dog.")])
    (prediction,) = watch(bundle, SENTENCE, "A dog.").predictions
    assert dict(zip(prediction.tokens, prediction.probabilities, strict=True)) == pytest.approx(
        classified.probabilities
    )
    assert prediction.position == 0
    frame = watch(gpt_classifier(), "the fox eats")
    assert frame.predictions[0].position == len(frame.sides["text"].tokens) - 1
    (tagged,) = tagger().tag([SENTENCE])
    frame = watch(tagger(), SENTENCE)
    assert [prediction.tokens[0] for prediction in frame.predictions] == [
        word.tag for word in tagged.words
    ]
    context = "A fox looks on. The old baker waves."
    (answer,) = answerer().answer("Who waves?", context)
    assert watch(answerer(), "Who waves?", context).answer == answer.text
    bundle = classifier()
    (classified_image,) = bundle.classify([PIXELS[0]])
    frame = watch(bundle, PIXELS[0])
    assert frame.answer == classified_image.label and set(frame.predictions[0].tokens) == set(
        LABELS
    )


def test_an_image_is_shown_beside_its_tokens():
    frame = watch(image_encoder(), PIXELS[1])
    side = frame.sides["image"]
    assert side.grid == (2, 2) and side.reach == (8, 8) and side.num_prefix_tokens == 2
    assert side.image is not None and side.image.shape == (8, 8, 3)
    assert list(side.tokens) == ["[CLS]", "[R1]", "0,0", "0,1", "1,0", "1,1"]
    written = watch(captioner(), PIXELS[1], target="the red cat", language="de")
    assert written.answer == "the red cat" and written.sides["read"].tokens[0] == "<de>"
    assert written.sides["image"].grid == (2, 4) and "target" in written.sides


PREDICTING_TOKENS = [
    name
    for name in BUNDLES
    if name.split()[0] in ("translator", "gpt", "captioner", "encoder")
    and name not in ("gpt classifier", "encoder without a head")
]


@pytest.mark.parametrize("name", PREDICTING_TOKENS)
def test_the_last_row_of_the_lens_equals_the_models_output(name):
    make, inputs = BUNDLES[name]
    bundle = make()
    positional, keywords = watch_inputs(bundle, inputs)
    probe = bundle.probe(*positional, **keywords)
    rows = lens_logits(probe)
    with torch.inference_mode():
        assert torch.equal(rows[-1], probe.reading.run())
    assert len(rows) == len(probe.readout.unembedding.stack.blocks) + 1
    assert not torch.allclose(rows[0], rows[-1])
    frame = watch(bundle, *positional, **keywords, top=5)
    assert frame.lens is not None and frame.lens.layers[0] == "embedding"
    assert list(frame.lens.predictions[-1]) == list(frame.predictions)


def test_a_skipped_block_shows_in_the_lens_at_its_layer():
    probe = gpt().probe("the fox eats the lemon", written=0)
    before = lens_logits(probe)
    block = probe.reading.model.decoder.blocks[1]
    block.forward = lambda x, mask: x
    after = lens_logits(probe)
    assert torch.equal(before[1], after[1]) and torch.equal(after[1], after[2])
    assert not torch.equal(before[3], after[3])


def test_a_model_that_predicts_no_tokens_has_no_lens():
    for bundle, inputs in (
        (tagger(), (SENTENCE,)),
        (image_encoder(), (PIXELS[0],)),
        (translator(decoder="rnn"), ("two dogs",)),
    ):
        assert watch(bundle, *inputs).lens is None
        with pytest.raises(UsageError, match="predicts tokens"):
            lens_logits(bundle.probe(*inputs))
    assert stacks_of(translator(encoder="rnn", decoder="rnn").model) == {}


def test_a_rollout_needs_every_layer():
    names = [maps.measure for maps in watch(gpt(), "the fox", written=0).maps]
    assert names.count("rollout") == 1
    some = watch(gpt(), "the fox", written=0, layers=("decoder.blocks.1",))
    assert {maps.measure for maps in some.maps} == {"attention", "value-weighted"}
    assert [list(maps.layers) for maps in some.maps] == [["decoder.blocks.1.attention"]] * 2


def words() -> WordsBundle:
    vocabulary = Vocabulary.count(["the fox eats the lemon"], 9)
    config = replace(WordsConfig(), vocabulary=vocabulary.size)
    return WordsBundle(words_model(config), vocabulary)


@pytest.mark.parametrize(
    ("make", "inputs", "keywords", "message"),
    [
        (words, ("fox",), {}, "no attention layers to inspect"),
        (
            lambda: translator(encoder="rnn", decoder="rnn", attention="none"),
            ("two dogs",),
            {},
            "no attention layers to inspect",
        ),
        (gpt, ("  ",), {}, "not empty"),
        (gpt, (3,), {}, "not empty"),
        (gpt, ("a", "b"), {}, "takes one input, not two"),
        (gpt, ("a",), {"target": "b"}, "generates no output, so it takes no target"),
        (translator, ("bread",), {"language": "de"}, "has no output languages"),
        (answerer, ("Who waves?",), {}, "a question needs a context"),
        (lambda: bert_classifier(pairs=True), ("a dog",), {}, "classifies pairs of texts"),
        (gpt, ("a",), {"analyses": ("lense",)}, "unknown analyses lense"),
        (gpt, ("a",), {"layers": ("encoder",)}, "no attention layer 'encoder'"),
        (captioner, (PIXELS[0],), {"language": "fr"}, "has no captions in the language 'fr'"),
    ],
)
def test_inputs_that_cannot_be_inspected_are_refused(make, inputs, keywords, message):
    with pytest.raises(UsageError, match=message):
        watch(make(), *inputs, **keywords)


def test_a_regression_model_has_no_predictions_but_has_attributions():
    from headway.models import BertClassifier
    from headway.tasks.classification.model import ClassifierBundle
    from headway.tasks.classification.reader import ClassReader, Numbers

    text_encoder = encoder(max_length=40)
    reader = ClassReader(text_encoder.tokenizer, (), 40, Numbers(3.0, 2.0, 0.0, 5.0))
    frame = watch(ClassifierBundle(BertClassifier(text_encoder.model, 1), reader), SENTENCE)
    assert frame.predictions == [] and float(frame.answer) < 100
    (attribution,) = frame.attributions
    assert attribution.of == "the number" and any(attribution.scores)


def test_the_importance_of_a_head_is_the_loss_of_log_probability_without_it():
    bundle = translator()
    options = {"target": "zwei hunde", "analyses": ("importance",)}
    frame = watch(bundle, "two dogs play", **options)
    assert frame.metric == "log-probability of the answer"
    shape = {part: [len(layer) for layer in layers] for part, layers in frame.importance.items()}
    assert shape == {"encoder": [3], "decoder": [3, 3], "cross": [3, 3]}
    reading = bundle.reading("two dogs play", "zwei hunde")
    with torch.no_grad():
        before = reading.run()[0].log_softmax(-1)
        with without_heads(bundle.model, [("cross", 1, 2)]):
            after = reading.run()[0].log_softmax(-1)
    best = before.argmax(-1, keepdim=True)
    loss = float((before.gather(1, best) - after.gather(1, best)).mean())
    assert frame.importance["cross"][1][2] == pytest.approx(loss, abs=1e-5)
    assert watch(bundle, "two dogs play", target="zwei").importance == {}
