"""Byte-level byte-pair encoding (Sennrich et al. 2016; bytes: Radford et al. 2019, section 2.2).

The 256 bytes are the first pieces, so every string has an encoding and no piece is unknown.
Training joins, again and again, the two neighbouring pieces that stand together most often, until
the vocabulary is full. A space belongs to the word after it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from headway.errors import DataError, UsageError
from headway.files import read_bytes

PAD, BOS, EOS = "<pad>", "<s>", "</s>"
FILE_LIMIT = 64 * 2**20
LONGEST_WORD = 1000  # characters; each merge is tried all along a word, so long ones take hours
_LONG_WORD = re.compile(rf"\w{{{LONGEST_WORD + 1},}}|[^\w\s]{{{LONGEST_WORD + 1},}}")
_BROKEN_BYTES = re.compile("[\udc80-\udcff]+")


def _byte_of_letter() -> dict[str, int]:
    """The letter that byte-level BPE writes for each byte, inverted.

    Printable Latin-1 bytes stand for themselves, the other 68 for U+0100 and up, in order, so that
    a vocabulary file shows no blank and no control character (Radford et al. 2019, released code).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + place): byte for place, byte in enumerate(hidden)}


_BYTE_OF_LETTER = _byte_of_letter()


def readable(raw: bytes) -> str:
    """UTF-8 text of `raw`; each run of bytes that is no whole character becomes one U+FFFD."""
    return _BROKEN_BYTES.sub("\ufffd", raw.decode("utf-8", "surrogateescape"))


def _chunks(texts: Iterable[str], size: int = 1000) -> Iterator[list[str]]:
    iterator = iter(texts)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _without_long_words(texts: Iterable[str]) -> Iterator[str]:
    """The texts to learn from; those with a word of more than `LONGEST_WORD` letters (or signs) are
    cut inside it."""
    for text in map(checked, texts):
        if len(text) <= LONGEST_WORD or max(map(len, text.split()), default=0) <= LONGEST_WORD:
            yield text
            continue
        start = 0
        for word in _LONG_WORD.finditer(text):
            for end in range(word.start() + LONGEST_WORD, word.end(), LONGEST_WORD):
                yield text[start:end]
                start = end
        yield text[start:]


B = TypeVar("B", bound="BytePairs")


class BytePairs:
    """A vocabulary of byte pieces and the two directions through it.

    Built by `train` or `load` of a class that says which special tokens there are and whether a
    space is put before the first word. Ids are 0 .. size-1. Text that spells a special token never
    becomes one.
    """

    specials: ClassVar[tuple[str, ...]]
    leading_space: ClassVar[bool]

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        """`engine`: a Hugging Face tokenizer that `_fault` finds nothing wrong with."""
        # The engine looks for special tokens inside plain text unless told otherwise, and its JSON
        # does not keep the answer, so it is set here for trained and loaded tokenizers alike.
        engine.encode_special_tokens = True
        self._engine = engine
        self.size: int = engine.get_vocab_size()
        vocabulary = engine.get_vocab()
        self.special_ids: dict[str, int] = {name: vocabulary[name] for name in self.specials}
        self._specials = {i: name for name, i in self.special_ids.items()}
        self._bytes = [b""] * self.size
        for letters, index in vocabulary.items():
            if index not in self._specials:
                self._bytes[index] = bytes(_BYTE_OF_LETTER[letter] for letter in letters)
        self.fingerprint: str = hashlib.sha256(self._json()).hexdigest()

    @classmethod
    def train(cls: type[B], texts: Iterable[str], vocabulary_size: int) -> B:
        """Learn at most `vocabulary_size` pieces from `texts`, which are read once, as a stream.

        Deterministic: the same texts give the same tokenizer. A small corpus may hold fewer pairs
        to join than asked for; `size` tells. Raises UsageError when `vocabulary_size` is below the
        256 bytes and the special tokens, DataError for a string that UTF-8 cannot hold.
        """
        smallest = 256 + len(cls.specials)
        if vocabulary_size < smallest:
            raise UsageError(
                f"{vocabulary_size=} is below {smallest}, the 256 bytes and "
                f"{len(cls.specials)} special tokens",
                hint=f"ask for {smallest} or more; 8000 suits a small corpus",
            )
        engine = tokenizers.Tokenizer(models.BPE())
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=cls.leading_space)
        engine.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary_size,
            special_tokens=list(cls.specials),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        engine.train_from_iterator(_chunks(_without_long_words(texts)), trainer)
        return cls(engine)

    @classmethod
    def load(cls: type[B], path: Path) -> B:
        """Read a file that `save` wrote. Raises DataError, saying why, for anything else."""
        raw = read_bytes(path, FILE_LIMIT)
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the tokenizer file is not JSON: {error}", where=str(path)) from error
        fault = _fault(content, cls.specials, cls.leading_space)
        if fault:
            raise DataError(
                fault,
                where=str(path),
                hint="headway reads tokenizers that it trained itself",
            )
        try:
            engine = tokenizers.Tokenizer.from_str(raw.decode("utf-8"))
        except Exception as error:  # the engine raises bare Exception for every fault in a file
            raise DataError(f"not a usable tokenizer: {error}", where=str(path)) from error
        return cls(engine)

    def _json(self) -> bytes:
        return str(self._engine.to_str()).encode("utf-8")

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without special tokens. The empty string has no ids."""
        return list(self._engine.encode(checked(text), add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, on all cores."""
        clean = [checked(text) for text in texts]
        batch = self._engine.encode_batch_fast(clean, add_special_tokens=False)
        return [list(encoding.ids) for encoding in batch]

    def _raw(self, ids: Iterable[int]) -> bytes:
        """The bytes of `ids`; special tokens have none."""
        return b"".join(self._bytes[i] for i in self._known(ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each id stands for, to be shown to a person.

        A piece that begins a word starts with a space. A piece that holds part of a character shows
        that part as one U+FFFD. Special tokens show their names.
        """
        return [self._specials.get(i) or readable(self._bytes[i]) for i in self._known(ids)]

    def _known(self, ids: Iterable[int]) -> list[int]:
        known = [int(i) for i in ids]
        for i in known:
            if not 0 <= i < self.size:
                raise DataError(f"token id {i} is outside the vocabulary of {self.size} pieces")
        return known


def checked(text: str) -> str:
    """`text`, or DataError when it holds half of a surrogate pair, which no UTF-8 file can."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text holds {text[error.start]!a} at character {error.start}, "
            "which is half of a character",
            hint="read the text as UTF-8 with errors='strict'",
        ) from error
    return text


def _part(content: dict[str, Any], name: str) -> dict[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}


def _fault(content: Any, specials: Sequence[str], leading_space: bool) -> str | None:
    """What keeps the JSON value `content` from being a tokenizer of this kind, or None.

    Decoding goes through the bytes of each piece, so a file of another kind (word pieces, unigrams,
    a normaliser in front) would load and then return wrong text: it is refused here instead.
    """
    if not isinstance(content, dict):
        return "the tokenizer file holds no JSON object"
    model, splitter = _part(content, "model"), _part(content, "pre_tokenizer")
    if model.get("type") != "BPE" or splitter.get("type") != "ByteLevel":
        return f"not a byte-level BPE tokenizer, but {model.get('type')!r}"
    if (
        content.get("normalizer") is not None
        or splitter.get("add_prefix_space") is not leading_space
    ):
        space = "without the" if leading_space else "with a"
        return f"a byte-level BPE, but with a normaliser or {space} space before the first word"
    if any(content.get(name) for name in ("truncation", "padding", "post_processor")):
        return "the tokenizer truncates, pads or adds tokens by itself"
    plain = (None, False, "")
    if any(model.get(k) not in plain for k in ("dropout", "ignore_merges", "byte_fallback")):
        return "the BPE model uses dropout, ignore_merges or byte_fallback"
    return _vocabulary_fault(model.get("vocab"), content.get("added_tokens"), specials)


def _vocabulary_fault(vocabulary: Any, added: Any, specials: Sequence[str]) -> str | None:
    """What is wrong with the vocabulary (piece -> id) and the list of added tokens, or None."""
    if not isinstance(vocabulary, dict) or not isinstance(added, list):
        return "the tokenizer has no vocabulary"
    missing = [name for name in specials if name not in vocabulary]
    if missing:
        return f"the vocabulary lacks the special tokens {', '.join(missing)}"
    ids = list(vocabulary.values())
    if any(type(i) is not int for i in ids) or sorted(ids) != list(range(len(ids))):
        return f"the ids of the vocabulary are not 0 .. {len(ids) - 1}"
    for token in added:
        name = token.get("content") if isinstance(token, dict) else None
        if name not in specials or token.get("id") != vocabulary[name]:
            return f"the tokenizer has an added token that is not ours: {name!r}"
    for piece in vocabulary:
        if piece not in specials and not all(letter in _BYTE_OF_LETTER for letter in piece):
            return f"the piece {piece!r} is not written in the byte alphabet"
    absent = [letter for letter in _BYTE_OF_LETTER if letter not in vocabulary]
    return f"the vocabulary lacks {len(absent)} of the 256 bytes" if absent else None
