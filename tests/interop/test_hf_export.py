"""A model and its tokenizer, written for Hugging Face and opened there."""

import json
from dataclasses import replace

import pytest
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

from headway.errors import DataError, HeadwayError, UsageError
from headway.interop import export, hf_export, read
from headway.models import GPT, GPTConfig

PROMPT = "the old baker paints a lemon tree"
STORY = [PROMPT, "a small dog sees the red fox", "it's the baker's dog, isn't it?"] * 3
ODD = ["", "  two\n\tlines ", "Grüße 🙂", "spells </s> and <s> out", PROMPT]

TINY = GPTConfig(model_dim=12, num_heads=2, ffn_dim=20, num_layers=2, max_length=48, vocabulary=300)
MODERN = {"norm_kind": "rms", "activation": "swiglu", "bias": False, "positions": "rotary"}
CONFIGS = {
    "gpt2": TINY,
    "openai-gpt": replace(TINY, norm="post", ffn_dim=48),
    "llama": replace(TINY, **MODERN, num_kv_heads=1),
    "qwen3": replace(TINY, **MODERN, qk_norm=True, tie_output=False),
}


class Bytes:
    """Byte-level BPE as the contract has it; `opening`: a text begins with bos."""

    def __init__(self, opening=True):
        engine = tokenizers.Tokenizer(models.BPE())
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        engine.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=290,
            special_tokens=["<s>", "</s>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        engine.train_from_iterator(STORY, trainer)
        engine.encode_special_tokens = True
        self.engine, self.opening = engine, opening
        self.size, self.bos, self.eos, self.fingerprint = engine.get_vocab_size(), 0, 1, "0"

    def encode(self, text):
        return self.engine.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts):
        return [self.encode(text) for text in texts]

    def begin(self, text):
        return [self.bos, *self.encode(text)] if self.opening else self.encode(text)

    def decode(self, ids):
        return self.engine.decode(list(ids))

    def pieces(self, ids):
        return [self.engine.id_to_token(i) for i in ids]

    def save(self, folder):
        (folder / "tokenizer.json").write_text(self.engine.to_str())


class Letters(Bytes):
    """A piece for each character, in a file of its own form; other characters are refused."""

    def __init__(self, letters="\n abcdefghiklmnoprstuwxy'üß🙂", opening=True):
        self.letters, self.opening = ["", *letters], opening
        self.size, self.bos, self.eos, self.fingerprint = len(self.letters), 0, 0, "1"

    def encode(self, text):
        for letter in text:
            if letter not in self.letters[1:]:
                raise DataError(f"{letter!r} is unknown")
        return [self.letters.index(letter) for letter in text]

    def decode(self, ids):
        return "".join(self.letters[i] for i in ids)

    def pieces(self, ids):
        return [self.letters[i] or "<|endoftext|>" for i in ids]

    def save(self, folder):
        (folder / "tokenizer.json").write_text(json.dumps({"letters": self.letters}))


def shaken(config):
    """Values far from the first ones: zero biases and unit gains would hide a forgotten one."""
    model = GPT(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def opened(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("family", CONFIGS)
def test_transformers_opens_it_and_writes_on_with_the_same_tokens(family, tmp_path):
    model, tokenizer = shaken(CONFIGS[family]), Bytes()
    exported = export(model, tokenizer, tmp_path / "hf", family)
    assert exported.difference <= 1e-4 and exported.texts == 13
    theirs, reader = opened(tmp_path / "hf")
    assert type(theirs).__name__ == exported.architecture
    ids = torch.tensor([tokenizer.begin(PROMPT)])
    assert reader(PROMPT).input_ids == ids[0].tolist()
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).logits, model.eval()(ids), atol=1e-4, rtol=0)
        answer = theirs.generate(ids, max_new_tokens=9, do_sample=False, eos_token_id=None)
        tokens = ids
        for _ in range(9):
            tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    assert answer.tolist() == tokens.tolist()


@pytest.mark.parametrize("opening", [True, False])
@pytest.mark.parametrize("kind", [Bytes, Letters])
def test_transformers_reads_texts_as_the_tokenizer_does(kind, opening, tmp_path):
    tokenizer = kind(opening=opening)
    export(shaken(TINY), tokenizer, tmp_path / "hf")
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert (reader.bos_token_id, reader.eos_token_id) == (tokenizer.bos, tokenizer.eos)
    assert reader.model_max_length == 48
    texts = ODD if kind is Bytes else ["", PROMPT, "üß🙂\n  endoftext"]
    for text in texts:
        assert reader(text, add_special_tokens=False).input_ids == tokenizer.encode(text)
        assert reader(text).input_ids == tokenizer.begin(text)
        assert reader.decode(tokenizer.begin(text), skip_special_tokens=True) == text


def test_a_model_that_is_training_goes_on_training(tmp_path):
    model = shaken(replace(TINY, dropout=0.5)).train()
    assert export(model, Bytes(), tmp_path / "hf").difference <= 1e-4
    assert model.training and model.decoder.training


def test_weights_that_were_written_wrong_are_found_and_removed(tmp_path, monkeypatch):
    def wrong(path):
        config, tensors = read(path)
        return config, tensors | {"decoder.norm.gain": tensors["decoder.norm.gain"] + 0.01}

    monkeypatch.setattr(hf_export, "read", wrong)
    with pytest.raises(HeadwayError, match="logits differ by"):
        export(shaken(TINY), Bytes(), tmp_path / "hf")
    assert list(tmp_path.iterdir()) == []


class Shifted(Bytes):
    """A file that does not say what the tokenizer does."""

    def encode(self, text):
        return [2 + (i - 1) % (self.size - 2) for i in super().encode(text)]


class Pairs(Letters):
    """A piece of two characters, which joining nothing cannot make."""

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
def test_a_tokenizer_that_has_no_form_there_leaves_nothing(tokenizer, message, tmp_path):
    with pytest.raises(HeadwayError, match=message):
        export(shaken(TINY), tokenizer, tmp_path / "hf")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_has_no_form_there_leaves_nothing(tmp_path):
    with pytest.raises(UsageError, match="cannot be represented"):
        export(shaken(replace(TINY, attention="additive")), Bytes(), tmp_path / "hf")
    with pytest.raises(UsageError, match="290 tokens, but the model's vocabulary 200"):
        export(shaken(replace(TINY, vocabulary=200)), Bytes(), tmp_path / "hf")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_never_replaced(tmp_path):
    (tmp_path / "hf").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        export(shaken(TINY), Bytes(), tmp_path / "hf")
