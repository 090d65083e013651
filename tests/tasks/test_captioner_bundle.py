"""Captioners as bundles: saving, loading, captions."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import headway
from headway.base.errors import DataError, UsageError
from headway.bundle.image_encoder import image_of
from headway.inspection.image_attention import look
from headway.inspection.image_overlays import overlays
from headway.tasks.captioning.model import CaptionerBundle
from headway.tasks.captioning.reader import CaptionReader
from headway.text import CharacterTokenizer
from tests.fixtures.captioners import IMAGE_READER, PIXELS, READER, TEXTS, TOKENIZER, bundle_of
from tests.fixtures.images import png


@pytest.fixture
def saved(tmp_path):
    bundle = bundle_of()
    bundle.save(tmp_path / "model")
    return bundle, tmp_path / "model"


def test_a_saved_captioner_loads_as_itself(saved):
    bundle, folder = saved
    names = {path.name for path in folder.iterdir()}
    own_files = {"images.json", "tokenizer.json", "captions.json"}
    assert names == {"MANIFEST.json", "config.json", "model.safetensors"} | own_files
    reloaded = headway.load(folder, fast=False)
    assert isinstance(reloaded, CaptionerBundle) and reloaded.config == bundle.config
    assert (reloaded.languages, reloaded.longest) == (("en", "de"), 6)
    assert reloaded.search(PIXELS, num_best=2) == bundle.search(PIXELS, num_best=2)


@pytest.mark.parametrize("beam", [1, 3])
def test_the_caption_of_an_image_of_any_size_and_format_does_not_depend_on_the_batch(beam):
    bundle = bundle_of()
    batched = bundle.caption([*PIXELS, png(PIXELS[1])], language="de", beam=beam)
    assert batched[3] == batched[1] and len(set(batched)) > 1
    for image, caption in zip(PIXELS, batched, strict=False):
        assert bundle.caption([image], language="de", beam=beam) == [caption]


def test_a_caption_that_fills_all_positions_can_be_inspected(monkeypatch):
    bundle = bundle_of()
    room = bundle.model.max_length
    endless = [[SimpleNamespace(tokens=(5,) * room)]]
    monkeypatch.setattr(bundle, "search_tensors", lambda images, language: endless)
    reading = bundle.reading(PIXELS[0])
    assert len(reading.ids["read"]) == room and reading.run().shape[1] == room


def test_a_caption_begins_with_the_token_of_its_language_and_never_contains_one():
    bundle = bundle_of()
    read = []
    bundle.model.embedding.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    for language, first in ((None, READER.size - 2), ("de", READER.size - 1)):
        read.clear()
        captions = bundle.search(PIXELS, language=language, beam=3, num_best=3)
        assert read[0].unique().tolist() == [first]
        assert all(max(c.tokens, default=0) < TOKENIZER.size for best in captions for c in best)
        assert all(len(c.tokens) <= 6 for best in captions for c in best)
        for row in bundle.sample(PIXELS, language=language, samples=3, temperature=2.0):
            assert all(max(c.tokens, default=0) < TOKENIZER.size for c in row)
    with pytest.raises(UsageError, match="has no captions in the language 'fr'"):
        bundle.caption(PIXELS, language="fr")


def test_a_model_of_one_language_begins_with_the_tokenizers_own_token():
    reader = replace(READER, languages=())
    bundle = bundle_of(reader)
    assert reader.first(None) == TOKENIZER.bos and reader.specials == []
    bundle.caption(PIXELS[:1])
    with pytest.raises(UsageError, match="has no captions in the language"):
        bundle.caption(PIXELS[:1], language="en")


def test_words_have_the_same_tokens_at_the_beginning_of_a_caption_and_inside_it():
    (cat,), (red,) = READER.encode(["cat"]), READER.encode(["red cat"])
    assert red[-len(cat) :] == cat
    for text in TEXTS:
        assert READER.decode(READER.encode([text])[0]) == text
    assert READER.token_strings([TOKENIZER.size + 1, TOKENIZER.eos]) == ["<de>", "</s>"]


def test_samples_depend_on_their_seed_alone_and_temperature_0_is_greedy():
    bundle = bundle_of()
    drawn = bundle.sample(PIXELS, samples=3, temperature=1.5, seed=5)
    alone = bundle.sample(PIXELS[2:], samples=2, temperature=1.5, seed=6)[0]
    assert [caption.tokens for caption in drawn[2][1:]] == [caption.tokens for caption in alone]
    assert_close(drawn[2][1].score, alone[0].score, rtol=1e-5, atol=0)
    assert len({caption.text for row in drawn for caption in row}) > 3
    greedy = bundle.search(PIXELS, beam=1)
    cold = bundle.sample(PIXELS, temperature=0.0)
    assert [row[0].tokens for row in cold] == [best[0].tokens for best in greedy]


def test_the_score_of_a_sample_is_its_log_probability_with_the_end_token():
    bundle = bundle_of()
    with torch.no_grad():  # so that some samples end before their maximum length
        bundle.model.output.weight[TOKENIZER.eos] *= 2
    samples = bundle.sample(PIXELS[:1], samples=64, temperature=2.0)[0]
    image = image_of(bundle.reader.images, PIXELS[0], bundle.device)
    for caption in samples:
        ids = torch.tensor([[READER.first(None), *caption.tokens, TOKENIZER.eos]])
        with torch.inference_mode():
            log_p = bundle.model(image, ids[:, :-1]).log_softmax(-1)
        of_tokens = log_p.gather(2, ids[:, 1:, None])[0, : len(caption.tokens) + caption.finished]
        assert caption.score == pytest.approx(of_tokens.sum().item(), rel=1e-4)
    assert {caption.finished for caption in samples} == {False, True}


@pytest.mark.parametrize("registers", [0, 2])
def test_attention_is_from_every_token_to_every_patch(registers):
    bundle = bundle_of(registers=registers)
    attention = bundle.attention(PIXELS[1], "the red cat", language="de")
    assert attention.source[: 1 + registers] == ["[CLS]", "[R1]", "[R2]"][: 1 + registers]
    assert attention.source[1 + registers :] == [f"{r},{c}" for r in range(2) for c in range(4)]
    assert "".join(attention.target) == " the red cat</s>"
    across = attention.maps["decoder.blocks.1.cross"]
    assert across.shape == (4, len(attention.target), 9 + registers)
    assert_close(across.sum(-1), torch.ones(4, len(attention.target)), rtol=0, atol=1e-5)
    with pytest.raises(UsageError, match="positions for at most 8"):
        bundle.attention(PIXELS[1], "x y z " * 4)


def test_the_attention_of_a_word_is_the_mean_over_heads_and_tokens_of_the_last_block():
    bundle = bundle_of()
    attention_maps = look(bundle, PIXELS[1], "the zq cat", language="en")
    assert attention_maps.names == ["the", "zq", "cat", "</s>"]
    assert attention_maps.maps.shape == (4, 2, 4) and attention_maps.reach == (8, 12)
    attention = bundle.attention(PIXELS[1], "the zq cat", language="en")
    weights = attention.maps["decoder.blocks.1.cross"].mean(0)
    positions = [
        i for i, token in enumerate(attention.target) if i and set(token.strip()) <= set("zq")
    ]
    assert len(positions) > 1  # a word of several tokens
    expected = weights[positions].mean(0)[2:]  # without [CLS] and the register
    assert_close(attention_maps.maps[1].flatten(), expected)
    assert_close(attention_maps.maps[1, 1, 2], expected[6])
    first = look(bundle, PIXELS[1], "the zq cat", language="en", layer=0)
    assert not torch.allclose(first.maps, attention_maps.maps)
    with pytest.raises(UsageError, match="layers are 0 to 1"):
        look(bundle, PIXELS[1], "cat", layer=2)


def test_the_overlays_are_deterministic_and_show_every_word(tmp_path):
    attention_maps = look(bundle_of(), PIXELS[1], "the $red cat", language="en")
    for name in ("a.svg", "b.svg"):
        overlays(tmp_path / name, attention_maps, title="t", one_scale=True)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    for word, fraction in zip(
        attention_maps.names, attention_maps.maps.sum((1, 2)).tolist(), strict=True
    ):
        assert f"{word.replace('<', '&lt;').replace('>', '&gt;')}  {fraction:.0%}" in text
    with pytest.raises(ValueError, match="1 names for"):
        overlays(tmp_path / "c.svg", replace(attention_maps, names=["a"]), title="")
    assert not (tmp_path / "c.svg").exists()


def test_other_tokens_another_reader_and_damaged_files_are_refused(saved):
    bundle, folder = saved
    with pytest.raises(DataError, match="tokens, but the vocabulary size"):
        CaptionerBundle(bundle.model, replace(READER, languages=("en",)))
    grey = replace(IMAGE_READER, mean=(0.5,), deviation=(0.5,))
    with pytest.raises(DataError, match="channels"):
        CaptionerBundle(bundle.model, replace(READER, images=grey))
    good = json.loads((folder / "captions.json").read_text())
    for change in (
        *({"format": 2}, {"languages": ["en", "en"]}, {"languages": "en"}, {"longest": 0}),
        {"longest": True},
    ):
        (folder / "captions.json").write_text(json.dumps({**good, **change}))
        with pytest.raises(DataError):
            headway.load(folder, verify=False)
    (folder / "captions.json").write_text(json.dumps({**good, "languages": ["de", "en"]}))
    with pytest.raises(DataError, match="trained with"):
        headway.load(folder, verify=False)


def test_a_character_tokenizer_is_enough():
    reader = CaptionReader(IMAGE_READER, CharacterTokenizer.train([*TEXTS, " "]), (), 6)
    assert reader.first(None) == reader.tokenizer.bos
    captions = bundle_of(reader).caption([np.zeros((8, 12), np.uint8)])
    assert len(captions) == 1
