"""Tokenizers that others trained: any `tokenizer.json` of the Hugging Face form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from headway.errors import DataError
from headway.files import read_json, write_file
from headway.text.bpe import checked

FORMAT = "headway foreign 1"
FILE = "tokenizer.json"
FILE_LIMIT = 256 * 2**20
LARGEST_ID = 2**24
WORD_STARTS = ("\u0120", "\u2581")  # a space, as byte-level BPE and SentencePiece write it
WORD_ENDS = "</w>"


class ForeignTokenizer:
    """A tokenizer as the `tokenizers` library runs it, with the ids that begin and end a text.

    What it does to text (Llama's puts a space first, BERT's lower-cases) is as it was trained;
    decode(encode(text)) need not be text then. Text that spells a special token never becomes one.
    A `TextTokenizer`.
    """

    def __init__(self, engine: tokenizers.Tokenizer, bos: int, eos: int) -> None:
        # The JSON does not keep this answer: without it a text could spell the end of texts.
        engine.encode_special_tokens = True
        self.size: int = 1 + max(engine.get_vocab().values(), default=-1)  # some leave ids out
        for name, token in (("bos", bos), ("eos", eos)):
            piece = engine.id_to_token(token) if 0 <= token < self.size else None
            if piece is None:
                raise DataError(f"{name}={token} is outside the vocabulary of {self.size}")
            added = engine.get_added_tokens_decoder().get(token)
            if added is None or not added.special:
                engine.add_special_tokens([tokenizers.AddedToken(piece, special=True)])
        self._engine = engine
        self.bos, self.eos = bos, eos

    @classmethod
    def of_json(cls, content: Any, bos: int, eos: int, where: str) -> ForeignTokenizer:
        """From the value of a Hugging Face `tokenizer.json`. DataError if it is none."""
        return cls(cls.engine_of(content, where), bos, eos)

    @staticmethod
    def engine_of(content: Any, where: str) -> tokenizers.Tokenizer:
        """What runs such a value, without padding and truncation. DataError if it is none."""
        try:
            engine = tokenizers.Tokenizer.from_str(json.dumps(content))
            engine.no_padding()
            engine.no_truncation()
            highest = max(engine.get_vocab().values(), default=-1)
            ids = engine.encode("a b").ids
            engine.decode(ids)  # some faults show only here
        except BaseException as error:
            # The engine raises bare Exception for a fault in a file, and for some it panics,
            # which is no Exception and has no class that could be imported.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise DataError(f"not a usable tokenizer: {error}", where) from error
        for i in (highest, *ids):
            if not i <= min(highest, LARGEST_ID):
                raise DataError(f"not a usable tokenizer: the id {i} makes no sense", where)
        return engine

    def encode(self, text: str) -> list[int]:
        return list(self._engine.encode(checked(text), add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        clean = [checked(text) for text in texts]
        found = self._engine.encode_batch_fast(clean, add_special_tokens=False)
        return [list(encoding.ids) for encoding in found]

    def begin(self, text: str) -> list[int]:
        """Ids of `text` with what its makers put before it; `bos` alone for an empty one."""
        ids = list(self._engine.encode(checked(text)).ids)
        while len(ids) > 1 and ids[-1] == self.eos:  # some end every text, and this one goes on
            ids.pop()
        return ids or [self.bos]

    def decode(self, ids: Iterable[int]) -> str:
        known = self._known(ids)
        return str(self._engine.decode(known, skip_special_tokens=True))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [str(self._engine.decode([i], skip_special_tokens=False)) for i in self._known(ids)]

    def begins_word(self, ids: Sequence[int]) -> list[bool]:
        """Whether each piece begins a word, by the mark of a space before it or, as GPT-1's, by the
        mark of a word's end on the piece that comes earlier."""
        names = [str(self._engine.id_to_token(i)) for i in self._known(ids)]
        ended = [False, *(name.endswith(WORD_ENDS) for name in names)]
        return [
            end or name.startswith(WORD_STARTS) for name, end in zip(names, ended, strict=False)
        ]

    def _known(self, ids: Iterable[int]) -> list[int]:
        known = [int(i) for i in ids]
        for i in known:
            if not 0 <= i < self.size:
                raise DataError(f"token id {i} is outside the vocabulary of {self.size} pieces")
        return known

    @property
    def engine_json(self) -> dict[str, Any]:
        """The tokenizer in the Hugging Face form."""
        content: dict[str, Any] = json.loads(self._engine.to_str())
        return content

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self._json()).hexdigest()

    def _json(self) -> bytes:
        facts = {
            "format": FORMAT,
            "bos": self.bos,
            "eos": self.eos,
            "tokenizer": self.engine_json,
        }
        return (json.dumps(facts, ensure_ascii=False) + "\n").encode()

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`, ours around theirs."""
        write_file(folder / FILE, self._json())

    @classmethod
    def load(cls, path: Path) -> ForeignTokenizer:
        """Read what `save` wrote; DataError if it is not that."""
        facts = read_json(path, FILE_LIMIT)
        right = isinstance(facts, dict) and facts.get("format") == FORMAT
        if not right or any(type(facts.get(name)) is not int for name in ("bos", "eos")):
            raise DataError(f"not a tokenizer ({FORMAT})", str(path))
        return cls.of_json(facts.get("tokenizer"), facts["bos"], facts["eos"], str(path))
