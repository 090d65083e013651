"""WordPiece, the tokenizer of encoders, as llama.cpp has it in the metadata of a GGUF file.

BERT's files have "##" before a token that continues a word; llama.cpp's have a space before one
that begins a word. The rest is in its code: NFD, lower case, no accents, a word of its own for each
punctuation mark and each Chinese character.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from headway.base.errors import DataError, UsageError
from headway.text import EncoderTokenizer, SpecialTokens
from headway.text.encoder_tokenizer import CONTINUES
from headway.text.sentencepiece import NORMAL
from headway.text.sentencepiece import SPACE as WHITESPACE

LOWERS = "tokenizer.ggml.normalizer.lowercase"
STRIPS = "tokenizer.ggml.normalizer.strip_accents"
LONGEST_WORD = 100
MOST = 0.01
"""Maximum fraction of tokens with characters of `LOST`, for a tokenizer that strips accents."""
ROLES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "pad": (("padding",), "[PAD]"),
    "start": (("bos", "cls"), "[CLS]"),
    "end": (("seperator", "eos"), "[SEP]"),  # so spelled by llama.cpp
    "mask": (("mask",), "[MASK]"),
}
"""Field of `SpecialTokens` -> the roles in the metadata, and the text of the token without one."""


def is_lost(letter: str) -> bool:
    """Return whether llama.cpp loses a character, or a part of it, when it strips accents: marks
    that are no accents, as the vowel signs of Hindi and Thai, and all but the first letter of a
    syllable of Korean."""
    is_korean = "HANGUL" in unicodedata.name(letter, "")
    return is_korean or unicodedata.category(letter) in ("Mn", "Mc", "Me")


def word_pieces(
    package: Any, content: Mapping[str, Any], tokenizer: EncoderTokenizer, size: int
) -> dict[str, object]:
    """Return a tokenizer as GGUF has it: the function of its writer, or a key -> the value.

    content: of tokenizer.json. size: that of the model's vocabulary. Raises UsageError for a
    tokenizer that llama.cpp does not have.
    """
    lowers, strips = _normalizer(content)
    special, unknown = tokenizer.special_tokens, tokenizer.unknown
    if unknown is None or special.between != 1:
        _refuse("has no unknown token, or two separators between two texts")
    kinds, own = package.TokenType, {token["id"]: token for token in content["added_tokens"]}
    vocabulary = {i: name for name, i in content["model"]["vocab"].items()}
    vocabulary |= {i: token["content"] for i, token in own.items()}
    names, types = [], []
    for i in range(size):
        name = vocabulary.get(i)
        if name is None:
            names.append(f"<unused {i}>")
            types.append(int(kinds.UNUSED))
        elif i in own or i == unknown:
            is_special = i == unknown or own[i]["special"]
            names.append(name)
            types.append(int(kinds.CONTROL if is_special else kinds.USER_DEFINED))
        else:
            continues = name.startswith(CONTINUES) and name != CONTINUES
            names.append(name.removeprefix(CONTINUES) if continues else WHITESPACE + name)
            types.append(int(kinds.NORMAL))
    if len({*names}) < len(names):
        _refuse("has tokens that llama.cpp cannot distinguish")
    lost = sum(any(map(is_lost, name)) for name in names) / len(names)
    if strips and lost > MOST:
        _refuse(
            f"strips accents, and {lost:.1%} of its tokens have letters of Korean or marks that "
            "are no accents, such as the vowel signs of Hindi; llama.cpp strips these, too"
        )
    return {
        "add_tokenizer_model": "bert",
        "add_tokenizer_pre": "default",
        "add_token_list": names,
        "add_token_types": types,
        "add_token_type_count": 2,
        "add_bos_token_id": special.start,
        "add_eos_token_id": special.end,
        "add_sep_token_id": special.end,
        "add_pad_token_id": special.pad,
        "add_mask_token_id": special.mask,
        "add_unk_token_id": unknown,
        LOWERS: lowers,
        STRIPS: strips,
    }


def strips_accents(content: Mapping[str, Any]) -> bool:
    """Return whether the tokenizer of a tokenizer.json strips accents, as llama.cpp has it."""
    return _normalizer(content)[1]


def _normalizer(content: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether a tokenizer lowers texts and whether it strips accents. Raises UsageError if
    it is another one than BERT's."""
    model, normalizer = content["model"], content.get("normalizer") or {}
    if model["type"] != "WordPiece" or model["continuing_subword_prefix"] != CONTINUES:
        _refuse(f"is a {model['type']} model")
    splitter = (content.get("pre_tokenizer") or {}).get("type")
    kept = [normalizer.get(name) for name in ("clean_text", "handle_chinese_chars")]
    if (
        normalizer.get("type") != "BertNormalizer"
        or splitter != "BertPreTokenizer"
        or not all(kept)
    ):
        _refuse(f"changes or splits texts by {json.dumps(normalizer)[:200]}, {splitter}")
    lowers, strips = bool(normalizer["lowercase"]), normalizer["strip_accents"]
    return lowers, lowers if strips is None else bool(strips)


def _refuse(what: str) -> NoReturn:
    raise UsageError(
        f"this tokenizer cannot be represented in a GGUF file: it {what}",
        hint="the tokenizer of encoders that llama.cpp has is the WordPiece of BERT",
    )


def read_word_pieces(
    given: Mapping[str, Any], names: Sequence[str], types: Sequence[int], where: str
) -> EncoderTokenizer:
    """Return the tokenizer of an encoder's file.

    given: the metadata of the tokenizer, without their prefix. names, types: of the tokens. Raises
    DataError for a special token that is missing.
    """
    texts = {
        i: name.removeprefix(WHITESPACE) if name.startswith(WHITESPACE) else CONTINUES + name
        for i, name in enumerate(names)
    }
    ids = {name: i for i, name in enumerate(names)}
    texts |= {i: names[i] for i, kind in enumerate(types) if kind != NORMAL}
    special = {
        field: _role(given, roles, ids.get(text), len(names), where)
        for field, (roles, text) in ROLES.items()
    }
    unknown = _role(given, ("unknown",), ids.get("[UNK]"), len(names), where)
    texts |= {i: names[i] for i in (*special.values(), unknown)}
    vocabulary = {text: i for i, text in texts.items()}
    engine = tokenizers.Tokenizer(
        models.WordPiece(
            vocabulary, unk_token=texts[unknown], max_input_chars_per_word=LONGEST_WORD
        )
    )
    lowers, strips = (given.get(f"normalizer.{name}", True) for name in _NORMALIZER)
    engine.normalizer = normalizers.BertNormalizer(lowercase=lowers, strip_accents=strips)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix=CONTINUES)
    engine.add_special_tokens([texts[unknown]])
    return EncoderTokenizer(engine, SpecialTokens(**special))


_NORMALIZER = ("lowercase", "strip_accents")


def _role(
    given: Mapping[str, Any], roles: Sequence[str], default: int | None, size: int, where: str
) -> int:
    """Return the id of a special token: that of the first of its roles in the metadata."""
    values = [given[f"{role}_token_id"] for role in roles if f"{role}_token_id" in given]
    value = values[0] if values else default
    if type(value) is not int or not 0 <= value < size:
        raise DataError(
            f"tokenizer.ggml.{roles[0]}_token_id={str(value)[:80]}: must be the id of a token",
            where,
        )
    return value
