"""Entities are those of the pipeline of transformers, with every aggregation strategy."""

import json
import warnings

import pytest
import torch

import headway
from tests.fixtures.encoder_tokenizers import STORY, write_byte_level, write_wordpiece

transformers = pytest.importorskip("transformers")

STRATEGIES = ("none", "simple", "first", "average", "max")
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC")
SHAPE = {
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 200,
}
TEXTS = (*STORY[:3], "unmillable  Grain-mill, (the) !", "☃ snow☃man", "a")


@pytest.fixture(scope="module", params=["Bert", "Roberta"])
def tagger(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "Bert":
        write_wordpiece(folder, tokenizer_class="BertTokenizer")
    else:
        write_byte_level(folder, tokenizer_class="RobertaTokenizer")
    tokenizer = getattr(transformers, f"{request.param}Tokenizer").from_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = getattr(transformers, f"{request.param}Config")(
        **SHAPE,
        vocab_size=len(tokenizer),
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(5)
    model = getattr(transformers, f"{request.param}ForTokenClassification")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.4)
    model.save_pretrained(folder)
    return transformers.pipeline("ner", model=model, tokenizer=tokenizer), headway.load(folder)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_entities_are_those_of_the_pipeline(strategy, tagger):
    theirs, ours = tagger
    labels = set()
    for text in TEXTS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # BPE has no words of its own
            expected = theirs(text, aggregation_strategy=strategy)
        (found,) = ours.entities([text], strategy)
        label = "entity" if strategy == "none" else "entity_group"
        keys = ("word", "start", "end")
        assert [(e.label, e.word, e.start, e.end) for e in found.entities] == [
            (item[label], *(item[key] for key in keys)) for item in expected
        ], text
        assert [e.probability for e in found.entities] == pytest.approx(
            [float(item["score"]) for item in expected], abs=1e-5
        )
        if strategy == "none":
            assert [e.index for e in found.entities] == [item["index"] for item in expected]
        labels |= {entity.label for entity in found.entities}
    assert len(labels) > 1, json.dumps(sorted(labels))


def test_a_long_text_has_entities_to_its_end(tagger):
    text = " ".join(STORY * 20)
    (found,) = tagger[1].entities([text], "none")
    assert max(entity.end for entity in found.entities) > len(text) * 0.9
