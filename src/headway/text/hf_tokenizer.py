"""Tokenizers of pretrained models: any `tokenizer.json` in the Hugging Face format."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import tokenizers

from headway.base.errors import DataError
from headway.base.files import read_json, write_file
from headway.text.engine import EngineTokenizer, checked, file_of
from headway.text.tokenizer import checked_ids

FORMAT = "headway foreign 1"
FILE = "tokenizer.json"
FILE_LIMIT = 256 * 2**20
LARGEST_ID = 2**24
WORD_STARTS = ("\u0120", "\u2581")  # the space character of byte-level BPE and of SentencePiece
WORD_ENDS = "</w>"


class PretrainedTokenizer(EngineTokenizer):
    """A `TextTokenizer` around a tokenizer of the `tokenizers` library, with the ids of the tokens
    that begin and end a text.

    The normalisation is that of the pretrained tokenizer (Llama's adds a leading space, BERT's
    converts to lower case), so decode(encode(text)) may differ from text. Text that looks like a
    special token is never encoded as that token.
    """

    def __init__(
        self, engine: tokenizers.Tokenizer, bos: int, eos: int, ends: Collection[int] = ()
    ) -> None:
        """ends: further tokens that end an output."""
        super().__init__(engine)
        self.size: int = 1 + max(engine.get_vocab().values(), default=-1)  # ids may have gaps
        self.ends = tuple(dict.fromkeys((eos, *ends)))
        for name, token in (("bos", bos), *(("eos", end) for end in self.ends)):
            string = engine.id_to_token(token) if 0 <= token < self.size else None
            if string is None:
                raise DataError(
                    f"{name} must be the id of a token, from 0 to {self.size - 1}, but is {token}"
                )
            added = engine.get_added_tokens_decoder().get(token)
            if added is None or not added.special:
                engine.add_special_tokens([tokenizers.AddedToken(string, special=True)])
        self._parsing: tokenizers.Tokenizer | None = None
        self._written: WrittenSpecialTokens | None = None
        self.bos, self.eos = bos, eos

    @classmethod
    def of_json(
        cls, content: object, bos: int, eos: int, where: str, ends: Collection[int] = ()
    ) -> PretrainedTokenizer:
        """Make a tokenizer from the parsed JSON of a Hugging Face `tokenizer.json`.

        where: name of the file for errors. ends: further tokens that end an output. Raises
        DataError if `content` is not a tokenizer.
        """
        return cls(cls.engine_of(content, where), bos, eos, ends)

    @staticmethod
    def engine_of(content: object, where: str) -> tokenizers.Tokenizer:
        """Build the engine of a parsed `tokenizer.json`, without padding and truncation.

        Raises DataError if `content` is not a tokenizer.
        """
        try:
            engine = tokenizers.Tokenizer.from_str(json.dumps(content))
            engine.no_padding()
            engine.no_truncation()
            highest = max(engine.get_vocab().values(), default=-1)
            ids = engine.encode("a b").ids
            engine.decode(ids)  # some faults occur only here
        except BaseException as error:
            # The engine raises bare Exception for most faults in a file. For some it panics: a
            # PanicException is not an Exception, and its class cannot be imported.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise DataError(
                f"the tokenizer cannot be loaded: {error}", where, "download the file again"
            ) from error
        for i in (highest, *ids):
            if not i <= min(highest, LARGEST_ID):
                raise DataError(
                    f"token ids must be at most {min(highest, LARGEST_ID)}, but one is {i}",
                    where,
                    "download the tokenizer file again",
                )
        return engine

    def begin(self, text: str) -> list[int]:
        """Return the ids of `text` with the special tokens that the pretrained tokenizer adds
        before it; [`bos`] for an empty text."""
        ids = list(self._engine.encode_batch_fast([checked(text)])[0].ids)
        while len(ids) > 1 and ids[-1] == self.eos:  # some add eos, but this text is continued
            ids.pop()
        return ids or [self.bos]

    @property
    def frame(self) -> tuple[list[int], list[int]]:
        """The ids of the special tokens that the pretrained tokenizer adds before and after a text.

        Raises DataError if it changes the text itself.
        """
        whole, inside = list(self._engine.encode("a").ids), self.encode("a")
        for start in range(len(whole)):
            if whole[start : start + len(inside)] == inside:
                return whole[:start], whole[start + len(inside) :]
        raise DataError(f"with special tokens, the tokenizer encodes 'a' as {whole[:8]}")

    @property
    def special_texts(self) -> list[str]:
        """The texts of the special tokens, which a chat template writes between the turns."""
        added = self._engine.get_added_tokens_decoder().values()
        return [token.content for token in added if token.special]

    def encode_with_special_tokens(
        self, text: str, plain: Sequence[tuple[int, int]] = ()
    ) -> list[int]:
        """Return the ids of a text in which special tokens are written out.

        Only for texts of a chat template, never for what a user wrote. plain: the spans of the
        text, [start, end), in order, that a user wrote: what looks like a special token in them, or
        across an end of them, is encoded as other text is.
        """
        if plain:
            if self._written is None:
                self._written = WrittenSpecialTokens(self._engine)
            return self._written.encode(checked(text), plain)
        if self._parsing is None:
            self._parsing = tokenizers.Tokenizer.from_str(self._engine.to_str())
            self._parsing.encode_special_tokens = False
        batch = self._parsing.encode_batch_fast([checked(text)], add_special_tokens=False)
        return list(batch[0].ids)

    def decode(self, ids: Iterable[int]) -> str:
        known = checked_ids(ids, self.size)
        return str(self._engine.decode(known, skip_special_tokens=True))

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        return [
            str(self._engine.decode([i], skip_special_tokens=False))
            for i in checked_ids(ids, self.size)
        ]

    def begins_word(self, ids: Sequence[int]) -> list[bool]:
        """Return, for each id, whether its token begins a word.

        It does if the token starts with a space character, or if the token before it ends with
        `WORD_ENDS` (GPT-1).
        """
        tokens = [str(self._engine.id_to_token(i)) for i in checked_ids(ids, self.size)]
        after_end = [False, *(token.endswith(WORD_ENDS) for token in tokens)]
        return [
            follows_end or token.startswith(WORD_STARTS)
            for token, follows_end in zip(tokens, after_end, strict=False)
        ]

    def _json(self, ends: Sequence[int] = ()) -> bytes:
        """Return the contents of the file. ends: all tokens that end an output, if there are
        several; no id of a text depends on them."""
        more = {"ends": list(ends)} if len(ends) > 1 else {}
        own = {"format": FORMAT, "bos": self.bos, "eos": self.eos, **more}
        return file_of({**own, "tokenizer": self.engine_json})

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`: the Hugging Face format inside headway's own."""
        write_file(folder / FILE, self._json(self.ends))

    @classmethod
    def load(cls, path: Path) -> PretrainedTokenizer:
        """Read a file that `save` wrote. Raises DataError for another file."""
        content = read_json(path, FILE_LIMIT)
        content = content if isinstance(content, dict) else {}
        ends = content.get("ends", [])
        ids = [content.get("bos"), content.get("eos"), *(ends if isinstance(ends, list) else [""])]
        if content.get("format") != FORMAT or any(type(token) is not int for token in ids):
            raise DataError(
                f"the file is not a tokenizer of format {FORMAT!r}",
                str(path),
                "give the folder of a model that headway saved",
            )
        engine = cls.engine_of(content.get("tokenizer"), str(path))
        return cls(engine, content["bos"], content["eos"], ends)


class WrittenSpecialTokens:
    """Encodes texts in which only some of the texts of special tokens stand for these tokens.

    Another token replaces such a text. Its name is secret, and it affects the text beside it as the
    special token would. So all of the text between two special tokens is encoded at once.
    """

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        content = json.loads(engine.to_str())
        added = [token for token in content["added_tokens"] if token["special"]]
        secret = secrets.token_hex(16)
        names = [f"\ue000{secret}{number}\ue001" for number in range(len(added))]
        self._names = {token["content"]: name for name, token in zip(names, added, strict=True)}
        if content["model"]["type"] == "Unigram":  # which finds its pieces in any text
            pieces = {piece for piece, _ in content["model"]["vocab"]} & self._names.keys()
            for piece in content["model"]["vocab"]:
                piece[0] = self._names.get(piece[0], piece[0])
            rest = [token for token in content["added_tokens"] if token["content"] not in pieces]
            content["added_tokens"] = rest
        self._engine = tokenizers.Tokenizer.from_str(json.dumps(content))
        self._engine.encode_special_tokens = True
        self._engine.add_tokens(
            [
                tokenizers.AddedToken(
                    name,
                    lstrip=token["lstrip"],
                    rstrip=token["rstrip"],
                    normalized=False,
                    special=False,
                )
                for name, token in zip(names, added, strict=True)
            ]
        )
        self._ids = {name: token["id"] for name, token in zip(names, added, strict=True)}
        self._whole_words = {token["content"] for token in added if token["single_word"]}
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def encode(self, text: str, plain: Sequence[tuple[int, int]]) -> list[int]:
        """Return the ids of `text`, without special tokens in and across the spans `plain`."""
        parts, last = [], 0
        for start, end in [*plain, (len(text), len(text))]:
            parts += [self._named(text, last, start), text[start:end]]
            last = end
        (encoding,) = self._engine.encode_batch(["".join(parts)], add_special_tokens=False)
        # by name: the engine numbers new tokens itself, and a vocabulary may have these ids
        found = zip(encoding.tokens, encoding.ids, strict=True)
        return [self._ids.get(token.strip(), i) for token, i in found]

    def _named(self, text: str, start: int, end: int) -> str:
        """Return text[start:end] with the names of its special tokens."""
        parts, last = [], start
        for match in self._pattern.finditer(text, start, end):
            token = match.group()
            beside = (
                text[max(0, match.start() - 1) : match.start()],
                text[match.end() : match.end() + 1],
            )
            if token in self._whole_words and any(re.match(r"\w", c) for c in beside):
                continue
            parts += [text[last : match.start()], self._names[token]]
            last = match.end()
        return "".join([*parts, text[last:end]])
