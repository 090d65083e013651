"""The tokenizer of a model as llama.cpp has it, in the metadata of a GGUF file."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from headway.base.errors import DataError, UsageError
from headway.base.files import read_json
from headway.interop.gguf_wordpiece import read_word_pieces, word_pieces
from headway.interop.hf_export import TOKENIZER_FILE, prefix_ids
from headway.interop.llama2c import merging_by_score
from headway.text import CharacterTokenizer, EncoderTokenizer, PretrainedTokenizer, TextTokenizer
from headway.text.byte_level import EOS
from headway.text.sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED
from headway.text.sentencepiece import SPACE as WHITESPACE

PREFIX = "tokenizer.ggml."
BYTE_NAME = re.compile("<0x[0-9A-F]{2}>")
LEADING_SPACE = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": WHITESPACE},
        {"type": "Replace", "pattern": {"String": " "}, "content": WHITESPACE},
    ],
}
"""What Llama's SentencePiece does with a text, in tokenizer.json."""
TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>")
"""Tokens that end the turn of a chat, and so an output, as in llama.cpp."""

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_LETTERS}|\p{{N}}{{1,3}}{_REST}"
_DIGIT = r"\p{N}"
_THREE_DIGITS = "[0-9][0-9][0-9]"

_SPLITS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mpt"), (_GPT2,)),
    **dict.fromkeys(("llama-bpe", "dbrx", "smaug-bpe"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "stablelm2"), (rf"{_LETTERS}|{_DIGIT}{_REST}",)),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r"), (_DIGIT, _GPT2)),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, _THREE_DIGITS),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", _THREE_DIGITS),
}
"""llama.cpp's name of how a byte-level BPE splits a text into words -> the expressions; each splits
the parts that the one before it left."""


def vocabulary(
    package: Any, hugging_face: Path, tokenizer: TextTokenizer | EncoderTokenizer, size: int
) -> dict[str, object]:
    """Return the tokenizer as GGUF has it: the function of its writer, or a key -> the value.

    Raises UsageError for a tokenizer that llama.cpp does not have.
    """
    content = read_json(hugging_face / TOKENIZER_FILE)
    assert isinstance(content, dict)
    if isinstance(tokenizer, EncoderTokenizer):
        return word_pieces(package, content, tokenizer, size)
    kinds = package.TokenType
    engine = PretrainedTokenizer.engine_of(content, str(hugging_face))
    added = {
        token["id"]: kinds.CONTROL if token["special"] else kinds.USER_DEFINED
        for token in content["added_tokens"]
    }
    names, types = [], []
    for i in range(size):
        name = engine.id_to_token(i)
        names.append(f"<unused {i}>" if name is None else name)
        types.append(int(kinds.UNUSED if name is None else added.get(i, kinds.NORMAL)))
    prefix = prefix_ids(tokenizer)
    if prefix not in ([], [tokenizer.bos]):
        _refuse(f"begins a text with the tokens {prefix}")
    shared: dict[str, object] = {
        "add_token_types": types,
        "add_bos_token_id": tokenizer.bos,
        "add_eos_token_id": tokenizer.eos,
        "add_add_bos_token": bool(prefix),
        "add_add_eos_token": False,
        "add_add_space_prefix": False,
    }
    model = content["model"]
    if model["type"] == "BPE" and content.get("normalizer") == LEADING_SPACE:
        return shared | _scores(model, names, types)
    if model["type"] != "BPE" or content.get("normalizer") is not None:
        _refuse(f"is a {model['type']} model or changes texts before it splits them")
    if content.get("pre_tokenizer") is None:
        return shared | _characters(model, names, types)
    return shared | {
        "add_tokenizer_model": "gpt2",
        "add_tokenizer_pre": _split(content["pre_tokenizer"]),
        "add_token_list": names,
        "add_token_merges": [m if isinstance(m, str) else " ".join(m) for m in model["merges"]],
    }


def _characters(
    model: Mapping[str, Any], names: Sequence[str], types: Sequence[int]
) -> dict[str, object]:
    """Single characters are a SentencePiece model whose pieces are never merged."""
    if model["merges"]:
        _refuse("merges characters without splitting the text into words first")
    return {
        "add_tokenizer_model": "llama",
        "add_tokenizer_pre": "default",
        "add_token_list": [name.replace(" ", WHITESPACE) for name in names],
        "add_token_scores": [0.0] * len(names),
        "add_remove_extra_whitespaces": False,
    }


def _scores(
    model: Mapping[str, Any], names: Sequence[str], types: Sequence[int]
) -> dict[str, object]:
    """Llama's SentencePiece: the score of a token is the negative rank of the merge into it."""
    ranks: dict[str, int] = {}
    for rank, merge in enumerate(model["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        ranks.setdefault(left + right, rank)
    special = [
        BYTE if BYTE_NAME.fullmatch(name) else UNKNOWN if name == model["unk_token"] else kind
        for name, kind in zip(names, types, strict=True)
    ]
    return {
        "add_tokenizer_model": "llama",
        "add_tokenizer_pre": "default",
        "add_token_list": list(names),
        "add_token_types": special,
        "add_token_scores": [-float(ranks.get(name, len(ranks))) for name in names],
        "add_add_space_prefix": True,
        "add_remove_extra_whitespaces": False,
    }


def _split(splitter: Mapping[str, Any]) -> str:
    """Return llama.cpp's name of the way in which the tokenizer splits a text into words."""
    *before, last = splitter.get("pretokenizers", [splitter])
    patterns = [_pattern(part) for part in before]
    if last["type"] == "ByteLevel" and not last["add_prefix_space"]:
        patterns += [_GPT2] if last["use_regex"] else []
        for name, known in _SPLITS.items():
            if list(known) == patterns:
                return name
    _refuse(f"splits texts into words by {json.dumps(splitter)[:200]}")


def _pattern(part: Mapping[str, Any]) -> str | None:
    """Return the expression by which a part of a tokenizer splits; None for other parts."""
    if part["type"] == "Digits":
        return _DIGIT if part["individual_digits"] else None
    is_plain = part["type"] == "Split" and part["behavior"] == "Isolated" and not part["invert"]
    return part["pattern"].get("Regex") if is_plain else None


def _refuse(what: str) -> NoReturn:
    raise UsageError(
        f"this tokenizer cannot be represented in a GGUF file: it {what}",
        hint="llama.cpp has byte-level BPE, split as by GPT-2, Llama 3, Qwen 2, SmolLM or Falcon, "
        "Llama 2's SentencePiece, and characters",
    )


def read_vocabulary(
    metadata: Mapping[str, Any], where: str
) -> CharacterTokenizer | PretrainedTokenizer | EncoderTokenizer:
    """Return the tokenizer of the metadata of a GGUF file.

    Raises DataError for a kind of tokenizer that Headway does not have.
    """
    given = {k[len(PREFIX) :]: v for k, v in metadata.items() if k.startswith(PREFIX)}
    names, types = given.get("tokens"), given.get("token_type")
    if not isinstance(names, list) or not isinstance(types, list) or len(types) != len(names):
        raise DataError(f"{PREFIX}tokens and {PREFIX}token_type must be lists of one length", where)
    kind = given.get("model")
    if kind == "gpt2":
        engine = _byte_level(given, names, where)
    elif kind == "bert":
        return read_word_pieces(given, names, types, where)
    elif kind == "llama":
        alphabet = [name.replace(WHITESPACE, " ") for name in names[1:]]
        if names[0] == EOS and all(len(name) == 1 for name in alphabet):
            return CharacterTokenizer("".join(alphabet))
        engine = _scored(given, names, types, where)
    else:
        raise DataError(f"{PREFIX}model={str(kind)[:80]!r} must be gpt2, llama or bert", where)
    for name, type_ in zip(names, types, strict=True):
        if type_ == USER_DEFINED:
            engine.add_tokens([tokenizers.AddedToken(name, normalized=False)])
        elif type_ in (UNKNOWN, CONTROL):
            engine.add_special_tokens([tokenizers.AddedToken(name, special=True)])
    bos, eos = (_role(given, role, len(names), where) for role in ("bos", "eos"))
    bos, eos = bos if bos is not None else eos, eos if eos is not None else bos
    if bos is None or eos is None:
        raise DataError(f"the metadata has neither {PREFIX}bos_token_id nor eos_token_id", where)
    if given.get("add_bos_token", kind == "llama"):
        engine.post_processor = processors.TemplateProcessing(
            single=[names[bos], "$A"], special_tokens=[(names[bos], bos)]
        )
    turn_ends = [i for i, name in enumerate(names) if name in TURN_ENDS and types[i] == CONTROL]
    end_of_turn = _role(given, "eot", len(names), where)
    ends = turn_ends if end_of_turn is None else [end_of_turn, *turn_ends]
    return PretrainedTokenizer(engine, bos, eos, ends)


def _role(given: Mapping[str, Any], role: str, size: int, where: str) -> int | None:
    """Return the id of a special token; None if the file names none."""
    value = given.get(f"{role}_token_id")
    if value is not None and (type(value) is not int or not 0 <= value < size):
        raise DataError(
            f"{PREFIX}{role}_token_id={str(value)[:80]}: must be the id of a token", where
        )
    return value


def _byte_level(given: Mapping[str, Any], names: Sequence[str], where: str) -> tokenizers.Tokenizer:
    """Return the engine of a byte-level BPE."""
    split = given.get("pre", "default")
    if split not in list(_SPLITS):  # a list: the value may not be hashable
        raise DataError(
            f"{PREFIX}pre={str(split)[:80]!r} is not supported; supported: {', '.join(_SPLITS)}",
            where,
        )
    merges = [tuple(merge.split(" ")) for merge in given.get("merges", [])]
    engine = tokenizers.Tokenizer(
        models.BPE(
            vocab={name: i for i, name in enumerate(names)},
            merges=merges,
            ignore_merges=split == "llama-bpe",
        )
    )
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(tokenizers.Regex(p), "isolated") for p in _SPLITS[split]),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.decoder = decoders.ByteLevel()
    return engine


def _scored(
    given: Mapping[str, Any], names: Sequence[str], types: Sequence[int], where: str
) -> tokenizers.Tokenizer:
    """Return the engine of Llama's SentencePiece."""
    scores = given.get("scores")
    if not isinstance(scores, list) or len(scores) != len(names):
        raise DataError(f"{PREFIX}scores must be a list with a score for each token", where)
    special = {n for n, kind in zip(names, types, strict=True) if kind not in (NORMAL, BYTE)}
    unknown = next((n for n, kind in zip(names, types, strict=True) if kind == UNKNOWN), None)
    space = bool(given.get("add_space_prefix", True))
    return merging_by_score(names, scores, special, unknown, where, space=space)
