"""SentencePiece models (.spm, .model): a vocabulary with scores and rules for spaces, in protobuf.

`parse_sentencepiece` reads the few fields that splitting a text needs; `engine_json` makes them a
tokenizer of the `tokenizers` library. Kudo and Richardson 2018; the numbers of the fields are those
of `sentencepiece_model.proto`.

A protobuf message is a series of fields. Each begins with a number 8 * field + kind, where kind 0
is an integer, 1 and 5 are eight and four bytes, and 2 is a length followed by as many bytes. An
integer has seven bits in each byte, the low ones first; all bytes but its last have the high bit.
"""

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import models

from headway.base.errors import DataError
from headway.text.sentencepiece_characters import alternatives, character_steps, replacement

FILE_LIMIT = 64 * 2**20
LONGEST_PIECE = 4096
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Types of pieces. A text never contains a control piece or an unused one."""
UNIGRAM, BPE = 1, 2
SPACE = "\u2581"


@dataclass(frozen=True, kw_only=True)
class SentencePieceModel:
    """A SentencePiece model.

    pieces: the texts of all tokens; `SPACE` stands for a space. scores: log-probabilities of a
    Unigram model, or the negative ranks of the merges of BPE. types: `NORMAL` and so on. kind:
    `UNIGRAM` or `BPE`. charsmap: the compiled table of character replacements; empty for none.
    leading_space: a space is added before a text. joins_spaces: several spaces are one, and none is
    at the ends. byte_fallback: unknown characters become their bytes.
    """

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    types: tuple[int, ...]
    kind: int = UNIGRAM
    charsmap: bytes = b""
    leading_space: bool = True
    joins_spaces: bool = True
    byte_fallback: bool = False

    @property
    def unknown(self) -> int:
        """The index of the piece for unknown characters."""
        return self.types.index(UNKNOWN)


def parse_sentencepiece(content: bytes, where: str) -> SentencePieceModel:
    """Read the contents of a file, which `where` names in errors.

    Raises DataError for a damaged file and for a model that is neither Unigram nor BPE.
    """
    pieces: list[str] = []
    scores: list[float] = []
    types: list[int] = []
    settings: dict[str, Any] = {}
    for field, value in _fields(content, where):
        if field in (1, 2, 3) and not isinstance(value, bytes):
            raise DataError(f"field {field} of the model is a number, not a message", where)
        if field == 1:
            piece, score, kind = _piece(value, len(pieces), where)
            pieces.append(piece)
            scores.append(score)
            types.append(kind)
        elif field == 2:
            settings |= _trainer(value, where)
        elif field == 3:
            settings |= _normalizer(value, where)
    if types.count(UNKNOWN) != 1:
        raise DataError(
            f"expected one token for unknown characters among {len(pieces):,}, found "
            f"{types.count(UNKNOWN)}",
            where,
            "is it a SentencePiece model?",
        )
    if len(set(pieces)) < len(pieces):
        repeated = next(piece for piece in pieces if pieces.count(piece) > 1)
        raise DataError(f"the token {repeated!r} occurs twice", where)
    return SentencePieceModel(
        pieces=tuple(pieces), scores=tuple(scores), types=tuple(types), **settings
    )


def engine_json(model: SentencePieceModel) -> dict[str, object]:
    """Return the `tokenizer.json` of a tokenizer that splits texts into the same pieces.

    Its ids are the indices of the pieces. Pieces that no text contains have other names in it, so
    that text which looks like </s> is never that token.
    """
    names = [
        f"\0{index}" if kind in (CONTROL, UNUSED, UNKNOWN) else piece
        for index, (piece, kind) in enumerate(zip(model.pieces, model.types, strict=True))
    ]
    steps = character_steps(model.charsmap, _user_defined(model))
    if model.joins_spaces:
        steps.append(replacement({"Regex": r"\A +"}, ""))
        steps.append(replacement({"Regex": " {2,}"}, " "))
    steps.append(replacement({"String": " "}, SPACE))
    if model.leading_space:
        steps.append({"type": "Prepend", "prepend": SPACE})
    if model.joins_spaces:
        steps.append(replacement({"Regex": rf"{SPACE}+\z"}, ""))
    is_unigram = model.kind == UNIGRAM
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _splits(model)},
        "post_processor": None,
        "decoder": None,
        "model": _unigram(model, names) if is_unigram else _byte_pairs(model, names),
    }


def _user_defined(model: SentencePieceModel) -> list[str]:
    """Return the user-defined pieces, the longest first."""
    pairs = zip(model.pieces, model.types, strict=True)
    defined = [piece for piece, kind in pairs if kind == USER_DEFINED]
    return sorted(defined, key=len, reverse=True)


def _splits(model: SentencePieceModel) -> list[dict[str, object]]:
    """Return the pre-tokenizers.

    Each user-defined piece of a BPE model becomes one token: it is split off before any characters
    are merged, and is not merged with others. Where several match, the longest is taken. A text
    that looks like the token of a byte is split, so that it is not that token.
    """
    splits = []
    defined = _user_defined(model)
    if model.kind == BPE and defined:
        splits.append(_split(alternatives(defined), "Isolated"))
    if model.byte_fallback and (model.kind == UNIGRAM or defined):
        splits.append(_split(_byte_cut(model), "MergedWithPrevious"))
    return splits


def _byte_cut(model: SentencePieceModel) -> str:
    """Return a pattern for the part of "<0x41>" after which it is cut, where no piece would be cut,
    too, if there is such a part."""
    digit = "[0-9A-F]"
    characters = ["<", "0", "x", digit, digit, ">"]
    pairs = zip(model.pieces, model.types, strict=True)
    pieces = [piece for piece, kind in pairs if kind in (NORMAL, USER_DEFINED)]
    cuts = range(1, len(characters))
    whole = [
        at
        for at in cuts
        if not any(re.search("".join(characters[at - 1 : at + 1]), piece) for piece in pieces)
    ]
    at = [*whole, *cuts][0]
    return f"{''.join(characters[:at])}(?={''.join(characters[at:])})"


def _split(pattern: str, behavior: str) -> dict[str, object]:
    pattern_of = {"Regex": pattern}
    return {"type": "Split", "pattern": pattern_of, "behavior": behavior, "invert": False}


def _unigram(model: SentencePieceModel, names: list[str]) -> dict[str, object]:
    """Return the model of a Unigram model.

    The score for unknown characters depends on the lowest one of the normal pieces, so pieces of
    other types do not have a lower one.
    """
    pairs = zip(model.scores, model.types, strict=True)
    highest = max((score for score, kind in pairs if kind == NORMAL), default=0.0)
    vocabulary = [
        [name, _score(piece, score, kind, highest)]
        for name, piece, score, kind in zip(
            names, model.pieces, model.scores, model.types, strict=True
        )
    ]
    return {
        "type": "Unigram",
        "unk_id": model.unknown,
        "vocab": vocabulary,
        "byte_fallback": model.byte_fallback,
    }


def _score(piece: str, score: float, kind: int, highest: float) -> float:
    """Return the score of a piece; that of a user-defined one grows with its length in bytes.

    highest: the highest score of the normal pieces.
    """
    if kind == USER_DEFINED:
        return 0.1 * (len(piece.encode()) - 1)
    return score if kind == NORMAL else highest


def _byte_pairs(model: SentencePieceModel, names: list[str]) -> dict[str, object]:
    """A piece is the merge of every two pieces that it consists of, at the rank of its score."""
    normal = {
        piece: (-score, index)
        for index, (piece, score, kind) in enumerate(
            zip(model.pieces, model.scores, model.types, strict=True)
        )
        if kind == NORMAL
    }
    merges = sorted(
        (*normal[piece], at)
        for piece in normal
        for at in range(1, len(piece))
        if piece[:at] in normal and piece[at:] in normal
    )
    pairs = [(model.pieces[i][:at], model.pieces[i][at:]) for _, i, at in merges]
    has_atoms = USER_DEFINED in model.types
    if has_atoms:
        names = _without_unreachable(names, pairs, list(normal.values()))
        known = set(names)
        pairs = [pair for pair in pairs if known.issuperset({*pair, "".join(pair)})]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": names[model.unknown],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": model.byte_fallback,
        "ignore_merges": has_atoms,  # what `_splits` separates is a whole token
        "vocab": {name: index for index, name in enumerate(names)},
        "merges": [list(pair) for pair in pairs],
    }


def _without_unreachable(
    names: list[str], pairs: list[tuple[str, str]], normal: list[tuple[float, int]]
) -> list[str]:
    """Return the names with other ones for the normal pieces that no order of merges makes.

    `ignore_merges` would find them in a text that consists of one.
    """
    vocabulary = {name: index for index, name in enumerate(names)}
    model = models.BPE(vocab=vocabulary, merges=pairs)
    unreachable = {index for _, index in normal if len(model.tokenize(names[index])) != 1}
    return [f"\0{i}" if i in unreachable else name for i, name in enumerate(names)]


def _piece(content: bytes, index: int, where: str) -> tuple[str, float, int]:
    values = dict(_fields(content, where))
    text, score, kind = values.get(1, b""), values.get(2, 0.0), values.get(3, NORMAL)
    try:
        piece = text.decode() if isinstance(text, bytes) else ""
    except UnicodeDecodeError as error:
        raise DataError(f"token {index} is not UTF-8: {error}", where) from error
    if not 0 < len(piece) <= LONGEST_PIECE:
        raise DataError(
            f"token {index} has {len(piece):,} characters; expected 1 to {LONGEST_PIECE:,}", where
        )
    number = struct.unpack("<f", score)[0] if isinstance(score, bytes) and len(score) == 4 else 0.0
    if not math.isfinite(number) or kind not in range(NORMAL, BYTE + 1):
        raise DataError(f"token {index}, {piece!r}, has score {number} and type {kind}", where)
    return piece, number, int(kind)


def _trainer(content: bytes, where: str) -> dict[str, object]:
    values = dict(_fields(content, where))
    kind = values.get(3, UNIGRAM)
    if kind not in (UNIGRAM, BPE):
        raise DataError(
            f"the model is of kind {kind}; supported are 1 (Unigram) and 2 (BPE)", where
        )
    if values.get(24, 0):
        raise DataError(
            "the model was trained with treat_whitespace_as_suffix=true, which is not supported: "
            "expected spaces at the starts of words",
            where,
            "train the model with treat_whitespace_as_suffix=false",
        )
    return {"kind": kind, "byte_fallback": bool(values.get(35, 0))}


def _normalizer(content: bytes, where: str) -> dict[str, object]:
    values = dict(_fields(content, where))
    charsmap = values.get(2, b"")
    return {
        "charsmap": charsmap if isinstance(charsmap, bytes) else b"",
        "leading_space": bool(values.get(3, 1)),
        "joins_spaces": bool(values.get(4, 1)),
    }


def _fields(content: bytes, where: str) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: their number, and an integer or bytes. Raises DataError."""
    position = 0
    while position < len(content):
        key, position = _integer(content, position, where)
        kind = key & 7
        if kind == 0:
            value, position = _integer(content, position, where)
            yield key >> 3, value
            continue
        if kind == 2:
            length, position = _integer(content, position, where)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise _damaged(position, where)
        if length > len(content) - position:
            raise _damaged(position, where)
        yield key >> 3, content[position : position + length]
        position += length


def _integer(content: bytes, position: int, where: str) -> tuple[int, int]:
    """Return the integer at a position, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(content):
            break
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise _damaged(position, where)


def _damaged(position: int, where: str) -> DataError:
    return DataError(
        f"not a SentencePiece model: no protobuf field at byte {position:,}",
        where,
        "download the file again",
    )
