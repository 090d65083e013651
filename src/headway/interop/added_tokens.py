"""Tokens that the files of a Hugging Face folder add to those of the vocabulary.

`tokenizer_config.json` declares them in added_tokens_decoder, by id, with their flags; folders of
older versions have `added_tokens.json` instead, by text. Special tokens that are only named, in one
of `NAMES_FILES`, are added, too. The order and the flags are those of transformers.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tokenizers

from headway.base.errors import DataError, HeadwayWarning
from headway.interop.named_tokens import (
    CONFIG_FILE,
    DECLARED,
    NAMES,
    named_values,
    read_json_object,
    text_of,
)
from headway.text import PretrainedSentenceTokenizer, PretrainedTokenizer
from headway.text.hf_tokenizer import LARGEST_ID

ADDED_FILE = "added_tokens.json"
EXTRA = ("extra_special_tokens", "additional_special_tokens")
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")
LARGEST_GAP = 2**16
"""Maximum number of ids without a token below the highest one."""


@dataclass(frozen=True)
class DeclaredToken:
    """A token that a file adds.

    id: None if the file only names the token. where: the file. key: where in the file it is. flags:
    arguments of `tokenizers.AddedToken`. is_named: whether it is a special token by its name.
    """

    text: str
    id: int | None
    where: Path
    key: str
    flags: Mapping[str, bool] = field(default_factory=dict)
    is_named: bool = False

    def engine_token(self, **flags: bool) -> tokenizers.AddedToken:
        """Return the token with its flags, and with further ones."""
        return tokenizers.AddedToken(self.text, **{**self.flags, **flags})


def declared_tokens(folder: Path) -> list[DeclaredToken]:
    """Return the tokens that the files of a folder add, those with ids first, in their order.

    Raises DataError for damaged files.
    """
    values = named_values(folder)
    named = _named_tokens(values)
    special_texts = {token.text for token in named}
    tokens = _with_ids(folder, special_texts)
    texts = {token.text for token in tokens}
    for token in named:
        if token.text not in texts:
            tokens.append(token)
            texts.add(token.text)
    return tokens


def _with_ids(folder: Path, special_texts: set[str]) -> list[DeclaredToken]:
    """Return the tokens that files have with their ids, in the order of the ids."""
    path, older = folder / CONFIG_FILE, folder / ADDED_FILE
    declared = read_json_object(path).get(DECLARED)
    by_text = read_json_object(older)
    if declared is None:
        tokens = [
            _token(
                text,
                older,
                repr(text),
                _id(number, older, repr(text)),
                {"special": text in special_texts, "normalized": text not in special_texts},
            )
            for text, number in by_text.items()
        ]
    elif not isinstance(declared, dict):
        raise DataError(f"{DECLARED} must be an object of ids and tokens", str(path))
    else:
        tokens = [
            _token(value, path, f"{DECLARED}[{number}]", _id(number, path, DECLARED))
            for number, value in declared.items()
        ]
        unused = [text for text in by_text if text not in {token.text for token in tokens}]
        if unused:
            warnings.warn(
                f"{older}: {len(unused):,} tokens, such as {unused[0]!r}, are ignored: {DECLARED} "
                f"of {CONFIG_FILE} has precedence, and lacks them",
                HeadwayWarning,
                stacklevel=2,
            )
    tokens = [replace(token, is_named=token.text in special_texts) for token in tokens]
    return sorted(tokens, key=lambda token: token.id or 0)


def _id(value: object, path: Path, key: str) -> int:
    """Return the id of a token, which is a number, or its digits as the name of a field."""
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if type(number) is not int or not 0 <= number <= LARGEST_ID:
        raise DataError(
            f"{key}: the id of a token must be a whole number from 0 to {LARGEST_ID:,}, found "
            f"{str(value)[:80]}",
            str(path),
        )
    return number


def _token(
    value: Any,
    path: Path,
    key: str,
    number: int | None = None,
    defaults: Mapping[str, bool] | None = None,
) -> DeclaredToken:
    """Return the token that a file has as a text, or as an object with the text and flags."""
    text = text_of(value)
    flags = {name: value[name] for name in FLAGS if name in value} if text is not value else {}
    if not isinstance(text, str) or not text:
        raise DataError(f"{key}={str(value)[:80]}: must be the text of a token", str(path))
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise DataError(f"{key}: {name} must be true or false, found {flag!r}", str(path))
    return DeclaredToken(text, number, path, key, {**flags, **(defaults or {})})


def _named_tokens(values: Mapping[str, tuple[object, Path]]) -> list[DeclaredToken]:
    """Return the special tokens that files name: the usual names, further ones, and a list."""
    further = [name for name in values if name.endswith("_token") and name not in NAMES]
    items: list[tuple[str, Any, Path]] = [
        (name, *values[name])
        for name in (*NAMES, *further)
        if name in values and isinstance(values[name][0], str | dict)
    ]
    for name in EXTRA:
        extra, path = values.get(name, (None, Path()))
        if not extra:
            continue
        if isinstance(extra, dict):
            items += [(f"{name}[{key!r}]", value, path) for key, value in extra.items()]
        elif isinstance(extra, list):
            items += [(f"{name}[{number}]", value, path) for number, value in enumerate(extra)]
        else:
            raise DataError(f"{name}={str(extra)[:80]}: must be a list of tokens", str(path))
        break
    return [_token(value, path, key, None, {"special": True}) for key, value, path in items]


def with_added_tokens(engine: tokenizers.Tokenizer, folder: Path) -> tokenizers.Tokenizer:
    """Return the engine with the tokens that the files of its folder add, with their ids.

    A token for which the model has no embedding is ignored, with a HeadwayWarning. Raises DataError
    for an id that is the id of another token.
    """
    declared = _embedded(engine, declared_tokens(folder), folder)
    vocabulary = engine.get_vocab()
    _check_ids(vocabulary, declared)
    before = str(engine.to_str())
    _add(engine, declared)
    if all(token.id == engine.token_to_id(token.text) for token in declared):
        return engine
    # the engine numbers added tokens itself, without gaps
    content = json.loads(before)
    pieces = content["model"]["vocab"]
    known = set(vocabulary.values()) if isinstance(pieces, dict) else set(range(len(pieces)))
    unused = _unused(known, declared)
    if isinstance(pieces, dict):
        highest = max(pieces.values(), default=-1)
        pieces |= {token.text: token.id for token in unused if (token.id or 0) < highest}
    engine = PretrainedTokenizer.engine_of(content, str(folder))
    _add(engine, sorted([*declared, *unused], key=lambda token: token.id or 0))
    _check_ids(engine.get_vocab(), declared)
    return engine


def with_declared_names(
    names: Sequence[str], folder: Path, vocabulary: int
) -> tuple[list[str], list[tokenizers.AddedToken]]:
    """Return the token of each id with those that the files of a folder add, and these tokens.

    names: the token of each id without them. vocabulary: number of tokens that the model has
    embeddings for; an added token beyond them is ignored, with a HeadwayWarning. Raises DataError
    for an id that is the id of another token.
    """
    every = {i: name for i, name in enumerate(names) if name != _unused_name(i)}
    ids = {name: i for i, name in every.items()}
    kept = []
    for token in declared_tokens(folder):
        following = 1 + max(every, default=-1)
        number = token.id if token.id is not None else ids.get(token.text, following)
        if number >= vocabulary:
            why = f"its id is {number:,}, and the model has embeddings for {vocabulary:,} tokens"
            _warn(token, why)
            continue
        placed = replace(token, id=number)
        _check_ids(ids, [placed])
        is_special = token.is_named or token.flags.get("special", False)
        if token.text not in ids or (token.id is not None and not is_special):
            kept.append(placed.engine_token(normalized=False, special=is_special))
            every[number] = token.text
            ids[token.text] = number
    size = 1 + max(every, default=-1)
    return [every.get(i, _unused_name(i)) for i in range(size)], kept


def _unused_name(number: int) -> str:
    return f"<unused {number}>"


def declared_in_config(tokenizer: PretrainedSentenceTokenizer) -> dict[str, object]:
    """Return the key of tokenizer_config.json with the tokens that a tokenizer adds to its model;
    nothing for one that adds none."""
    ids = {text: i for i, text in enumerate(tokenizer.tokens)}
    decoder = {
        str(ids[token.content]): {name: getattr(token, name) for name in ("content", *FLAGS)}
        for token in tokenizer.added
    }
    return {DECLARED: decoder} if decoder else {}


def _warn(token: DeclaredToken, why: str) -> None:
    text = f"{token.where}: {token.key}: {token.text!r} is ignored: {why}"
    warnings.warn(text, HeadwayWarning, stacklevel=4)


def _unused(known: set[int], declared: Sequence[DeclaredToken]) -> list[DeclaredToken]:
    """Return special tokens for the ids below the highest one that have no token.

    known: the ids of the vocabulary.
    """
    known = known | {token.id for token in declared if token.id is not None}
    last = max(declared, key=lambda token: token.id or 0)
    missing = [i for i in range(last.id or 0) if i not in known]
    if len(missing) > LARGEST_GAP:
        raise DataError(
            f"{last.key}: the id {last.id:,} is too large: {len(missing):,} ids below it have no "
            f"token; at most {LARGEST_GAP:,} are supported",
            str(last.where),
        )
    flags = {"special": True, "normalized": False}
    return [DeclaredToken(_unused_name(i), i, last.where, last.key, flags) for i in missing]


def _embedded(
    engine: tokenizers.Tokenizer, declared: list[DeclaredToken], folder: Path
) -> list[DeclaredToken]:
    """Return the tokens that the model has embeddings for, all with ids.

    A token that a file only names gets the next id, unless the vocabulary has it. Without a
    vocab_size in config.json it is not known whether there is room for another token.
    """
    config = read_json_object(folder / "config.json")
    decoder = config.get("decoder")
    size = config.get(
        "vocab_size", decoder.get("vocab_size") if isinstance(decoder, dict) else None
    )
    room = size if type(size) is int else None
    following = 1 + max(
        [*engine.get_vocab().values(), *(token.id for token in declared if token.id is not None)],
        default=-1,
    )
    kept = []
    for token in declared:
        number = token.id if token.id is not None else engine.token_to_id(token.text)
        is_new = number is None
        number = following if number is None else number
        if room is not None and number >= room:
            _warn(token, f"its id is {number:,}, and the model has embeddings for {room:,} tokens")
            continue
        if room is None and is_new:
            _warn(token, "the vocabulary lacks it")
            continue
        following += is_new
        kept.append(replace(token, id=number))
    return kept


def _add(engine: tokenizers.Tokenizer, declared: list[DeclaredToken]) -> None:
    """Add tokens that the engine lacks, or has with other flags than the file declares."""
    present = engine.get_added_tokens_decoder()
    known = {repr(token) for token in present.values()}
    texts = {token.content for token in present.values()}
    added = []
    for token in declared:
        has_other_flags = DECLARED in token.key and repr(token.engine_token()) not in known
        if token.text not in texts or has_other_flags:
            added.append(token.engine_token(**({"special": True} if token.is_named else {})))
    engine.add_tokens(added)


def _check_ids(vocabulary: Mapping[str, int], declared: Sequence[DeclaredToken]) -> None:
    """Raise DataError if a token has the id of another one, or its text has another id."""
    texts = {number: text for text, number in vocabulary.items()}
    for token in declared:
        number = vocabulary.get(token.text, token.id)
        other = texts.setdefault(token.id or 0, token.text)
        if number != token.id or other != token.text:
            same = f"{other!r} has this id" if other != token.text else f"its id is {number}"
            raise DataError(
                f"{token.key}: {token.text!r} has the id {token.id}, but in the vocabulary {same}",
                str(token.where),
                "download all files of the tokenizer again, in one version",
            )
