"""A model and its tokenizer, exported to Hugging Face and loaded by transformers."""

import json
from dataclasses import replace

import pytest
import torch
import transformers

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.bundle import TextBundle
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.target import export
from headway.interop import NO_SETTINGS, read, write_text_model
from tests.fixtures.hf_gpt import PROMPT, TINY, Bytes, load_in_transformers, random_gpt

ODD = ["", "  two\n\tlines ", "Grüße 🙂", "spells </s> and <s> out", PROMPT]

MODERN = {"norm_kind": "rms", "activation": "swiglu", "bias": False, "positions": "rotary"}
CONFIGS = {
    "gpt2": TINY,
    "openai-gpt": replace(TINY, norm="post", ffn_dim=48),
    "llama": replace(TINY, **MODERN, num_kv_heads=1),
    "qwen3": replace(TINY, **MODERN, qk_norm=True, tie_output=False),
}


def bundle_of(model, tokenizer):
    """A bundle, without the check that model and tokenizer have one vocabulary."""
    bundle = object.__new__(TextBundle)
    bundle.model, bundle.tokenizer, bundle.settings = model, tokenizer, NO_SETTINGS
    return bundle


class Letters(Bytes):
    """A tokenizer with one token per character and its own file format; it refuses others."""

    def __init__(self, letters="\n abcdefghiklmnoprstuwxy'üß🙂", opening=True):
        self.letters, self.opening = ["", *letters], opening
        self.size, self.bos, self.eos, self.fingerprint = len(self.letters), 0, 0, "1"
        self.ends = (self.eos,)

    def encode(self, text):
        for letter in text:
            if letter not in self.letters[1:]:
                raise DataError(f"{letter!r} is unknown")
        return [self.letters.index(letter) for letter in text]

    def decode(self, ids):
        return "".join(self.letters[i] for i in ids)

    def token_strings(self, ids):
        return [self.letters[i] or "<|endoftext|>" for i in ids]

    def save(self, folder):
        (folder / "tokenizer.json").write_text(json.dumps({"letters": self.letters}))


@pytest.mark.parametrize("family", CONFIGS)
def test_transformers_loads_it_and_continues_with_the_same_tokens(family, tmp_path):
    model, tokenizer = random_gpt(CONFIGS[family]), Bytes()
    exported = export(bundle_of(model, tokenizer), tmp_path / "hf", HUGGING_FACE, family=family)
    assert len(exported.difference) == 2 and exported.texts == 13
    reference, reader = load_in_transformers(tmp_path / "hf")
    assert type(reference).__name__ == exported.architecture
    ids = torch.tensor([tokenizer.begin(PROMPT)])
    assert reader(PROMPT).input_ids == ids[0].tolist()
    with torch.no_grad():
        torch.testing.assert_close(reference(ids).logits, model.eval()(ids), atol=1e-4, rtol=0)
        answer = reference.generate(ids, max_new_tokens=9, do_sample=False, eos_token_id=None)
        tokens = ids
        for _ in range(9):
            tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    assert answer.tolist() == tokens.tolist()


@pytest.mark.parametrize("opening", [True, False])
@pytest.mark.parametrize("kind", [Bytes, Letters])
def test_transformers_encodes_texts_as_the_tokenizer_does(kind, opening, tmp_path):
    tokenizer = kind(opening=opening)
    write_text_model(random_gpt(TINY), tokenizer, tmp_path / "hf")
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert (reader.bos_token_id, reader.eos_token_id) == (tokenizer.bos, tokenizer.eos)
    assert reader.model_max_length == 48
    texts = ODD if kind is Bytes else ["", PROMPT, "üß🙂\n  endoftext"]
    for text in texts:
        assert reader(text, add_special_tokens=False).input_ids == tokenizer.encode(text)
        assert reader(text).input_ids == tokenizer.begin(text)
        assert reader.decode(tokenizer.begin(text), skip_special_tokens=True) == text


def test_a_model_in_training_mode_stays_in_it(tmp_path):
    model = random_gpt(replace(TINY, dropout=0.5)).train()
    export(bundle_of(model, Bytes()), tmp_path / "hf", HUGGING_FACE)
    assert model.training and model.decoder.training


def test_wrongly_written_weights_are_detected_and_removed(tmp_path, monkeypatch):
    def wrong(path):
        config, tensors = read(path)
        return config, tensors | {"decoder.norm.gain": tensors["decoder.norm.gain"] + 0.01}

    monkeypatch.setattr("headway.interop.read", wrong)
    with pytest.raises(HeadwayError, match="differ by"):
        export(bundle_of(random_gpt(TINY), Bytes()), tmp_path / "hf", HUGGING_FACE)
    assert list(tmp_path.iterdir()) == []


class Shifted(Bytes):
    """A tokenizer whose file does not describe its behaviour."""

    def encode(self, text):
        return [2 + (i - 1) % (self.size - 2) for i in super().encode(text)]


class Pairs(Letters):
    """A tokenizer with a token of two characters that no merge produces."""

    def __init__(self):
        super().__init__()
        self.letters[3] = "ab"


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (Shifted(), "the written tokenizer encodes"),
        (Pairs(), "is not a single character"),
        (Letters("aab"), "have the same text"),
    ],
)
def test_a_tokenizer_that_cannot_be_exported_leaves_no_file(tokenizer, message, tmp_path):
    with pytest.raises(HeadwayError, match=message):
        export(bundle_of(random_gpt(TINY), tokenizer), tmp_path / "hf", HUGGING_FACE)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_cannot_be_exported_leaves_no_file(tmp_path):
    with pytest.raises(UsageError, match="cannot be represented") as raised:
        export(
            bundle_of(random_gpt(replace(TINY, attention="additive")), Bytes()),
            tmp_path / "hf",
            HUGGING_FACE,
        )
    _, nearest, *others = raised.value.what.splitlines()
    assert nearest == "gpt2: attention=additive (must be scaled-dot)" and len(others) == 3
    with pytest.raises(UsageError, match="290 tokens, but the model's vocabulary 200"):
        export(
            bundle_of(random_gpt(replace(TINY, vocabulary=200)), Bytes()),
            tmp_path / "hf",
            HUGGING_FACE,
        )
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_never_replaced(tmp_path):
    (tmp_path / "hf").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        export(bundle_of(random_gpt(TINY), Bytes()), tmp_path / "hf", HUGGING_FACE)
