"""The claim about sentence embeddings: both sides compute the same vectors, alternately."""

import json
from types import SimpleNamespace

import pytest
import tokenizers
import torch
from bench import embeddings
from bench.sides import Settings
from torch.testing import assert_close

from headway.bundle import EncoderBundle
from tests.fixtures.small_encoder import encoder

RENAMED = {
    "embedding.words.tokens.": "embeddings.word_embeddings.",
    "embedding.words.positions.table.vectors": "embeddings.position_embeddings.weight",
    "embedding.types.": "embeddings.token_type_embeddings.",
    "embedding.norm.": "embeddings.LayerNorm.",
    "encoder.blocks.": "encoder.layer.",
    "attention.query.": "attention.self.query.",
    "attention.key.": "attention.self.key.",
    "attention.value.": "attention.self.value.",
    "attention.output.": "attention.output.dense.",
    "around_attention.norm.": "attention.output.LayerNorm.",
    "feedforward.expand.": "intermediate.dense.",
    "feedforward.contract.": "output.dense.",
    "around_feedforward.norm.": "output.LayerNorm.",
    "pooler.project.": "pooler.dense.",
    ".gain": ".weight",
    ".shift": ".bias",
}


def hf_name(name: str) -> str:
    for old, new in RENAMED.items():
        name = name.replace(old, new)
    return name


@pytest.fixture
def same_model(tmp_path, monkeypatch):
    """Write the same tiny BERT as a bundle and as a Hugging Face folder; return the bundle."""
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    bundle: EncoderBundle = encoder(masked_lm_head=False, next_sentence=False)
    bundle.save(tmp_path / "ours")
    config = BertConfig(
        vocab_size=bundle.config.vocabulary,
        hidden_size=24,
        num_attention_heads=3,
        intermediate_size=40,
        num_hidden_layers=2,
        max_position_embeddings=19,
    )
    model = BertModel(config)
    model.load_state_dict(
        {hf_name(n): p for n, p in bundle.model.state_dict().items()}, strict=False
    )
    hf_state = model.state_dict()
    for name, value in bundle.model.named_parameters():
        assert torch.equal(hf_state[hf_name(name)], value), name
    model.save_pretrained(tmp_path / "theirs")
    engine = tokenizers.Tokenizer.from_str(json.dumps(bundle.tokenizer.engine_json))
    PreTrainedTokenizerFast(
        tokenizer_object=engine, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]"
    ).save_pretrained(tmp_path / "theirs")
    monkeypatch.setenv("HEADWAY_ENCODER", str(tmp_path / "theirs"))
    monkeypatch.setenv("HEADWAY_ENCODER_BUNDLE", str(tmp_path / "ours"))
    monkeypatch.delenv("HEADWAY_DATA", raising=False)
    return bundle


def in_process(kind):
    """Return a side that computes in this process."""
    settings = Settings(claim="", side="", folder="", threads=1, allocator=False, work=45)
    worker = kind(settings)
    return SimpleNamespace(ask=lambda **question: worker(question))


def test_both_sides_give_the_same_vectors_and_one_row(same_model):
    ours, peer = in_process(embeddings.ours), in_process(embeddings.peer)
    (row,) = embeddings.measure(ours, peer, 1, "cpu")
    assert row.name == "sentence embeddings" and row.ours > 0 and row.peer > 0
    assert "45 sentences differ by at most" in row.note and "ours from a bundle" in row.note
    vectors = torch.tensor(ours.ask(vectors=True, attention="sdpa")["vectors"])
    assert_close(vectors, same_model.embed(embeddings.sentences(45)), rtol=0, atol=1e-6)


def test_vectors_that_differ_are_not_timed(same_model):
    ours = in_process(embeddings.ours)
    with torch.no_grad():
        same_model.model.encoder.blocks[0].feedforward.expand.weight.add_(0.1)
    wrong = SimpleNamespace(
        ask=lambda **question: {
            "work": 1,
            "seconds": 1.0,
            "vectors": same_model.embed(embeddings.sentences(45)).tolist(),
        }
    )
    with pytest.raises(RuntimeError, match="the vectors differ by"):
        embeddings.measure(ours, wrong, 1, "cpu")


def test_without_a_model_the_claim_names_what_is_missing(monkeypatch):
    monkeypatch.delenv("HEADWAY_ENCODER", raising=False)
    monkeypatch.setattr(embeddings, "PACKAGE", "no_such_package_here")
    assert "HEADWAY_ENCODER" in str(embeddings.missing())


def test_real_sentences_are_the_first_of_the_file(real_data):
    real_data("cls/sst2.train.tsv.gz")
    sentences = embeddings.sentences(1000)
    assert len(sentences) == 1000 and len(set(sentences)) > 900
