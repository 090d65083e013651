"""Byte-level byte-pair encoding (Sennrich et al. 2016; bytes: Radford et al. 2019, section 2.2).

The vocabulary starts with the 256 bytes, so every string can be encoded without an unknown token.
Training repeatedly merges the most frequent pair of adjacent tokens into a new token until the
vocabulary has the requested size. A space belongs to the word after it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from headway.errors import DataError, UsageError
from headway.files import read_bytes
from headway.text.token_ids import checked_ids

PAD, BOS, EOS = "<pad>", "<s>", "</s>"
FILE_LIMIT = 64 * 2**20
LONGEST_WORD = 1000  # characters; each merge scans the whole word, so longer words take hours
_LONG_WORD = re.compile(rf"\w{{{LONGEST_WORD + 1},}}|[^\w\s]{{{LONGEST_WORD + 1},}}")
LANGUAGE_TAG = re.compile(r"<2([A-Za-z0-9_@.-]+)>")
SENTINEL = re.compile(r"<extra_id_(0|[1-9]\d{0,3})>")
BACK_TRANSLATED = "<BT>"
"""Tag of source texts that are machine translations of their targets (Caswell et al. 2019)."""
_BROKEN_BYTES = re.compile("[\udc80-\udcff]+")


def _byte_of_letter() -> dict[str, int]:
    """Return the byte for each character of the byte-level BPE alphabet.

    Printable Latin-1 bytes are written as themselves, the other 68 bytes as the characters from
    U+0100 in order, so that a vocabulary file has no whitespace and no control characters (Radford
    et al. 2019, released code).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + index): byte for index, byte in enumerate(unprintable)}


_BYTE_OF_LETTER = _byte_of_letter()


def readable(raw: bytes) -> str:
    """Decode `raw` as UTF-8; each run of bytes that is not a complete character becomes U+FFFD."""
    return _BROKEN_BYTES.sub("\ufffd", raw.decode("utf-8", "surrogateescape"))


def is_tag(name: str) -> bool:
    """Return whether a special token is a tag that a source text may begin with."""
    return name == BACK_TRANSLATED or LANGUAGE_TAG.fullmatch(name) is not None


def _chunks(texts: Iterable[str], size: int = 1000) -> Iterator[list[str]]:
    iterator = iter(texts)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _without_long_words(texts: Iterable[str]) -> Iterator[str]:
    """Yield the training texts; words of more than `LONGEST_WORD` letters (or symbols) are
    split."""
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
    """A byte-level BPE tokenizer; the base class of `Tokenizer` and `TextBPE`.

    A subclass sets the special tokens, whether a space is added before the first word, and whether
    the vocabulary may have tags and sentinels. Instances are made by `train` or `load`.
    Ids are 0 .. size-1. Text that looks like a special token is never encoded as that token.
    """

    specials: ClassVar[tuple[str, ...]]
    leading_space: ClassVar[bool]
    has_tags: ClassVar[bool] = False

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        """Wrap a Hugging Face tokenizer `engine` for which `_fault` returns None."""
        # By default the engine recognises special tokens in plain text. Its JSON does not store
        # this option, so it is set here both for trained and for loaded tokenizers.
        engine.encode_special_tokens = True
        self._engine = engine
        self.size: int = engine.get_vocab_size()
        vocabulary = engine.get_vocab()
        added = (token.content for token in engine.get_added_tokens_decoder().values())
        tags = [name for name in added if self.has_tags and _is_further(name)]
        self.special_ids: dict[str, int] = {name: vocabulary[name] for name in self.specials}
        self.special_ids |= {name: vocabulary[name] for name in tags}
        self._specials = {i: name for name, i in self.special_ids.items()}
        self._bytes = [b""] * self.size
        for letters, index in vocabulary.items():
            if index not in self._specials:
                self._bytes[index] = bytes(_BYTE_OF_LETTER[letter] for letter in letters)
        self.fingerprint: str = hashlib.sha256(self._json()).hexdigest()

    @classmethod
    def train(
        cls: type[B], texts: Iterable[str], vocabulary_size: int, tags: Sequence[str] = ()
    ) -> B:
        """Learn a vocabulary of at most `vocabulary_size` tokens from `texts`, read once as a
        stream.

        tags: further special tokens: <2de> for a target language, <BT>, or <extra_id_0>.

        Deterministic: the same texts give the same tokenizer. A small corpus may have fewer pairs
        to merge than requested; then `size` is smaller. Raises UsageError if `vocabulary_size` is
        below the 256 bytes plus the special tokens, DataError for a string that cannot be encoded
        as UTF-8.
        """
        special_tokens = [*cls.specials, *tags]
        smallest = 256 + len(special_tokens)
        if vocabulary_size < smallest:
            raise UsageError(
                f"the vocabulary size must be at least {smallest} (256 bytes and "
                f"{len(special_tokens)} special tokens), but is {vocabulary_size}",
                hint=f"set it to {smallest} or more; 8000 suits a small corpus",
            )
        engine = tokenizers.Tokenizer(models.BPE())
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=cls.leading_space)
        engine.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary_size,
            special_tokens=special_tokens,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        engine.train_from_iterator(_chunks(_without_long_words(texts)), trainer)
        return cls(engine)

    @classmethod
    def load(cls: type[B], path: Path) -> B:
        """Read a file that `save` wrote. Raises DataError, with the reason, for another file."""
        raw = read_bytes(path, FILE_LIMIT)
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the tokenizer file is not JSON: {error}", where=str(path)) from error
        fault = _fault(content, cls._special_names(content), cls.leading_space)
        if fault:
            raise DataError(
                fault,
                where=str(path),
                hint="give a tokenizer file that headway trained",
            )
        try:
            engine = tokenizers.Tokenizer.from_str(raw.decode("utf-8"))
        except Exception as error:  # the engine raises bare Exception for every fault in a file
            raise DataError(f"the tokenizer cannot be loaded: {error}", where=str(path)) from error
        return cls(engine)

    @classmethod
    def _special_names(cls, content: Any) -> tuple[str, ...]:
        """Return the special tokens that the JSON value of a tokenizer may have."""
        added = content.get("added_tokens") if isinstance(content, dict) else None
        if not cls.has_tags or not isinstance(added, list):
            return cls.specials
        names = [entry.get("content") for entry in added if isinstance(entry, dict)]
        tags = [name for name in names if isinstance(name, str) and _is_further(name)]
        return (*cls.specials, *tags)

    def _json(self) -> bytes:
        return str(self._engine.to_str()).encode("utf-8")

    def merges(self) -> list[tuple[str, str]]:
        """Return the merged pairs of tokens in order, in letters of the byte-level alphabet."""
        merges = json.loads(self._json())["model"]["merges"]
        pairs = (m.split(" ") if isinstance(m, str) else m for m in merges)
        return [(left, right) for left, right in pairs]

    def ids_by_letters(self) -> dict[str, int]:
        """Return the id of each token, in the letters of the byte-level alphabet."""
        vocabulary: dict[str, int] = self._engine.get_vocab()
        return vocabulary

    def words_in_letters(self, text: str) -> list[str]:
        """Split a text into words, in letters of the byte-level alphabet; no merge joins two."""
        words = self._engine.pre_tokenizer.pre_tokenize_str(checked(text))
        return [word for word, _ in words]

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, without special tokens; [] for the empty string."""
        return list(self._engine.encode(checked(text), add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode each text, in parallel on all cores."""
        clean = [checked(text) for text in texts]
        batch = self._engine.encode_batch_fast(clean, add_special_tokens=False)
        return [list(encoding.ids) for encoding in batch]

    def _raw(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of the tokens `ids`; special tokens have none."""
        return b"".join(self._bytes[i] for i in checked_ids(ids, self.size))

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        """Return the string of each token, for display.

        A token at the start of a word begins with a space. An incomplete character in a token is
        shown as U+FFFD. Special tokens are shown by name.
        """
        return [
            self._specials.get(i) or readable(self._bytes[i]) for i in checked_ids(ids, self.size)
        ]


def _is_further(name: str) -> bool:
    """Return whether a token is a tag or a sentinel."""
    return is_tag(name) or SENTINEL.fullmatch(name) is not None


def sentinels_of(ids: Mapping[str, int]) -> tuple[int, ...]:
    """Return the ids of <extra_id_0>, <extra_id_1> and so on, as far as all of them exist."""
    names = (f"<extra_id_{number}>" for number in count())
    return tuple(ids[name] for name in takewhile(ids.__contains__, names))


def checked(text: str) -> str:
    """Return `text`; raise DataError if it has a lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text has a lone surrogate, {text[error.start]!a}, at character {error.start}; "
            "this is only half of a character",
            hint="read the text as UTF-8 with errors='strict'",
        ) from error
    return text


def _part(content: dict[str, Any], name: str) -> dict[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}


def _fault(content: Any, specials: Sequence[str], leading_space: bool) -> str | None:
    """Return why the JSON value `content` is not a tokenizer of this kind, or None if it is.

    Decoding uses the bytes of each token. A file of another kind (WordPiece, Unigram, or with a
    normaliser) would load but decode to wrong text, so it is refused here.
    """
    if not isinstance(content, dict):
        return "the tokenizer file must be a JSON object, but is another JSON value"
    model, splitter = _part(content, "model"), _part(content, "pre_tokenizer")
    if model.get("type") != "BPE" or splitter.get("type") != "ByteLevel":
        return f"the tokenizer must be byte-level BPE, but is of type {model.get('type')!r}"
    if (
        content.get("normalizer") is not None
        or splitter.get("add_prefix_space") is not leading_space
    ):
        space = "without a" if leading_space else "with a"
        return f"the byte-level BPE has a normaliser, or is {space} space before the first word"
    if any(content.get(name) for name in ("truncation", "padding", "post_processor")):
        return "the tokenizer file sets truncation, padding or a post-processor"
    plain = (None, False, "")
    if any(model.get(k) not in plain for k in ("dropout", "ignore_merges", "byte_fallback")):
        return "the BPE model uses dropout, ignore_merges or byte_fallback"
    return _vocabulary_fault(model.get("vocab"), content.get("added_tokens"), specials)


def _vocabulary_fault(vocabulary: Any, added: Any, specials: Sequence[str]) -> str | None:
    """Return what is wrong with the vocabulary (token -> id) and the added tokens, or None."""
    if not isinstance(vocabulary, dict) or not isinstance(added, list):
        return "the tokenizer has no vocabulary"
    missing = [name for name in specials if name not in vocabulary]
    if missing:
        return f"the vocabulary lacks the special tokens {', '.join(missing)}"
    ids = list(vocabulary.values())
    if any(type(i) is not int for i in ids) or sorted(ids) != list(range(len(ids))):
        return f"the ids of the vocabulary are not 0 .. {len(ids) - 1}"
    for entry in added:
        name = entry.get("content") if isinstance(entry, dict) else None
        if name not in specials or entry.get("id") != vocabulary[name]:
            return f"the tokenizer has an unknown added token: {name!r}"
    for token in vocabulary:
        if token not in specials and not all(letter in _BYTE_OF_LETTER for letter in token):
            return f"the token {token!r} is not in the byte alphabet"
    absent = [letter for letter in _BYTE_OF_LETTER if letter not in vocabulary]
    return f"the vocabulary lacks {len(absent)} of the 256 bytes" if absent else None
