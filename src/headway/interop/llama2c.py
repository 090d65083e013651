"""Read the files of llama2.c: a Llama (seven numbers and the weights), and its tokenizer."""

import math
import re
import struct
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, processors

from headway.base.errors import DataError
from headway.base.files import read_bytes
from headway.base.shapes import Float, Tensor
from headway.models import GPTConfig
from headway.text import PretrainedTokenizer

WEIGHTS_LIMIT = 2**36
TOKENIZER_LIMIT = 2**26
TOKEN_LIMIT = 2**16
SPACE = "\u2581"  # the character of SentencePiece for a space
SPECIALS = ("<unk>", "<s>", "</s>")
BLOCKS = "decoder.blocks.{}."
COMPUTED = ("cosines", "sines")  # tables of rotary positions, which Headway computes
_NAMES = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")


def read_llama2c(path: str | Path) -> tuple[GPTConfig, dict[str, Tensor]]:
    """Read configuration and parameters, by our names, of a version-0 file (`stories15M.bin`).

    Rotary pairs are adjacent in the file, and half a head apart in Headway, so the rows of queries
    and keys are permuted. A negative vocab_size means that the output layer is not tied to the
    embedding. Raises DataError for an invalid header and for a file of another size than the
    header requires.
    """
    where = str(path)
    data = read_bytes(Path(path), WEIGHTS_LIMIT)
    if len(data) < 28:
        raise DataError(
            f"{len(data)} bytes: too short for the header of a llama2.c file, which has 28", where
        )
    header = dict(zip(_NAMES, struct.unpack("<7i", data[:28]), strict=True))
    config = _config(header, where)
    shapes = _shapes(config, header["seq_len"])
    expected = 28 + 4 * sum(map(math.prod, shapes.values()))
    if len(data) != expected:
        raise DataError(
            f"the file has {len(data):,} bytes, but the header requires {expected:,}", where
        )
    numbers = torch.from_numpy(np.frombuffer(data, dtype="<f4", offset=28).astype(np.float32))
    parts = torch.split(numbers, [math.prod(shape) for shape in shapes.values()])
    ours = {}
    for (name, shape), part in zip(shapes.items(), parts, strict=True):
        if not name.startswith(BLOCKS):
            ours[name] = part.view(shape)
            continue
        for number, tensor in enumerate(part.view(shape)):
            is_rotated = "query" in name or "key" in name
            tensor = _halves(tensor, config.head_width) if is_rotated else tensor
            ours[name.format(number)] = tensor
    return config, {name: tensor for name, tensor in ours.items() if name not in COMPUTED}


def read_llama2c_tokens(path: str | Path) -> list[bytes]:
    """Return the tokens of a llama2.c tokenizer file (`tok512.bin`), by id.

    A space is a plain space, and a token like <0x0A> is the byte that it represents.
    """
    return [_byte(token) or token for token, _ in _scored_tokens(path)]


def read_llama2c_tokenizer(path: str | Path) -> PretrainedTokenizer:
    """Read the tokenizer of a llama2.c file: BPE that first merges the pair of the highest score.

    As in Llama's SentencePiece, a space is added before a text, and characters without a token are
    encoded as bytes. Raises DataError for a file without <s> and </s> at 1 and 2, with a duplicate
    token, or with a token that is not UTF-8.
    """
    where = str(path)
    scored_tokens = _scored_tokens(path)
    try:
        names = [token.decode().replace(" ", SPACE) for token, _ in scored_tokens]
    except UnicodeDecodeError as error:
        raise DataError(f"a token is not UTF-8: {error}", where) from error
    for index, special in enumerate(SPECIALS[: len(names)]):
        names[index] = names[index].strip("\n")  # llama2.c writes line ends around <s> and </s>
        if names[index] != special:
            raise DataError(f"token {index} is {names[index][:80]!r}, must be {special}", where)
    if len(names) < len(SPECIALS):
        raise DataError("<unk>, <s> and </s> are missing", where)
    scores = [score for _, score in scored_tokens]
    engine = merging_by_score(names, scores, SPECIALS, SPECIALS[0], where)
    engine.add_special_tokens(list(SPECIALS))
    engine.post_processor = processors.TemplateProcessing(
        single=[SPECIALS[1], "$A"], special_tokens=[(SPECIALS[1], 1)]
    )
    return PretrainedTokenizer(engine, bos=1, eos=2)


def merging_by_score(
    names: Sequence[str],
    scores: Sequence[float],
    specials: Collection[str],
    unknown: str | None,
    where: str,
    *,
    space: bool = True,
) -> tokenizers.Tokenizer:
    """Return an engine of Llama's SentencePiece: the pair of the highest score is merged first.

    names: of the tokens by id, with `SPACE` for a space. specials: tokens that are never merged.
    unknown: the token of a character that has none, nor tokens of its bytes. space: one is added
    before a text. Raises DataError for a token that is empty or occurs twice.
    """
    vocabulary = {name: index for index, name in enumerate(names)}
    if len(vocabulary) < len(names) or "" in vocabulary:
        raise DataError("a token is empty or occurs twice", where)
    model = models.BPE(
        vocab=vocabulary,
        merges=_merges(vocabulary, scores, specials),
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=True,
    )
    engine = tokenizers.Tokenizer(model)
    steps = [normalizers.Replace(" ", SPACE)]
    engine.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE)] * space + steps)
    engine.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            *([decoders.Strip(" ", 1, 0)] * space),
        ]
    )
    return engine


def _merges(
    vocabulary: Mapping[str, int], scores: Sequence[float], specials: Collection[str]
) -> list[tuple[str, str]]:
    """Return all merges of two tokens into one, the highest score first."""
    merges = []
    for name, index in vocabulary.items():
        if name in specials or _byte(name.encode()):
            continue
        for cut in range(1, len(name)):
            left, right = name[:cut], name[cut:]
            if left in vocabulary and right in vocabulary:
                merges.append((-scores[index], vocabulary[left], vocabulary[right], left, right))
    return [(left, right) for *_, left, right in sorted(merges)]


def _byte(token: bytes) -> bytes | None:
    """Return the byte that a token like <0x0A> represents; None for other tokens."""
    match = re.fullmatch(rb"<0x([0-9A-F]{2})>", token)
    return bytes([int(match[1], 16)]) if match else None


def _scored_tokens(path: str | Path) -> list[tuple[bytes, float]]:
    """Read the tokens as they are in the file, and their scores."""
    where = str(path)
    data = read_bytes(Path(path), TOKENIZER_LIMIT)
    tokens: list[tuple[bytes, float]] = []
    offset = 4  # after the length of the longest token
    while offset < len(data):
        score, length = 0.0, -1
        if offset + 8 <= len(data):
            score, length = struct.unpack_from("<fi", data, offset)
        offset += 8 + length
        if not 0 <= length <= TOKEN_LIMIT or offset > len(data):
            raise DataError(f"token {len(tokens)} is truncated or has an invalid length", where)
        if not math.isfinite(score):
            raise DataError(f"token {len(tokens)} has the score {score}, must be finite", where)
        tokens.append((data[offset - length : offset], score))
    if not tokens:
        raise DataError("no tokens: not a llama2.c tokenizer", where)
    return tokens


def _config(header: dict[str, int], where: str) -> GPTConfig:
    for name, value in header.items():
        if not 0 < (abs(value) if name == "vocab_size" else value) < 2**24:
            raise DataError(f"{name}={value} is out of range: not a version-0 llama2.c file", where)
    try:
        return GPTConfig(
            model_dim=header["dim"],
            ffn_dim=header["hidden_dim"],
            num_layers=header["n_layers"],
            num_heads=header["n_heads"],
            num_kv_heads=header["n_kv_heads"],
            vocabulary=abs(header["vocab_size"]),
            max_length=header["seq_len"],
            tie_output=header["vocab_size"] > 0,
            norm_kind="rms",
            norm_eps=1e-5,
            activation="swiglu",
            bias=False,
            positions="rotary",
        )
    except ValueError as error:  # inconsistent sizes
        raise DataError(str(error), where) from error


def _shapes(config: GPTConfig, length: int) -> dict[str, tuple[int, ...]]:
    """Return our names and the shapes of the tensors in the file, in order. A tensor of the blocks
    has those of all blocks."""
    layers, width, inner = config.num_layers, config.model_dim, config.ffn_dim
    shared = config.kv_heads * config.head_width
    shapes: dict[str, tuple[int, ...]] = {
        "embedding.tokens.weight": (config.vocabulary, width),
        f"{BLOCKS}around_attention.norm.gain": (layers, width),
        f"{BLOCKS}attention.query.weight": (layers, width, width),
        f"{BLOCKS}attention.key.weight": (layers, shared, width),
        f"{BLOCKS}attention.value.weight": (layers, shared, width),
        f"{BLOCKS}attention.output.weight": (layers, width, width),
        f"{BLOCKS}around_feedforward.norm.gain": (layers, width),
        f"{BLOCKS}feedforward.gate.weight": (layers, inner, width),
        f"{BLOCKS}feedforward.contract.weight": (layers, width, inner),
        f"{BLOCKS}feedforward.expand.weight": (layers, inner, width),
        "decoder.norm.gain": (width,),
        **dict.fromkeys(COMPUTED, (length, config.head_width // 2)),
    }
    return (
        shapes
        if config.tie_output
        else {**shapes, "output.weight": shapes["embedding.tokens.weight"]}
    )


def _halves(weight: Float[Tensor, "HK D"], head_dim: int) -> Float[Tensor, "HK D"]:
    """Permute the rows 0, 1, 2, 3 ... of each head to 0, 2, 4 ..., 1, 3, 5 ...: rotary pairs become
    half a head apart."""
    pairs = weight.view(-1, head_dim // 2, 2, weight.shape[1])
    return pairs.transpose(1, 2).reshape(weight.shape)
