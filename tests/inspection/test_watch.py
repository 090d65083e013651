"""A model of every kind, watched: what is shown is what it computed and what it said."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.attention import record_inputs
from headway.errors import UsageError
from headway.inspection.ablation import without_heads
from headway.inspection.block_stacks import stacks_of
from headway.inspection.logit_lens import lens_logits
from headway.inspection.watch import watch
from headway.models import WordsConfig, words_model
from headway.tasks.word_vectors.bundle import WordsBundle
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


@ALL
def test_a_frame_is_whole_and_its_parts_fit(name):
    make, given = BUNDLES[name]
    bundle = make()
    inputs, named = watch_inputs(bundle, given)
    frame = watch(bundle, *inputs, **named, vectors=True, top=4)
    assert frame.model["kind"] == bundle.kind and frame.label
    assert frame.model["parameters"] == sum(p.numel() for p in set(bundle.model.parameters()))
    plain = [each for each in frame.maps if each.measure == "attention"]
    wanted = bundle.attention(*given).maps
    assert [layer for each in plain for layer in each.layers] == sorted(
        wanted, key=[layer for each in plain for layer in each.layers].index
    )
    for maps in frame.maps:
        size = len(frame.sides[maps.queries].tokens), len(frame.sides[maps.keys].tokens)
        assert len(maps.layers) == len(maps.weights) > 0
        for i, weights in enumerate(maps.weights):
            assert weights.shape[1:] == size and weights.dtype == torch.float32
            if maps.measure == "attention":
                assert torch.equal(weights, wanted[maps.layers[i]])
                assert len(maps.patterns[i]) == len(weights)
                assert all(0 <= x <= 1 for head in maps.patterns[i] for x in head.values())
            assert not maps.causal or torch.equal(weights, weights.tril())
    for guess in frame.predictions:
        assert len(guess.tokens) == len(guess.probabilities) <= 4
        assert list(guess.probabilities) == sorted(guess.probabilities, reverse=True)
        assert 0 < sum(guess.probabilities) <= 1 + 1e-5
    for attribution in frame.attributions:
        assert len(attribution.scores) == len(frame.sides[attribution.side].tokens)
        assert (
            attribution.position in [guess.position for guess in frame.predictions]
            or not frame.predictions
        )


@ALL
def test_vectors_make_the_weights_and_norms_are_of_what_reaches_the_stream(name):
    make, given = BUNDLES[name]
    bundle = make()
    inputs, named = watch_inputs(bundle, given)
    frame = watch(bundle, *inputs, **named, vectors=True, analyses=("value-weighted",))
    with record_inputs(bundle.model) as seen, torch.inference_mode():
        bundle.reading(*given).run()
    weighted = {each.name: each for each in frame.maps if each.measure == "value-weighted"}
    for maps in (each for each in frame.maps if each.measure == "attention"):
        for layer, (name_, weights, own) in enumerate(
            zip(maps.layers, maps.weights, maps.vectors, strict=True)
        ):
            call = seen[name_][-1]
            if own.scale is not None:
                scores = own.q @ own.k.mT * own.scale
                bias = [x.bias[0] for x in seen[name_] if x.bias is not None]
                scores = scores + torch.cat(bias, dim=1) if bias else scores
                hidden = scores.masked_fill(weights == 0, -torch.inf)
                assert_close(hidden.softmax(-1), weights, rtol=0, atol=1e-5)
            values = call.v[0] @ call.output  # H S D, what each head writes of each key
            assert_close(own.norms, values.norm(dim=-1))
            parts = weights[:, :, :, None] * values[:, None]  # H T S D
            assert_close(weighted[maps.name].weights[layer], parts.norm(dim=-1))


def test_a_translation_is_told_with_its_source_and_its_likeliest_words():
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
    shares, allowed = logits.softmax(-1), logits.clone()
    allowed[:, [target.pad, target.bos]] = -torch.inf  # which no search writes
    for t, guess in enumerate(frame.predictions):
        assert guess.position == t and frame.predictions_side == "target"
        assert guess.probabilities[0] == pytest.approx(float(shares[t].max()))
        assert list(guess.tokens[:1]) == target.token_strings([int(shares[t].argmax())])
    assert best.finished
    total = sum(float(allowed.log_softmax(-1)[t, token]) for t, token in enumerate(ids))
    assert total == pytest.approx(best.log_probability, abs=1e-3)


def test_what_a_language_model_wrote_is_what_was_likeliest():
    bundle = gpt()
    frame = watch(bundle, "the fox eats", written=5, top=2)
    tokens = frame.sides["text"].tokens
    begun = len(bundle.tokenizer.begin("the fox eats"))
    ((wanted,),) = bundle.generate(["the fox eats"], max_tokens=5, temperature=0.0)
    assert frame.answer == wanted.text and len(tokens) == begun + len(wanted.tokens)
    by_place = {guess.position: guess for guess in frame.predictions}
    assert sorted(by_place) == list(range(1, len(tokens) + 1))
    for place in range(begun, len(tokens)):
        assert by_place[place].tokens[0] == tokens[place]
    assert len(watch(bundle, "the fox eats", written=0).sides["text"].tokens) == begun
    longest = watch(gpt(max_length=8), "the fox eats", written=30)
    assert len(longest.sides["text"].tokens) <= 8


def test_hidden_words_are_filled_as_the_model_fills_them():
    bundle = encoder(max_length=40)
    text = "The [MASK] waves to the [MASK]."
    frame = watch(bundle, text, top=5)
    (wanted,) = bundle.fill([text])
    assert [list(guess.tokens) for guess in frame.predictions] == [
        [each.word for each in place] for place in wanted
    ]
    for guess, place in zip(frame.predictions, wanted, strict=True):
        assert_close(list(guess.probabilities), [each.probability for each in place])
        assert frame.sides["text"].tokens[guess.position] == "[MASK]"
    assert watch(bundle, "The baker waves.").predictions == []


def test_classes_tags_and_answers_are_those_of_the_verbs():
    bundle = bert_classifier(pairs=True)
    (wanted,) = bundle.classify([(SENTENCE, "A dog.")])
    (guess,) = watch(bundle, SENTENCE, "A dog.").predictions
    assert dict(zip(guess.tokens, guess.probabilities, strict=True)) == pytest.approx(
        wanted.probabilities
    )
    assert guess.position == 0
    own = watch(gpt_classifier(), "the fox eats")
    assert own.predictions[0].position == len(own.sides["text"].tokens) - 1
    (tagged,) = tagger().tag([SENTENCE])
    frame = watch(tagger(), SENTENCE)
    assert [guess.tokens[0] for guess in frame.predictions] == [word.tag for word in tagged.words]
    context = "A fox looks on. The old baker waves."
    (found,) = answerer().answer("Who waves?", context)
    assert watch(answerer(), "Who waves?", context).answer == found.text
    sees = classifier()
    (seen,) = sees.classify([PIXELS[0]])
    frame = watch(sees, PIXELS[0])
    assert frame.answer == seen.label and set(frame.predictions[0].tokens) == set(LABELS)


def test_a_picture_stands_beside_its_tokens():
    frame = watch(image_encoder(), PIXELS[1])
    side = frame.sides["image"]
    assert side.grid == (2, 2) and side.reach == (8, 8) and side.num_prefix_tokens == 2
    assert side.image is not None and side.picture.shape == (8, 8, 3)
    assert list(side.tokens) == ["[CLS]", "[R1]", "0,0", "0,1", "1,0", "1,1"]
    written = watch(captioner(), PIXELS[1], target="the red cat", language="de")
    assert written.answer == "the red cat" and written.sides["read"].tokens[0] == "<de>"
    assert written.sides["image"].grid == (2, 4) and "target" in written.sides


SPEAKING = [
    name
    for name in BUNDLES
    if name.split()[0] in ("translator", "gpt", "captioner", "encoder")
    and name not in ("gpt classifier", "encoder without a head")
]


@pytest.mark.parametrize("name", SPEAKING)
def test_the_last_row_of_the_lens_is_the_models_own_output_bit_by_bit(name):
    make, given = BUNDLES[name]
    bundle = make()
    inputs, named = watch_inputs(bundle, given)
    probe = bundle.probe(*inputs, **named)
    found = lens_logits(probe)
    with torch.inference_mode():
        assert torch.equal(found[-1], probe.reading.run())
    assert len(found) == len(probe.readout.unembedding.stack.blocks) + 1
    assert not torch.allclose(found[0], found[-1])
    frame = watch(bundle, *inputs, **named, top=5)
    assert frame.lens is not None and frame.lens.layers[0] == "embedding"
    assert list(frame.lens.predictions[-1]) == list(frame.predictions)


def test_a_block_left_out_shows_in_the_lens_where_it_stood():
    probe = gpt().probe("the fox eats the lemon", written=0)
    before = lens_logits(probe)
    block = probe.reading.model.decoder.blocks[1]
    block.forward = lambda x, mask: x
    after = lens_logits(probe)
    assert torch.equal(before[1], after[1]) and torch.equal(after[1], after[2])
    assert not torch.equal(before[3], after[3])


def test_what_says_no_words_has_no_lens():
    for bundle, given in (
        (tagger(), (SENTENCE,)),
        (image_encoder(), (PIXELS[0],)),
        (translator(decoder="rnn"), ("two dogs",)),
    ):
        assert watch(bundle, *given).lens is None
        with pytest.raises(UsageError, match="predicts tokens"):
            lens_logits(bundle.probe(*given))
    assert stacks_of(translator(encoder="rnn", decoder="rnn").model) == {}


def test_a_rollout_needs_every_layer():
    names = [each.measure for each in watch(gpt(), "the fox", written=0).maps]
    assert names.count("rollout") == 1
    some = watch(gpt(), "the fox", written=0, layers=("decoder.blocks.1",))
    assert {each.measure for each in some.maps} == {"attention", "value-weighted"}
    assert [list(each.layers) for each in some.maps] == [["decoder.blocks.1.attention"]] * 2


def words() -> WordsBundle:
    vocabulary = Vocabulary.count(["the fox eats the lemon"], 9)
    config = replace(WordsConfig(), vocabulary=vocabulary.size)
    return WordsBundle(words_model(config), vocabulary)


@pytest.mark.parametrize(
    ("make", "given", "named", "message"),
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
def test_what_cannot_be_watched_is_told(make, given, named, message):
    with pytest.raises(UsageError, match=message):
        watch(make(), *given, **named)


def test_a_model_of_numbers_has_no_guesses_but_can_be_followed_back():
    from headway.models import BertClassifier
    from headway.tasks.classification.bundle import ClassifierBundle
    from headway.tasks.classification.reader import ClassReader, Numbers

    own = encoder(max_length=40)
    reader = ClassReader(own.tokenizer, (), 40, Numbers(3.0, 2.0, 0.0, 5.0))
    frame = watch(ClassifierBundle(BertClassifier(own.model, 1), reader), SENTENCE)
    assert frame.predictions == [] and float(frame.answer) < 100
    (attribution,) = frame.attributions
    assert attribution.of == "the number" and any(attribution.scores)


def test_the_importance_of_a_head_is_what_its_answer_loses_without_it():
    bundle = translator()
    given = {"target": "zwei hunde", "analyses": ("importance",)}
    frame = watch(bundle, "two dogs play", **given)
    assert frame.metric == "log-probability of the answer"
    shape = {part: [len(layer) for layer in own] for part, own in frame.importance.items()}
    assert shape == {"encoder": [3], "decoder": [3, 3], "cross": [3, 3]}
    reading = bundle.reading("two dogs play", "zwei hunde")
    with torch.no_grad():
        before = reading.run()[0].log_softmax(-1)
        with without_heads(bundle.model, [("cross", 1, 2)]):
            after = reading.run()[0].log_softmax(-1)
    best = before.argmax(-1, keepdim=True)
    fall = float((before.gather(1, best) - after.gather(1, best)).mean())
    assert frame.importance["cross"][1][2] == pytest.approx(fall, abs=1e-5)
    assert watch(bundle, "two dogs play", target="zwei").importance == {}
