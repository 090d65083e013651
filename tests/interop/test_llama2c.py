"""llama2.c's files: a real one beside its golden words, small ones made here, broken ones."""

import json
import struct

import pytest
import torch
import transformers

import headway
from headway.attention import Mask
from headway.decoding import Limits, greedy_search
from headway.errors import DataError, UsageError
from headway.interop import build, read_llama2c, read_pieces, write

# dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
HEADER = (8, 12, 2, 4, 2, 7, 5)


def numbers(header) -> int:
    dim, inner, layers, heads, shared, vocabulary, length = header
    kv = dim // heads * shared
    layer = 2 * dim + 2 * dim * dim + 2 * kv * dim + 3 * inner * dim
    own_head = abs(vocabulary) * dim if vocabulary < 0 else 0
    return abs(vocabulary) * dim + layers * layer + dim + length * dim // heads + own_head


def made(path, header=HEADER, extra=0):
    count = numbers(header) + extra
    values = torch.randn(count) * 0.3
    path.write_bytes(struct.pack("<7i", *header) + values.numpy().tobytes())
    return path


def test_the_real_model_tells_its_golden_story(real_data):
    folder = "weights/stories260K"
    golden = json.loads(real_data(f"{folder}/golden.json").read_text())
    model = build(*read_llama2c(real_data(f"{folder}/stories260K.bin")))
    config = golden["config"]
    assert model.config.kv_heads == config["n_kv_heads"]
    assert model.config.vocabulary == config["vocab_size"]
    first, *expected = golden["greedy_ids_from_bos"]
    empty = torch.zeros(1, 0, dtype=torch.long)
    found = greedy_search(model, (empty,), Limits(first, 2, [len(expected)]))[0]
    assert list(found.tokens) == expected
    pieces = read_pieces(real_data(f"{folder}/tok512.bin"))
    assert len(pieces) == config["vocab_size"]
    told = b"".join(pieces[token] for token in found.tokens).decode()
    assert (
        told.strip() == golden["text"].replace("<0x0A>", "\n").strip()
    )  # its text keeps the name of a byte


def test_the_real_model_is_a_llama_for_transformers_too(real_data, tmp_path):
    model = build(*read_llama2c(real_data("weights/stories260K/stories260K.bin")))
    assert write(model, tmp_path).architecture == "LlamaForCausalLM"
    other = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    tokens = torch.randint(3, 512, (2, 40))
    with torch.no_grad():
        gap = (model(tokens) - other(tokens).logits).abs().max()
    assert gap < 1e-4


@torch.no_grad()
def test_rotary_pairs_change_places_so_that_scores_stay(tmp_path):
    """Interleaved pairs turned as llama2.c turns them, beside ours, through a whole head."""
    path = made(tmp_path / "m.bin")
    model = build(*read_llama2c(path))
    raw = torch.frombuffer(bytearray(path.read_bytes()[28:]), dtype=torch.float32)
    at = 7 * 8 + 2 * 8  # after embedding and attention norms
    query = raw[at : at + 64].view(8, 8)
    key = raw[at + 128 : at + 128 + 32].view(4, 8)
    x = torch.randn(3, 8)
    attention = model.decoder.blocks[0].attention
    seen = []
    attention.kernel.register_forward_hook(lambda _, inputs, out: seen.append(inputs[:2]))
    attention.attend(x[None], *attention.keys_values(x[None]), Mask())
    q, k = seen[0]
    for head in range(4):
        for t in range(3):
            for s in range(3):
                turned = _turned((query @ x[t]).view(4, 2)[head], t)
                other = _turned((key @ x[s]).view(2, 2)[head // 2], s)
                ours = q[0, head, t] @ k[0, head // 2, s]
                assert ours == pytest.approx(float(turned @ other), abs=1e-5)


def _turned(pair, position):
    angle = torch.tensor(float(position))
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos))


def test_a_negative_vocabulary_means_a_head_of_its_own(tmp_path):
    config, tensors = read_llama2c(made(tmp_path / "m.bin", (*HEADER[:5], -7, 5)))
    assert config.vocabulary == 7 and not config.tie_output
    assert tensors["output.weight"].shape == (7, 8)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ((0, *HEADER[1:]), "dim=0"),
        ((*HEADER[:2], -2, *HEADER[3:]), "n_layers=-2"),
        ((*HEADER[:2], 2**30, *HEADER[3:]), "n_layers"),
        ((*HEADER[:2], 2**23, *HEADER[3:]), "the header asks for"),
        ((*HEADER[:3], 3, *HEADER[4:]), "num_heads=3"),
        ((*HEADER[:4], 3, *HEADER[5:]), "num_kv_heads=3"),
        ((*HEADER[:6], 6), "the header asks for"),
        ((0x616B3432, *HEADER[1:]), "not a version-0"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(tmp_path, header, said):
    path = made(tmp_path / "m.bin")
    path.write_bytes(struct.pack("<7i", *header) + path.read_bytes()[28:])
    with pytest.raises(DataError, match=said):
        read_llama2c(path)


@pytest.mark.parametrize("extra", [-1, 1])
def test_a_file_of_another_size_is_refused(tmp_path, extra):
    with pytest.raises(DataError, match="the header asks for"):
        read_llama2c(made(tmp_path / "m.bin", extra=extra))


def test_no_model_at_all_is_refused(tmp_path):
    (tmp_path / "m.bin").write_bytes(b"short")
    with pytest.raises(DataError, match="too short"):
        read_llama2c(tmp_path / "m.bin")


def test_pieces_are_read_and_broken_ones_refused(tmp_path):
    path = tmp_path / "tok.bin"
    good = struct.pack("<ifi", 4, 0.5, 2) + b"ab" + struct.pack("<fi", -1.0, 6) + b"<0x0A>"
    path.write_bytes(good)
    assert read_pieces(path) == [b"ab", b"\n"]
    for broken in (good[:-1], good + b"123", struct.pack("<ifi", 4, 0.5, -3), b"", good[:4]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match="piece"):
            read_pieces(path)


def test_the_real_model_is_a_file_to_load_and_tells_its_story_in_text(real_data, tmp_path):
    folder = "weights/stories260K"
    for name in ("stories260K.bin", "tok512.bin"):
        (tmp_path / name).write_bytes(real_data(f"{folder}/{name}").read_bytes())
    ids = json.loads(real_data(f"{folder}/golden.json").read_text())["greedy_ids_from_bos"]
    bundle = headway.load(tmp_path / "stories260K.bin")
    found = bundle.generate([""], temperature=0, max_tokens=len(ids) - 1)[0][0]
    assert [1, *found.tokens] == ids
    assert found.text == bundle.tokenizer.decode(ids)
    assert bundle.tokenizer.begin(found.text) == ids, "a text is read as it was written"
    odd = "naïve 日 \n🙂"
    assert bundle.tokenizer.decode(bundle.tokenizer.encode(odd)) == odd
    (tmp_path / "tok2.bin").write_bytes(b"")
    with pytest.raises(UsageError, match="2 files tok"):
        headway.load(tmp_path / "stories260K.bin")
