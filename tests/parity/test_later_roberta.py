"""XLM-RoBERTa and CamemBERT: RoBERTa with other vocabularies, read as such, tokenizer included."""

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.testing import assert_close

import headway
from headway.interop import build, read
from tests.fixtures.small_encoder import TEXTS

SHAPE = {
    **{"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3},
    **{"intermediate_size": 30, "type_vocab_size": 1, "max_position_embeddings": 40},
}
KINDS = {
    "XLMRoberta": transformers.XLMRobertaConfig,
    "Camembert": transformers.CamembertConfig,
}
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def unigrams():
    """Return a tokenizer as trained by SentencePiece."""
    engine = Tokenizer(models.Unigram())
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=90, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False
    )
    engine.train_from_iterator(TEXTS * 20, trainer)
    engine.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=engine,
        **{"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"},
        **{"unk_token": "<unk>", "mask_token": "<mask>"},
    )


@pytest.mark.parametrize("stem", KINDS)
@pytest.mark.parametrize("end", ["Model", "ForMaskedLM", "ForSequenceClassification"])
@torch.no_grad()
def test_a_model_saved_by_transformers_has_the_same_outputs(stem, end, tmp_path):
    torch.manual_seed(3)
    reference = getattr(transformers, stem + end)(KINDS[stem](vocab_size=50, **SHAPE)).eval()
    for parameter in reference.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)
    reference.save_pretrained(tmp_path)
    ours = build(*read(tmp_path))
    tokens = torch.randint(3, 50, (2, 7))
    keys = torch.ones(2, 7, dtype=torch.bool)
    expected = reference(tokens, attention_mask=keys)
    if end == "ForSequenceClassification":
        logits = ours(tokens, keys)
        assert_close(logits, expected.logits, rtol=0, atol=1e-5)
        return
    hidden = ours.encode(tokens, keys)
    if end == "Model":
        assert_close(hidden, expected.last_hidden_state, rtol=0, atol=1e-5)
    else:
        assert_close(ours.words(hidden), expected.logits, rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_folder_with_its_tokenizer_embeds_and_fills(tmp_path):
    tokenizer = unigrams()
    tokenizer.save_pretrained(tmp_path)
    config = transformers.XLMRobertaConfig(vocab_size=len(tokenizer), **SHAPE)
    reference = transformers.XLMRobertaForMaskedLM(config).eval()
    reference.save_pretrained(tmp_path)
    bundle = headway.load(tmp_path)
    text = TEXTS[0]
    ids = tokenizer(text).input_ids
    assert [0, *bundle.tokenizer.encode(text), 2] == ids
    assert bundle.tokenizer.decode(bundle.tokenizer.encode(text)) == tokenizer.decode(ids[1:-1])
    hidden = reference.roberta(torch.tensor([ids])).last_hidden_state.mean(1)
    assert_close(bundle.embed([text]), hidden / hidden.norm(), rtol=0, atol=1e-5)
    (predictions,) = bundle.fill([f"{text.split()[0]} <mask>"])
    assert len(predictions[0]) == 5
