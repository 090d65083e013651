"""Encoder bundles: hidden words, texts as vectors, attention; alone or among others."""

import pytest
import torch
from torch.testing import assert_close

from headway import load
from headway.bundle import EncoderBundle
from headway.errors import DataError, UsageError
from headway.text import MarkedTokenizer
from tests.fixtures.encoder_tokenizers import spaced
from tests.fixtures.small_encoder import TEXTS, encoder


@pytest.fixture(scope="module")
def bundle():
    return encoder()


def ids_of(bundle, *parts):
    """[CLS] parts [SEP]; None is the mask."""
    marks = bundle.tokenizer.marks
    inside = [i for p in parts for i in ([marks.mask] if p is None else bundle.tokenizer.encode(p))]
    return torch.tensor([marks.frame(inside)[0]])


# --- hidden words ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("the [MASK] waves", ("the", None, "waves")),
        ("[MASK] waves", (None, "waves")),
        ("the old [MASK]", ("the old", None)),
        ("[MASK]", (None,)),
        ("[MASK][MASK] by the [MASK].", (None, None, "by the", None, ".")),
    ],
)
def test_guesses_are_the_models_likeliest_words_at_each_mask(bundle, text, parts):
    (found,) = bundle.fill([text], top=4)
    tokens = ids_of(bundle, *parts)
    with torch.no_grad():
        shares = bundle.model(tokens)[0].softmax(-1)
    places = (tokens[0] == bundle.tokenizer.marks.mask).nonzero()[:, 0].tolist()
    assert len(found) == len(places) == text.count("[MASK]")
    for place, guesses in zip(places, found, strict=True):
        best = shares[place].topk(4)
        assert [guess.word for guess in guesses] == bundle.tokenizer.pieces(best.indices.tolist())
        for guess, value in zip(guesses, best.values.tolist(), strict=True):
            assert guess.probability == pytest.approx(value, abs=1e-6)


def test_many_texts_are_answered_in_order_and_each_as_alone(bundle):
    texts = [f"[MASK] {'dog ' * (i % 8)}[MASK]" for i in range(37)]
    together = bundle.fill(texts, top=2)
    for text, found in zip(texts, together, strict=True):
        (alone,) = bundle.fill([text], top=2)
        assert [[g.word for g in place] for place in found] == [
            [g.word for g in place] for place in alone
        ]
        shares = [g.probability for place in found for g in place]
        assert shares == pytest.approx([g.probability for place in alone for g in place], abs=1e-6)
    assert bundle.fill([]) == []


def test_all_words_are_the_most_that_can_be_guessed(bundle):
    ((guesses,),) = bundle.fill(["a [MASK]"], top=10_000)
    assert len(guesses) == bundle.tokenizer.size
    assert sum(guess.probability for guess in guesses) == pytest.approx(1, abs=1e-5)


def test_what_pads_a_vocabulary_is_never_guessed():
    wide = encoder(vocabulary=160)
    assert wide.tokenizer.size < 160
    with torch.no_grad():
        wide.model.masked_words.output.bias[wide.tokenizer.size :] = 50.0
    ((guesses,),) = wide.fill(["a [MASK]"], top=3)
    assert len(guesses) == 3 and sum(g.probability for g in guesses) > 0.01


def test_a_space_before_a_mask_belongs_to_it_where_pieces_hold_spaces():
    reader = spaced()
    wide = EncoderBundle(encoder(vocabulary=reader.size).model, reader)
    framed = wide._with_masks("two <mask> and <mask> dogs")
    pieces = reader.pieces(framed)
    assert pieces[0] == "<s>" and pieces[-1] == "</s>" and pieces.count("<mask>") == 2
    assert "Ġ" not in pieces
    assert reader.decode(framed) == "two and dogs"
    (places,) = wide.fill(["two <mask> and <mask> dogs"], top=50)
    assert not any("Ġ" in guess.word for guesses in places for guess in guesses)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("no hidden word", r"no \[MASK\] in 'no hidden word'"),
        ("", r"no \[MASK\] in ''"),
        ("a [mask]", r"no \[MASK\]"),
        ("[MASK] " + "dog " * 20, r"has \d+ tokens, and this model reads at most 19"),
    ],
)
def test_what_cannot_be_filled_is_refused(bundle, text, part):
    with pytest.raises(UsageError, match=part):
        bundle.fill(["a [MASK]", text])


def test_a_model_without_the_head_says_so_and_one_string_is_no_list(bundle):
    with pytest.raises(UsageError, match="no head for hidden words"):
        encoder(masked_words=False).fill(["a [MASK]"])
    for call in (bundle.fill, bundle.embed):
        with pytest.raises(UsageError, match="list of texts"):
            call("a [MASK]")


# --- vectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_a_texts_vector_does_not_depend_on_the_others(bundle, pooling):
    texts = [*TEXTS, "", "a dog", *(f"{'dog ' * i}fox" for i in range(40))]
    together = bundle.embed(texts, pooling=pooling)
    assert together.shape == (len(texts), 24)
    for text, vector in zip(texts, together, strict=True):
        assert_close(bundle.embed([text], pooling=pooling)[0], vector, rtol=0, atol=1e-6)
    assert_close(together.norm(dim=-1), torch.ones(len(texts)))
    assert bundle.embed([]).shape == (0, 24)


def test_the_mean_is_that_of_all_pieces_and_marks_and_the_first_is_cls(bundle):
    with torch.no_grad():
        hidden = bundle.model.encode(ids_of(bundle, "two dogs play"))[0]
    raw = bundle.embed(["two dogs play"], normalise=False)[0]
    assert_close(raw, hidden.mean(0), rtol=0, atol=1e-6)
    assert raw.norm() != pytest.approx(1)
    first = bundle.embed(["two dogs play"], pooling="first", normalise=False)[0]
    assert_close(first, hidden[0], rtol=0, atol=1e-6)


def test_a_long_text_is_cut_at_its_end(bundle):
    kept = "dog " * 17  # and two marks
    found = bundle.embed([kept, kept + "fox fox fox", "fox " + kept])
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2], atol=1e-3)


# --- attention ---------------------------------------------------------------------------------


def test_attention_has_a_map_for_each_layer_whose_rows_sum_to_one(bundle):
    found = bundle.attention("two dogs play", "a fox")
    length = len(found.source)
    assert found.source == found.target and found.source.count("[SEP]") == 2
    assert list(found.maps) == ["encoder.blocks.0.attention", "encoder.blocks.1.attention"]
    for weights in found.maps.values():
        assert weights.shape == (3, length, length)
        assert_close(weights.sum(-1), torch.ones(3, length))
    (only,) = bundle.attention("a fox", layers=("encoder.blocks.1",)).maps
    assert only == "encoder.blocks.1.attention"


def test_two_texts_are_read_as_two(bundle):
    apart = bundle.attention("a dog", "a fox").maps["encoder.blocks.0.attention"]
    model = bundle.model
    ids, types = bundle.tokenizer.marks.frame(
        bundle.tokenizer.encode("a dog"), bundle.tokenizer.encode("a fox")
    )
    from headway.attention import record_attention

    for given, same in (([types], True), ([[0] * len(ids)], False)):
        with record_attention(model) as maps, torch.no_grad():
            model.encode(torch.tensor([ids]), None, torch.tensor(given))
        assert torch.allclose(maps["encoder.blocks.0.attention"][0][0], apart) == same


def test_layers_that_share_their_weights_have_maps_of_their_own():
    shared = encoder(shared_layers=True, num_layers=3)
    found = shared.attention("two dogs play").maps
    assert list(found) == [f"encoder.blocks.{i}.attention" for i in range(3)]
    assert not torch.allclose(*list(found.values())[:2])


def test_what_is_too_long_to_look_at_is_refused(bundle):
    with pytest.raises(UsageError, match="reads at most 19"):
        bundle.attention("dog " * 9, "fox " * 9)


# --- on disk -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shared_layers": True, "embedding_dim": 8},
        {"token_types": 0, "pooler": "none", "next_sentence": False},
        {"masked_words": False, "next_sentence": False},
    ],
)
def test_a_saved_encoder_gives_the_same_vectors_and_words(tmp_path, changes):
    made = encoder(**changes)
    made.save(tmp_path / "model")
    again = load(tmp_path / "model", fast=False)
    assert isinstance(again, EncoderBundle) and again.config == made.config
    assert torch.equal(again.embed(TEXTS), made.embed(TEXTS))
    if made.config.masked_words:
        assert again.fill(["a [MASK]"]) == made.fill(["a [MASK]"])
        assert again.model.masked_words.output.weight is again.model.tokens.weight
    with pytest.raises(UsageError, match="not empty"):
        made.save(tmp_path / "model")


def test_a_tokenizer_of_another_training_is_refused(tmp_path):
    made = encoder()
    made.save(tmp_path / "model")
    MarkedTokenizer.train(TEXTS, 110).save(tmp_path / "model")
    with pytest.raises(DataError, match="trained with tokenizer"):
        load(tmp_path / "model", verify=False)
    with pytest.raises(DataError, match="pieces, the model"):
        EncoderBundle(encoder(vocabulary=20).model, made.tokenizer)
