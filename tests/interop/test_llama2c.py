"""Files of llama2.c: a real one with its recorded output, small synthetic and damaged ones."""

import json
import struct
from itertools import pairwise

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from headway.attention import Mask
from headway.base.errors import DataError
from headway.decoding import Limits
from headway.interop import (
    build,
    llama2c,
    read_llama2c,
    read_llama2c_tokenizer,
    read_llama2c_tokens,
    write,
)
from headway.text import load_tokenizer
from tests.fixtures.searches import greedy_search

# dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
HEADER = (8, 12, 2, 4, 2, 7, 5)


def numbers(header) -> int:
    dim, inner, layers, heads, shared, vocabulary, length = header
    kv = dim // heads * shared
    layer = 2 * dim + 2 * dim * dim + 2 * kv * dim + 3 * inner * dim
    own_head = abs(vocabulary) * dim if vocabulary < 0 else 0
    return abs(vocabulary) * dim + layers * layer + dim + length * dim // heads + own_head


def write_model(path, header=HEADER, extra=0):
    count = numbers(header) + extra
    values = torch.randn(count) * 0.3
    path.write_bytes(struct.pack("<7i", *header) + values.numpy().tobytes())
    return path


def test_the_real_model_generates_its_recorded_story(real_data):
    folder = "weights/stories260K"
    golden = json.loads(real_data(f"{folder}/golden.json").read_text())
    model = build(*read_llama2c(real_data(f"{folder}/stories260K.bin")))
    config = golden["config"]
    assert model.config.kv_heads == config["n_kv_heads"]
    assert model.config.vocabulary == config["vocab_size"]
    first, *expected = golden["greedy_ids_from_bos"]
    empty = torch.zeros(1, 0, dtype=torch.long)
    output = greedy_search(model, (empty,), Limits(first, 2, [len(expected)]))[0]
    assert list(output.tokens) == expected
    tokens = read_llama2c_tokens(real_data(f"{folder}/tok512.bin"))
    assert len(tokens) == config["vocab_size"]
    text = b"".join(tokens[token] for token in output.tokens).decode()
    assert (
        text.strip() == golden["text"].replace("<0x0A>", "\n").strip()
    )  # the recorded text contains the name of a byte token


def test_the_real_tokenizer_encodes_and_decodes_the_recorded_story(real_data, tmp_path):
    folder = "weights/stories260K"
    golden = json.loads(real_data(f"{folder}/golden.json").read_text())
    tokenizer = read_llama2c_tokenizer(real_data(f"{folder}/tok512.bin"))
    assert (tokenizer.size, tokenizer.bos, tokenizer.eos) == (512, 1, 2)
    ids = golden["greedy_ids_from_bos"]
    story = golden["text"].replace("<0x0A>", "\n").strip()
    assert tokenizer.decode(ids) == story
    assert tokenizer.begin(story) == ids
    tokenizer.save(tmp_path)
    assert load_tokenizer(tmp_path).fingerprint == tokenizer.fingerprint


def by_hand(vocabulary, text):
    """Encode as llama2.c: merge the adjacent pair with the highest score, the leftmost if tied."""
    ids = {token: index for index, (token, _) in enumerate(vocabulary)}
    tokens = []
    for character in " " + text if text else "":
        known = ids.get(character.encode())
        tokens += [3 + byte for byte in character.encode()] if known is None else [known]
    while True:
        joined = [ids.get(vocabulary[a][0] + vocabulary[b][0]) for a, b in pairwise(tokens)]
        positions = [position for position, index in enumerate(joined) if index is not None]
        if not positions:
            return tokens
        position = max(positions, key=lambda position: (vocabulary[joined[position]][1], -position))
        tokens[position : position + 2] = [joined[position]]


def test_the_real_tokenizer_merges_as_llama2c(real_data):
    path = real_data("weights/stories260K/tok512.bin")
    tokenizer = read_llama2c_tokenizer(path)
    tokens = llama2c._scored_tokens(path)
    texts = st.text(max_size=30) | st.text(alphabet="the andw.\n", max_size=40)

    @given(texts.filter(lambda text: "\u2581" not in text))
    def check(text):
        assert tokenizer.encode(text) == by_hand(tokens, text)
        assert tokenizer.decode(tokenizer.begin(text)) == text

    check()
    for text in ("  two  spaces ", "<s> and </s>", "Grüße 🙂", "<0x0A>", "aaaaaaa", "...."):
        check.hypothesis.inner_test(text)


def scored(*tokens):
    """Return the bytes of a tokenizer file with these tokens and scores."""
    return struct.pack("<i", 7) + b"".join(
        struct.pack("<fi", score, len(token)) + token for token, score in tokens
    )


FIRST = [(b"<unk>", 0.0), (b"\n<s>\n", 0.0), (b"\n</s>\n", 0.0)]
LETTERS = [(bytes([letter]), -9.0) for letter in b" abc"]


@pytest.mark.parametrize(("ab", "bc", "ids"), [(-1.0, -2.0, [3, 7, 6]), (-2.0, -1.0, [3, 4, 8])])
def test_the_token_with_the_highest_score_is_merged_first(ab, bc, ids, tmp_path):
    path = tmp_path / "tok.bin"
    path.write_bytes(scored(*FIRST, *LETTERS, (b"ab", ab), (b"bc", bc)))
    tokenizer = read_llama2c_tokenizer(path)
    assert tokenizer.encode("abc") == ids
    assert tokenizer.begin("") == [1]
    assert tokenizer.encode("a!!c") == [
        3,
        4,
        0,
        6,
    ]  # one unknown token for both, as there are no byte tokens


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (FIRST[:2], "are missing"),
        (LETTERS, "must be <unk>"),
        ([*FIRST, *LETTERS, LETTERS[1]], "occurs twice"),
        ([*FIRST, (b"", 0.0)], "is empty"),
        ([*FIRST, (b"\xff", 0.0)], "not UTF-8"),
        ([*FIRST, (b"a", float("nan"))], "has the score nan"),
    ],
)
def test_tokens_that_form_no_tokenizer_are_refused(tokens, message, tmp_path):
    path = tmp_path / "tok.bin"
    path.write_bytes(scored(*tokens))
    with pytest.raises(DataError, match=message):
        read_llama2c_tokenizer(path)


def test_the_real_model_is_a_llama_for_transformers_too(real_data, tmp_path):
    model = build(*read_llama2c(real_data("weights/stories260K/stories260K.bin")))
    assert write(model, tmp_path) == "LlamaForCausalLM"
    reference = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    tokens = torch.randint(3, 512, (2, 40))
    with torch.no_grad():
        gap = (model(tokens) - reference(tokens).logits).abs().max()
    assert gap < 1e-4


@torch.no_grad()
def test_rotary_pairs_are_reordered_without_a_change_of_scores(tmp_path):
    """Scores of a whole head with the interleaved pairs of llama2.c equal those of Headway."""
    path = write_model(tmp_path / "m.bin")
    model = build(*read_llama2c(path))
    raw = torch.frombuffer(bytearray(path.read_bytes()[28:]), dtype=torch.float32)
    start = 7 * 8 + 2 * 8  # after embedding and attention norms
    query = raw[start : start + 64].view(8, 8)
    key = raw[start + 128 : start + 128 + 32].view(4, 8)
    x = torch.randn(3, 8)
    attention = model.decoder.blocks[0].attention
    inputs_of_kernel = []
    attention.kernel.register_forward_hook(
        lambda _, inputs, out: inputs_of_kernel.append(inputs[:2])
    )
    attention(x[None], attention.keys_values(x[None]), Mask())
    q, k = inputs_of_kernel[0]
    for head in range(4):
        for t in range(3):
            for s in range(3):
                rotated_query = rotated((query @ x[t]).view(4, 2)[head], t)
                rotated_key = rotated((key @ x[s]).view(2, 2)[head // 2], s)
                ours = q[0, head, t] @ k[0, head // 2, s]
                assert ours == pytest.approx(float(rotated_query @ rotated_key), abs=1e-5)


def rotated(pair, position):
    angle = torch.tensor(float(position))
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos))


def test_a_negative_vocabulary_means_an_untied_head(tmp_path):
    config, tensors = read_llama2c(write_model(tmp_path / "m.bin", (*HEADER[:5], -7, 5)))
    assert config.vocabulary == 7 and not config.tie_output
    assert tensors["output.weight"].shape == (7, 8)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ((0, *HEADER[1:]), "dim=0"),
        ((*HEADER[:2], -2, *HEADER[3:]), "n_layers=-2"),
        ((*HEADER[:2], 2**30, *HEADER[3:]), "n_layers"),
        ((*HEADER[:2], 2**23, *HEADER[3:]), "the header requires"),
        ((*HEADER[:3], 3, *HEADER[4:]), "num_heads=3"),
        ((*HEADER[:4], 3, *HEADER[5:]), "num_kv_heads=3"),
        ((*HEADER[:6], 6), "the header requires"),
        ((0x616B3432, *HEADER[1:]), "not a version-0"),
    ],
)
def test_an_invalid_header_is_refused(tmp_path, header, message):
    path = write_model(tmp_path / "m.bin")
    path.write_bytes(struct.pack("<7i", *header) + path.read_bytes()[28:])
    with pytest.raises(DataError, match=message):
        read_llama2c(path)


@pytest.mark.parametrize("extra", [-1, 1])
def test_a_file_of_another_size_is_refused(tmp_path, extra):
    with pytest.raises(DataError, match="the header requires"):
        read_llama2c(write_model(tmp_path / "m.bin", extra=extra))


def test_a_file_that_is_too_short_is_refused(tmp_path):
    (tmp_path / "m.bin").write_bytes(b"short")
    with pytest.raises(DataError, match="too short"):
        read_llama2c(tmp_path / "m.bin")


def test_tokens_are_read_and_damaged_files_refused(tmp_path):
    path = tmp_path / "tok.bin"
    good = struct.pack("<ifi", 4, 0.5, 2) + b"ab" + struct.pack("<fi", -1.0, 6) + b"<0x0A>"
    path.write_bytes(good)
    assert read_llama2c_tokens(path) == [b"ab", b"\n"]
    for broken in (good[:-1], good + b"123", struct.pack("<ifi", 4, 0.5, -3), b"", good[:4]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"^(token \d+ is truncated|no tokens)"):
            read_llama2c_tokens(path)
