"""Tokenizers of pretrained encoder-decoders (MarianMT, Pegasus, BART), one for each side."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import tokenizers

from headway.base.errors import DataError
from headway.base.files import read_json, write_file
from headway.text.byte_level import LANGUAGE_TAG, readable, sentinels_of
from headway.text.engine import EngineTokenizer, checked, file_of
from headway.text.hf_tokenizer import FILE_LIMIT, WORD_STARTS, PretrainedTokenizer
from headway.text.language_tokens import LanguageTokens, Roles, language_tokens_of
from headway.text.sentencepiece import engine_json, parse_sentencepiece
from headway.text.tokenizer import checked_ids

FORMAT = "headway sentences 1"
_TARGET_CODE = re.compile(r">>([A-Za-z0-9_@.-]+)<<")
"""A token for the target language in the vocabulary of a multilingual MarianMT."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")
ADDED_FLAGS = ("content", "lstrip", "rstrip", "single_word", "normalized", "special")
"""Attributes of an added token."""
_UNKNOWN = " \u2047 "  # as SentencePiece decodes an unknown character


class PretrainedSentenceTokenizer(EngineTokenizer):
    """A `SentenceTokenizer` around a tokenizer of the `tokenizers` library.

    names, sentencepiece: the token of each id and the contents of the SentencePiece model, if that
    splits texts into pieces whose ids in the model are other ones; None if the engine's ids are the
    model's. added: tokens that the files add to those of the SentencePiece model; no text contains
    the special ones. languages: the tokens of the languages of a multilingual model; None for
    others. language: the language of the texts, one of these; None if none is chosen. Text that
    looks like a special token is never encoded as that token, except a code of the target language
    (">>fra<< a cat") at its beginning.
    """

    def __init__(
        self,
        engine: tokenizers.Tokenizer,
        roles: Roles,
        names: Sequence[str] | None = None,
        sentencepiece: bytes | None = None,
        languages: LanguageTokens | None = None,
        language: str | None = None,
        added: Sequence[tokenizers.AddedToken] = (),
    ) -> None:
        self.added = tuple(added)
        engine.add_tokens([token for token in added if not token.special])
        super().__init__(engine)
        self.languages, self.language = languages, language
        self.roles, self.sentencepiece = roles, sentencepiece
        self._names = names
        self.size = roles.size
        self.pad, self.bos, self.eos = roles.pad, roles.start, roles.end
        known = list(names or map(engine.id_to_token, range(engine.get_vocab_size())))
        known += [None] * (self.size - len(known))  # the model's vocabulary may be larger
        self._tokens = [name or f"<unused {i}>" for i, name in enumerate(known[: self.size])]
        self._ids = {name: index for index, name in enumerate(self._tokens)}
        numbers = {roles.pad, roles.start, *self.ends, *roles.prefix, *roles.suffix}
        numbers |= set() if languages is None else {languages.end, *languages.ids.values()}
        for number in numbers:
            if not 0 <= number < self.size:
                raise DataError(f"special token {number} is not an id from 0 to {self.size - 1}")
        if self._names is None:
            known_tokens = engine.get_added_tokens_decoder()
            numbers |= {index for index, token in known_tokens.items() if token.special}
        numbers |= {self._ids[token.content] for token in added if token.special}
        self.language_tags = {
            code[1]: index for name, index in self._ids.items() if (code := _code(name))
        }
        numbers |= set(self.language_tags.values())
        self.sentinels = sentinels_of(self._ids)
        self.special_ids = {self._tokens[i]: i for i in sorted(numbers) if i < self.size}
        self._specials = frozenset(self.special_ids.values())
        self._plain_ids = {
            name: index for name, index in self._ids.items() if index not in self._specials
        }

    def of_source(self, language: str) -> PretrainedSentenceTokenizer:
        """Return the tokenizer of sources in a language. Raises UsageError for an unknown one."""
        return self._changed(self._languages().source_roles(self.roles, language), language)

    def of_target(self, language: str) -> PretrainedSentenceTokenizer:
        """Return the tokenizer of targets in a language. Raises UsageError for an unknown one."""
        return self._changed(self._languages().target_roles(self.roles, language), language)

    def _languages(self) -> LanguageTokens:
        if self.languages is None:
            raise ValueError("the tokenizer has no tokens of languages")
        return self.languages

    def _changed(self, roles: Roles, language: str) -> PretrainedSentenceTokenizer:
        """Return a tokenizer with other roles; everything else is shared."""
        changed = copy(self)
        changed.__dict__.pop("fingerprint", None)
        changed.roles, changed.language = roles, language
        changed.pad, changed.bos, changed.eos = roles.pad, roles.start, roles.end
        return changed

    @classmethod
    def of_sentencepiece(
        cls,
        content: bytes,
        roles: Roles,
        names: Sequence[str],
        where: str,
        languages: LanguageTokens | None = None,
        language: str | None = None,
        added: Sequence[tokenizers.AddedToken] = (),
    ) -> PretrainedSentenceTokenizer:
        """Make a tokenizer from the contents of a SentencePiece model, which `where` names.

        Raises DataError for a damaged one.
        """
        parsed = engine_json(parse_sentencepiece(content, where))
        engine = PretrainedTokenizer.engine_of(parsed, where)
        return cls(engine, roles, names, content, languages, language, added)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The token of each id, as the other library names it."""
        return tuple(self._tokens)

    @property
    def prefix(self) -> tuple[int, ...]:
        return self.roles.prefix

    @property
    def ends(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys((self.roles.end, *self.roles.ends)))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        parts = [self._without_tag(text) for text in texts]
        encodings = self._engine.encode_batch(
            [checked(words) for _, words in parts], add_special_tokens=False
        )
        return [
            self._with_prefix(tags, encoding)
            for (tags, _), encoding in zip(parts, encodings, strict=True)
        ]

    def _with_prefix(self, tags: list[int], encoding: tokenizers.Encoding) -> list[int]:
        if self._names is None:
            return [*self.prefix, *tags, *encoding.ids, *self.roles.suffix]
        unknown = self.roles.unknown
        # the token of an unknown character is its text, which the other side's model may have; that
        # of an added token may have spaces around it
        ids = [self._plain_ids.get(token.strip(" "), unknown) for token in encoding.tokens]
        known = [i for i in ids if i is not None]
        return [*self.prefix, *tags, *known, *self.roles.suffix]

    def _without_tag(self, text: str) -> tuple[list[int], str]:
        """Return the id of the language that a text begins with, as >>fra<< or <2fra>, and the
        rest."""
        for pattern in (_TARGET_CODE, LANGUAGE_TAG) if self.language_tags else ():
            code = pattern.match(text)
            if code is not None and code[1] in self.language_tags:
                return [self.language_tags[code[1]]], text[code.end() :].removeprefix(" ")
        return [], text

    def decode(self, ids: Iterable[int]) -> str:
        kept = [i for i in checked_ids(ids, self.size) if i not in self._specials]
        # the space of an unknown token is part of it, not one added before the text
        begins = not kept or self._names is None or kept[0] != self.roles.unknown
        return self._text(kept).removeprefix(" " if begins else "")

    def _text(self, ids: Sequence[int]) -> str:
        if self._names is None:
            return str(self._engine.decode(list(ids), skip_special_tokens=False))
        return readable(b"".join(map(self._bytes, ids)))

    def _bytes(self, index: int) -> bytes:
        if index == self.roles.unknown:
            return _UNKNOWN.encode()
        name = self._tokens[index]
        byte = _BYTE.fullmatch(name)
        return bytes([int(byte[1], 16)]) if byte else name.replace(WORD_STARTS[1], " ").encode()

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        return [self._string(i) for i in checked_ids(ids, self.size)]

    def _string(self, index: int) -> str:
        name = self._tokens[index]
        if index in self._specials:
            return name
        if self._names is not None:
            return name.replace(WORD_STARTS[1], " ")
        text = str(self._engine.decode([index], skip_special_tokens=False))
        text = text or name.replace(WORD_STARTS[1], " ")  # the decoder removes a lone space
        return f" {text}" if name.startswith(WORD_STARTS) and not text.startswith(" ") else text

    def words(self, ids: Iterable[int]) -> list[tuple[str, list[int]]]:
        known = checked_ids(ids, self.size)
        groups: list[list[int]] = []
        after_special = True
        for position, index in enumerate(known):
            special = index in self._specials
            if special or after_special or self._tokens[index].startswith(WORD_STARTS):
                groups.append([position])
            else:
                groups[-1].append(position)
            after_special = special
        return [("".join(self._string(known[p]) for p in group).strip(), group) for group in groups]

    def _json(self) -> bytes:
        roles = self.roles
        content = {
            "format": FORMAT,
            "roles": {
                "pad": roles.pad,
                "start": roles.start,
                "end": roles.end,
                "unknown": roles.unknown,
                "prefix": list(roles.prefix),
                **({"suffix": list(roles.suffix)} if roles.suffix else {}),
                **({"ends": list(roles.ends)} if roles.ends else {}),
                "size": roles.size,
            },
            "names": self._names,
            **self._stored_languages(),
            **self._stored(),
        }
        return file_of(content)

    def _stored(self) -> dict[str, object]:
        """Return what the engine is made from again."""
        if self.sentencepiece is None:
            return {"tokenizer": self.engine_json}
        stored: dict[str, object] = {"sentencepiece": base64.b64encode(self.sentencepiece).decode()}
        if self.added:
            flags = [{name: getattr(token, name) for name in ADDED_FLAGS} for token in self.added]
            stored["added"] = flags
        return stored

    def _stored_languages(self) -> dict[str, object]:
        if self.languages is None:
            return {}
        return {"languages": self.languages.as_dict(), "language": self.language}

    def save(self, path: Path) -> None:
        """Write the tokenizer durably as one JSON file: the engine, roles and names."""
        write_file(path, self._json())

    @classmethod
    def load(cls, path: Path) -> PretrainedSentenceTokenizer:
        """Read a file that `save` wrote. Raises DataError for another file."""
        content = read_json(path, FILE_LIMIT)
        content = content if is_format(content) else {}
        roles = _roles_of(content.get("roles"))
        names: Any = content.get("names")
        languages, language = None, content.get("language")
        if roles is not None and "languages" in content:
            languages = language_tokens_of(content["languages"], roles.size)
            known = {} if languages is None else languages.ids
            roles = roles if language is None or language in list(known) else None
            roles = None if languages is None else roles
        if roles is None or not _valid_names(names):
            raise DataError(
                f"the file is not a tokenizer of format {FORMAT!r}",
                str(path),
                "give the folder of a translator that headway saved",
            )
        try:
            if names is not None:
                packed = str(content.get("sentencepiece", "")).encode()
                added = _added_of(content.get("added", []))
                return cls.of_sentencepiece(
                    base64.b64decode(packed), roles, names, str(path), languages, language, added
                )
            engine = PretrainedTokenizer.engine_of(content.get("tokenizer"), str(path))
            return cls(engine, roles, languages=languages, language=language)
        except ValueError as error:
            why = f"the SentencePiece model or its added tokens are damaged: {error}"
            raise DataError(why, str(path)) from error
        except DataError as error:
            raise DataError(error.what, str(path), error.hint) from error


def _added_of(content: object) -> list[tokenizers.AddedToken]:
    """Read the added tokens of a file. Raises ValueError if they are not valid."""
    items: list[Any] = content if isinstance(content, list) else [None]
    for item in items:
        valid = isinstance(item, dict) and list(item) == list(ADDED_FLAGS)
        if not valid or not isinstance(item["content"], str):
            raise ValueError("the added tokens are damaged")
    return [tokenizers.AddedToken(**item) for item in items]


def is_format(content: object) -> bool:
    """Return whether the parsed JSON of a tokenizer file is of this format."""
    return isinstance(content, dict) and content.get("format") == FORMAT


def _code(name: str) -> re.Match[str] | None:
    return _TARGET_CODE.fullmatch(name) or LANGUAGE_TAG.fullmatch(name)


def _roles_of(content: object) -> Roles | None:
    """Read the roles of a file; None if they are not valid."""
    roles = {"suffix": [], "ends": [], **content} if isinstance(content, dict) else {}
    if roles.keys() != Roles.__dataclass_fields__.keys():
        return None
    numbers = [roles[name] for name in ("pad", "start", "end", "size")]
    numbers += [] if roles["unknown"] is None else [roles["unknown"]]
    for side in ("prefix", "suffix", "ends"):
        numbers += roles[side] if isinstance(roles[side], list) else [None]
    if not all(type(number) is int and 0 <= number <= 2**24 for number in numbers):
        return None
    lists = {side: tuple(roles[side]) for side in ("prefix", "suffix", "ends")}
    return Roles(**{**roles, **lists})


def _valid_names(names: object) -> bool:
    return names is None or (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    )
