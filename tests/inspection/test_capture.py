"""Attention of every kind of bundle, asked for alike."""

import pytest
import torch
from torch.testing import assert_close

from headway.attention import attention_layers, record_attention
from headway.bundle import part_of
from headway.errors import UsageError
from tests.fixtures.bundles import BUNDLES, SENTENCE, answerer, encoder, gpt, tagger, translator
from tests.fixtures.small_encoder import tokenizer

ALL = pytest.mark.parametrize("name", BUNDLES)


@ALL
def test_every_kind_of_bundle_gives_full_maps_of_all_its_layers(name):
    make, given = BUNDLES[name]
    bundle = make()
    found = bundle.attention(*given)
    assert list(found.maps) == list(attention_layers(bundle.model)) and found.maps
    reading = bundle.reading(*given)
    for layer, weights in found.maps.items():
        rows, columns = reading.axes[part_of(layer)]
        assert weights.shape[1:] == (len(reading.tokens[rows]), len(reading.tokens[columns]))
        assert_close(weights.sum(-1), torch.ones(weights.shape[:2]), rtol=0, atol=1e-5)
        assert part_of(layer) != "decoder" or torch.equal(weights, weights.tril())


@ALL
def test_a_watched_reading_gives_the_bits_of_an_unwatched_one(name):
    make, given = BUNDLES[name]
    bundle = make()
    reading = bundle.reading(*given)
    with torch.inference_mode():
        plain = reading.run()
        with record_attention(bundle.model):
            assert torch.equal(reading.run(), plain)


@ALL
def test_some_layers_and_some_heads_are_those_of_all(name):
    make, given = BUNDLES[name]
    bundle = make()
    whole = bundle.attention(*given).maps
    last = list(whole)[-1]
    (only,) = bundle.attention(*given, layers=(last,)).maps.items()
    assert only[0] == last and torch.equal(only[1], whole[last])
    two = bundle.attention(*given, heads=(2, 0)).maps
    for layer, weights in whole.items():
        if len(weights) > 2:
            assert torch.equal(two[layer], weights[[2, 0]])
    with pytest.raises(UsageError, match="has no head 99; its heads are 0 to"):
        bundle.attention(*given, heads=(99,))
    with pytest.raises(UsageError, match="no attention layer 'nothing'"):
        bundle.attention(*given, layers=("nothing",))


@ALL
def test_every_side_has_a_name_for_every_token_and_words_hold_each_piece_once(name):
    make, given = BUNDLES[name]
    reading = make().reading(*given)
    assert set(reading.ids) == set(reading.words) <= set(reading.tokens)
    for side, ids in reading.ids.items():
        assert len(ids) == len(reading.tokens[side])
        together = [place for places in reading.words[side] for place in places]
        assert together == list(range(len(ids)))
    for side, module in reading.embeddings.items():
        seen = []
        hook = reading.model.get_submodule(module).register_forward_hook(
            lambda _, inputs, output, seen=seen: seen.append(output.shape[1])
        )
        reading.run()
        hook.remove()
        assert seen == [len(reading.tokens[side])]


def test_a_layer_that_shares_its_block_can_be_chosen_alone():
    bundle = encoder(shared_layers=True, num_layers=3)
    whole = bundle.attention("A fox looks on.").maps
    (only,) = bundle.attention("A fox looks on.", layers=("encoder.blocks.1",)).maps.items()
    assert only[0] == "encoder.blocks.1.attention"
    assert torch.equal(only[1], whole["encoder.blocks.1.attention"])


def test_the_winning_translation_is_the_one_that_is_watched():
    bundle = translator()
    (best,) = bundle.search(["the fox eats the lemon"], beam=4)[0]
    reading = bundle.reading("the fox eats the lemon")
    eos, bos = bundle.tokenizer.target.eos, bundle.tokenizer.target.bos
    assert reading.ids["target"] == [*best.tokens, eos]
    assert reading.ids["read"] == [bos, *best.tokens]


def test_written_pieces_are_read_as_they_were_written():
    bundle = gpt()
    reading = bundle.reading("the fox", [5, 4])
    assert reading.ids["text"] == [*bundle.tokenizer.begin("the fox"), 5, 4]
    with pytest.raises(UsageError, match="learned positions for at most 40"):
        bundle.reading("the fox", [5] * 40)


def test_the_window_with_the_best_answer_is_the_one_that_is_watched():
    bundle = answerer()
    context = " ".join([SENTENCE, *(["A fox looks on."] * 3)])
    asked = bundle.reader.encode("Who waves?", context)
    assert len(asked.windows) > 2
    (found,) = bundle.answer("Who waves?", context)
    reading = bundle.reading("Who waves?", context)
    held = [
        window
        for window in asked.windows
        if list(window.ids) == reading.ids["text"]
        and asked.spans[window.begin][0] <= found.start
        and asked.spans[window.begin + window.count - 1][1] >= found.end
    ]
    assert held


def test_a_mark_in_the_text_hides_a_word_and_a_text_of_several_rows_is_refused():
    special_tokens = tokenizer().special_tokens
    assert special_tokens.mask in encoder(max_length=40).reading("The [MASK] waves.").ids["text"]
    with pytest.raises(UsageError, match=r"needs \d sequences .* but only one can be inspected"):
        tagger().attention(" ".join([SENTENCE] * 8))
