"""The attention of every kind of bundle is recorded in the same way."""

import pytest
import torch
from torch.testing import assert_close

from headway.attention import attention_layers, record_attention
from headway.base.errors import UsageError
from headway.bundle import part_of
from tests.fixtures.bundles import BUNDLES, SENTENCE, answerer, encoder, gpt, tagger, translator
from tests.fixtures.small_encoder import tokenizer

ALL = pytest.mark.parametrize("name", BUNDLES)


@ALL
def test_every_kind_of_bundle_records_full_maps_of_all_its_layers(name):
    make, inputs = BUNDLES[name]
    bundle = make()
    attention = bundle.attention(*inputs)
    assert list(attention.maps) == list(attention_layers(bundle.model)) and attention.maps
    reading = bundle.reading(*inputs)
    for layer, weights in attention.maps.items():
        rows, columns = reading.axes[part_of(layer)]
        assert weights.shape[1:] == (len(reading.tokens[rows]), len(reading.tokens[columns]))
        assert_close(weights.sum(-1), torch.ones(weights.shape[:2]), rtol=0, atol=1e-5)
        assert part_of(layer) != "decoder" or torch.equal(weights, weights.tril())


@ALL
def test_recording_attention_does_not_change_the_output(name):
    make, inputs = BUNDLES[name]
    bundle = make()
    reading = bundle.reading(*inputs)
    with torch.inference_mode():
        unrecorded = reading.run()
        with record_attention(bundle.model):
            assert torch.equal(reading.run(), unrecorded)


@ALL
def test_selected_layers_and_heads_equal_those_of_the_whole_record(name):
    make, inputs = BUNDLES[name]
    bundle = make()
    whole = bundle.attention(*inputs).maps
    last = list(whole)[-1]
    (only,) = bundle.attention(*inputs, layers=(last,)).maps.items()
    assert only[0] == last and torch.equal(only[1], whole[last])
    two = bundle.attention(*inputs, heads=(2, 0)).maps
    for layer, weights in whole.items():
        if len(weights) > 2:
            assert torch.equal(two[layer], weights[[2, 0]])
    with pytest.raises(UsageError, match="has no head 99; its heads are 0 to"):
        bundle.attention(*inputs, heads=(99,))
    with pytest.raises(UsageError, match="no attention layer 'nothing'"):
        bundle.attention(*inputs, layers=("nothing",))


@ALL
def test_every_side_names_every_token_and_each_token_is_in_one_word(name):
    make, inputs = BUNDLES[name]
    reading = make().reading(*inputs)
    assert set(reading.ids) == set(reading.words) <= set(reading.tokens)
    for side, ids in reading.ids.items():
        assert len(ids) == len(reading.tokens[side])
        positions = [position for word in reading.words[side] for position in word]
        assert positions == list(range(len(ids)))
    for side, module in reading.embeddings.items():
        lengths = []
        hook = reading.model.get_submodule(module).register_forward_hook(
            lambda _, args, output, lengths=lengths: lengths.append(output.shape[1])
        )
        reading.run()
        hook.remove()
        assert lengths == [len(reading.tokens[side])]


def test_a_layer_that_shares_its_block_can_be_recorded_alone():
    bundle = encoder(shared_layers=True, num_layers=3)
    whole = bundle.attention("A fox looks on.").maps
    (only,) = bundle.attention("A fox looks on.", layers=("encoder.blocks.1",)).maps.items()
    assert only[0] == "encoder.blocks.1.attention"
    assert torch.equal(only[1], whole["encoder.blocks.1.attention"])


def test_the_attention_of_the_best_translation_is_recorded():
    bundle = translator()
    (best,) = bundle.search(["the fox eats the lemon"], beam=4)[0]
    reading = bundle.reading("the fox eats the lemon")
    eos, bos = bundle.tokenizer.target.eos, bundle.tokenizer.target.bos
    assert reading.ids["target"] == [*best.tokens, eos]
    assert reading.ids["read"] == [bos, *best.tokens]


def test_generated_tokens_are_read_back_unchanged():
    bundle = gpt()
    reading = bundle.reading("the fox", [5, 4])
    assert reading.ids["text"] == [*bundle.tokenizer.begin("the fox"), 5, 4]
    with pytest.raises(UsageError, match="learned positions for at most 40"):
        bundle.reading("the fox", [5] * 40)


def test_the_window_that_has_the_best_answer_is_inspected():
    bundle = answerer()
    context = " ".join([SENTENCE, *(["A fox looks on."] * 3)])
    encoded = bundle.reader.encode("Who waves?", context)
    assert len(encoded.windows) > 2
    (answer,) = bundle.answer("Who waves?", context)
    reading = bundle.reading("Who waves?", context)
    windows = [
        window
        for window in encoded.windows
        if list(window.ids) == reading.ids["text"]
        and encoded.spans[window.begin][0] <= answer.start
        and encoded.spans[window.begin + window.count - 1][1] >= answer.end
    ]
    assert windows


def test_a_mask_token_in_the_text_is_encoded_as_one_and_a_text_of_several_sequences_is_refused():
    special_tokens = tokenizer().special_tokens
    assert special_tokens.mask in encoder(max_length=40).reading("The [MASK] waves.").ids["text"]
    with pytest.raises(UsageError, match=r"needs \d sequences .* but only one can be inspected"):
        tagger().attention(" ".join([SENTENCE] * 8))
