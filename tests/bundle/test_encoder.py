"""Encoder bundles: masked tokens, sentence embeddings and attention; alone and in batches."""

import pytest
import torch
from torch.testing import assert_close

from headway import load
from headway.base.errors import DataError, UsageError
from headway.bundle import EncoderBundle
from headway.text import EncoderTokenizer
from tests.fixtures.encoder_tokenizers import roberta_tokenizer
from tests.fixtures.small_encoder import TEXTS, encoder


@pytest.fixture(scope="module")
def bundle():
    return encoder()


def ids_of(bundle, *parts):
    """Return the ids of [CLS] parts [SEP]; None in `parts` is the mask token."""
    special = bundle.tokenizer.special_tokens
    inside = [
        i for p in parts for i in ([special.mask] if p is None else bundle.tokenizer.encode(p))
    ]
    return torch.tensor([special.frame(inside)[0]])


# --- masked tokens -----------------------------------------------------------------------------


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
def test_predictions_are_the_models_most_probable_words_at_each_mask(bundle, text, parts):
    (predictions,) = bundle.fill([text], top=4)
    tokens = ids_of(bundle, *parts)
    with torch.no_grad():
        probabilities = bundle.model(tokens)[0].softmax(-1)
    positions = (tokens[0] == bundle.tokenizer.special_tokens.mask).nonzero()[:, 0].tolist()
    assert len(predictions) == len(positions) == text.count("[MASK]")
    for position, words in zip(positions, predictions, strict=True):
        best = probabilities[position].topk(4)
        assert [word.word for word in words] == bundle.tokenizer.token_strings(
            best.indices.tolist()
        )
        for word, value in zip(words, best.values.tolist(), strict=True):
            assert word.probability == pytest.approx(value, abs=1e-6)


def test_predictions_for_many_texts_are_in_order_and_independent(bundle):
    texts = [f"[MASK] {'dog ' * (i % 8)}[MASK]" for i in range(37)]
    filled = bundle.fill(texts, top=2)
    for text, predictions in zip(texts, filled, strict=True):
        (alone,) = bundle.fill([text], top=2)
        assert [[g.word for g in masked] for masked in predictions] == [
            [g.word for g in masked] for masked in alone
        ]
        probabilities = [g.probability for masked in predictions for g in masked]
        assert probabilities == pytest.approx(
            [g.probability for masked in alone for g in masked], abs=1e-6
        )
    assert bundle.fill([]) == []


def test_at_most_all_words_are_predicted(bundle):
    ((words,),) = bundle.fill(["a [MASK]"], top=10_000)
    assert len(words) == bundle.tokenizer.size
    assert sum(word.probability for word in words) == pytest.approx(1, abs=1e-5)


def test_padding_of_the_vocabulary_is_never_predicted():
    padded = encoder(vocabulary=160)
    assert padded.tokenizer.size < 160
    with torch.no_grad():
        padded.model.masked_lm_head.output.bias[padded.tokenizer.size :] = 50.0
    ((words,),) = padded.fill(["a [MASK]"], top=3)
    assert len(words) == 3 and sum(g.probability for g in words) > 0.01


def test_a_space_before_a_mask_belongs_to_it_if_tokens_contain_spaces():
    byte_level = roberta_tokenizer()
    byte_level_bundle = EncoderBundle(encoder(vocabulary=byte_level.size).model, byte_level)
    framed = byte_level_bundle._framed_with_masks("two <mask> and <mask> dogs")
    tokens = byte_level.token_strings(framed)
    assert tokens[0] == "<s>" and tokens[-1] == "</s>" and tokens.count("<mask>") == 2
    assert "Ġ" not in tokens
    assert byte_level.decode(framed) == "two and dogs"
    (predictions,) = byte_level_bundle.fill(["two <mask> and <mask> dogs"], top=50)
    assert not any("Ġ" in word.word for words in predictions for word in words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no masked word", r"the text 'no masked word' has no \[MASK\]"),
        ("", r"the text '' has no \[MASK\]"),
        ("a [mask]", r"has no \[MASK\]"),
        ("[MASK] " + "dog " * 20, r"has \d+ tokens, but this model accepts at most 19"),
    ],
)
def test_texts_that_cannot_be_filled_are_refused(bundle, text, message):
    with pytest.raises(UsageError, match=message):
        bundle.fill(["a [MASK]", text])


def test_a_model_without_the_head_and_a_string_instead_of_a_list_are_refused(bundle):
    with pytest.raises(UsageError, match="no head for masked language modelling"):
        encoder(masked_lm_head=False).fill(["a [MASK]"])
    for call in (bundle.fill, bundle.embed):
        with pytest.raises(UsageError, match="list of texts"):
            call("a [MASK]")


# --- vectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_a_texts_vector_does_not_depend_on_the_others(bundle, pooling):
    texts = [*TEXTS, "", "a dog", *(f"{'dog ' * i}fox" for i in range(40))]
    vectors = bundle.embed(texts, pooling=pooling)
    assert vectors.shape == (len(texts), 24)
    for text, vector in zip(texts, vectors, strict=True):
        assert_close(bundle.embed([text], pooling=pooling)[0], vector, rtol=0, atol=1e-6)
    assert_close(vectors.norm(dim=-1), torch.ones(len(texts)))
    assert bundle.embed([]).shape == (0, 24)


def test_mean_pooling_includes_special_tokens_and_first_pooling_is_the_cls_vector(bundle):
    with torch.no_grad():
        hidden = bundle.model.encode(ids_of(bundle, "two dogs play"))[0]
    raw = bundle.embed(["two dogs play"], normalise=False)[0]
    assert_close(raw, hidden.mean(0), rtol=0, atol=1e-6)
    assert raw.norm() != pytest.approx(1)
    first = bundle.embed(["two dogs play"], pooling="first", normalise=False)[0]
    assert_close(first, hidden[0], rtol=0, atol=1e-6)


def test_a_long_text_is_truncated_at_its_end(bundle):
    longest = "dog " * 17  # and two special tokens
    vectors = bundle.embed([longest, longest + "fox fox fox", "fox " + longest])
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.allclose(vectors[0], vectors[2], atol=1e-3)


# --- attention ---------------------------------------------------------------------------------


def test_attention_has_a_map_for_each_layer_whose_rows_sum_to_one(bundle):
    attention = bundle.attention("two dogs play", "a fox")
    length = len(attention.source)
    assert attention.source == attention.target and attention.source.count("[SEP]") == 2
    assert list(attention.maps) == ["encoder.blocks.0.attention", "encoder.blocks.1.attention"]
    for weights in attention.maps.values():
        assert weights.shape == (3, length, length)
        assert_close(weights.sum(-1), torch.ones(3, length))
    (only,) = bundle.attention("a fox", layers=("encoder.blocks.1",)).maps
    assert only == "encoder.blocks.1.attention"


def test_two_texts_have_two_token_types(bundle):
    weights = bundle.attention("a dog", "a fox").maps["encoder.blocks.0.attention"]
    model = bundle.model
    ids, types = bundle.tokenizer.special_tokens.frame(
        bundle.tokenizer.encode("a dog"), bundle.tokenizer.encode("a fox")
    )
    from headway.attention import record_attention

    for token_types, same in (([types], True), ([[0] * len(ids)], False)):
        with record_attention(model) as maps, torch.no_grad():
            model.encode(torch.tensor([ids]), None, torch.tensor(token_types))
        assert torch.allclose(maps["encoder.blocks.0.attention"][0][0], weights) == same


def test_layers_that_share_their_weights_have_maps_of_their_own():
    shared = encoder(shared_layers=True, num_layers=3)
    maps = shared.attention("two dogs play").maps
    assert list(maps) == [f"encoder.blocks.{i}.attention" for i in range(3)]
    assert not torch.allclose(*list(maps.values())[:2])


def test_a_text_too_long_for_inspection_is_refused(bundle):
    with pytest.raises(UsageError, match="accepts at most 19"):
        bundle.attention("dog " * 9, "fox " * 9)


# --- on disk -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shared_layers": True, "embedding_dim": 8},
        {"token_types": 0, "pooler": "none", "next_sentence": False},
        {"masked_lm_head": False, "next_sentence": False},
    ],
)
def test_a_saved_encoder_gives_the_same_vectors_and_predictions(tmp_path, changes):
    original = encoder(**changes)
    original.save(tmp_path / "model")
    reloaded = load(tmp_path / "model", fast=False)
    assert isinstance(reloaded, EncoderBundle) and reloaded.config == original.config
    assert torch.equal(reloaded.embed(TEXTS), original.embed(TEXTS))
    if original.config.masked_lm_head:
        assert reloaded.fill(["a [MASK]"]) == original.fill(["a [MASK]"])
        assert reloaded.model.masked_lm_head.output.weight is reloaded.model.tokens.weight
    with pytest.raises(UsageError, match="not empty"):
        original.save(tmp_path / "model")


def test_a_tokenizer_of_another_training_is_refused(tmp_path):
    original = encoder()
    original.save(tmp_path / "model")
    EncoderTokenizer.train(TEXTS, 110).save(tmp_path / "model")
    with pytest.raises(DataError, match="trained with tokenizer"):
        load(tmp_path / "model", verify=False)
    with pytest.raises(DataError, match="tokens, but the model's vocabulary"):
        EncoderBundle(encoder(vocabulary=20).model, original.tokenizer)
