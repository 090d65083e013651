"""Folders of encoder families with their tokenizers: tokens, predictions, vectors, inspection."""

import json

import pytest
import tokenizers
import torch
import transformers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers
from torch.nn.functional import normalize
from torch.testing import assert_close

import headway as library
from headway.interop import read_encoder_tokenizer
from tests.fixtures.command_line import headway
from tests.fixtures.encoder_families import theirs
from tests.fixtures.encoder_tokenizers import (
    ODD,
    STORY,
    a_thousand_texts,
    check_agreement,
    wordpiece_vocabulary,
)
from tests.fixtures.random_weights import with_noise

TEXTS = ["the old baker paints", "a small dog sees the red fox", "Café Zürich"]


def mpnet_tokenizer():
    words = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>", *wordpiece_vocabulary(True)[5:]]
    return transformers.MPNetTokenizer(vocab={word: n for n, word in enumerate(words)})


def modern_tokenizer():
    """Return byte-level BPE between [CLS] and [SEP], as ModernBERT has it."""
    engine = tokenizers.Tokenizer(models.BPE())
    engine.normalizer = normalizers.NFC()
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    names = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=names, initial_alphabet=alphabet, show_progress=False
    )
    engine.train_from_iterator(STORY, trainer)
    engine.add_special_tokens([tokenizers.AddedToken("[MASK]", lstrip=True)])
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    special = {f"{name.strip('[]').lower()}_token": name for name in names}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=engine, **special)


def deberta_tokenizer():
    """Return the unigrams of DeBERTa-v3, as transformers makes its tokenizer."""
    engine = tokenizers.Tokenizer(models.Unigram())
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=names, unk_token="[UNK]", show_progress=False
    )
    engine.train_from_iterator(STORY, trainer)
    pairs = [tuple(pair) for pair in json.loads(engine.to_str())["model"]["vocab"]]
    return transformers.DebertaV2Tokenizer(vocab=pairs, unk_id=3)


MADE = {
    "mpnet": mpnet_tokenizer,
    "modernbert": modern_tokenizer,
    "deberta-v3": deberta_tokenizer,
}


def folder_of(name, folder, end="ForMaskedLM"):
    """Write a model of a family and its tokenizer; return both."""
    reader = MADE[name]()
    torch.manual_seed(1)
    model = with_noise(theirs(name, end, vocab_size=len(reader), pad_token_id=reader.pad_token_id))
    model.save_pretrained(folder)
    reader.save_pretrained(folder)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", MADE)
def test_texts_have_the_tokens_of_transformers(name, tmp_path):
    MADE[name]().save_pretrained(tmp_path)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    check_agreement(read_encoder_tokenizer(tmp_path), reference, [*ODD, *STORY[:3]])


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_a_thousand_texts_have_the_tokens_of_transformers(name, tmp_path):
    MADE[name]().save_pretrained(tmp_path)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    check_agreement(read_encoder_tokenizer(tmp_path), reference, a_thousand_texts())


@pytest.mark.parametrize("name", MADE)
@torch.no_grad()
def test_masked_tokens_are_predicted_as_by_transformers_and_the_page_is_written(name, tmp_path):
    model, reader = folder_of(name, tmp_path / "model")
    bundle = library.load(tmp_path / "model")
    text = f"the old {reader.mask_token} sees the fox"
    batch = reader(text, return_tensors="pt")
    place = (batch.input_ids[0] == reader.mask_token_id).nonzero().item()
    logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    best = logits[0, place].softmax(-1).topk(5)
    ((predictions,),) = bundle.fill([text])
    assert_close(
        torch.tensor([p.probability for p in predictions[:5]]), best.values, rtol=1e-4, atol=1e-6
    )
    page = tmp_path / "page.html"
    headway("inspect", "model", "the old fox", "--html", "page.html", cwd=tmp_path)
    assert page.stat().st_size > 10_000


@pytest.mark.parametrize("name", ["mpnet", "modernbert"])
@torch.no_grad()
def test_a_sentence_folder_has_the_vectors_of_its_pooling_and_prompt(name, tmp_path):
    model, reader = folder_of(name, tmp_path, "Model")
    config = json.loads((tmp_path / "config.json").read_text())
    # as in all-mpnet-base-v2: the class that the encoder was trained as
    config["architectures"] = [config["architectures"][0].replace("Model", "ForMaskedLM")]
    (tmp_path / "config.json").write_text(json.dumps(config))
    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    prefix = "sentence_transformers.models."
    modules = [{"type": prefix + kind, "path": path} for kind, path in kinds.items()]
    prompts = {"prompts": {"query": "find: "}, "default_prompt_name": None}
    (tmp_path / "1_Pooling").mkdir()
    for file, content in {
        "modules.json": modules,
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": 12, "do_lower_case": name == "mpnet"},
        "config_sentence_transformers.json": prompts,
    }.items():
        (tmp_path / file).write_text(json.dumps(content))
    bundle = library.load(tmp_path)
    for prompt in (None, "query"):
        texts = [("" if prompt is None else "find: ") + text for text in TEXTS]
        texts = [text.lower() if name == "mpnet" else text for text in texts]
        batch = reader(texts, padding=True, truncation=True, max_length=12, return_tensors="pt")
        keys = batch.attention_mask[..., None]
        hidden = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask)
        mean = (hidden.last_hidden_state * keys).sum(1) / keys.sum(1)
        expected = normalize(mean, dim=-1)
        assert_close(bundle.embed(TEXTS, prompt=prompt), expected, rtol=0, atol=1e-5)
