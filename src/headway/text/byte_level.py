"""Byte-level sub-word tokenizers: words are sequences of bytes (Radford et al. 2019, section 2.2).

The vocabulary contains the 256 bytes, so every string can be encoded without an unknown token. A
space belongs to the word after it. How a word is split into tokens is a `SubwordModel`: byte-pair
encoding (`bpe`) or a unigram language model (`unigram`).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import tokenizers
from tokenizers import decoders, pre_tokenizers

from headway.base.errors import DataError, UsageError
from headway.base.files import read_bytes
from headway.text.engine import BYTE_OF_LETTER, EngineTokenizer, checked
from headway.text.tokenizer import checked_ids

PAD, BOS, EOS = "<pad>", "<s>", "</s>"
FILE_LIMIT = 64 * 2**20
LONGEST_WORD = 1000  # characters; each merge scans the whole word, so longer words take hours
_LONG_WORD = re.compile(rf"\w{{{LONGEST_WORD + 1},}}|[^\w\s]{{{LONGEST_WORD + 1},}}")
LANGUAGE_TAG = re.compile(r"<2([A-Za-z0-9_@.-]+)>")
SENTINEL = re.compile(r"<extra_id_(0|[1-9]\d{0,3})>")
BACK_TRANSLATED = "<BT>"
"""Tag of source texts that are machine translations of their targets (Caswell et al. 2019)."""
_BROKEN_BYTES = re.compile("[\udc80-\udcff]+")


def readable(raw: bytes) -> str:
    """Decode `raw` as UTF-8; each run of bytes that is not a complete character becomes U+FFFD."""
    return _BROKEN_BYTES.sub("\ufffd", raw.decode("utf-8", "surrogateescape"))


def is_tag(name: str) -> bool:
    """Return whether a special token is a tag that a source text may begin with."""
    return name == BACK_TRANSLATED or LANGUAGE_TAG.fullmatch(name) is not None


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


Model = Mapping[str, Any]
"""The model in the parsed JSON of a tokenizer file."""


@dataclass(frozen=True, kw_only=True)
class SubwordModel:
    """A way to learn a vocabulary and to split words into its tokens.

    name: for messages, such as "byte-level BPE". model_type: the type of the model in a
    `tokenizer.json`. train: learns a vocabulary from texts, of at most a number of tokens with the
    special tokens included, and returns an engine that can split every word in letters of the
    byte-level alphabet; its last argument says whether a space is added before the first word of a
    text. vocabulary: the ids of the tokens of a model in JSON; None if it has no valid vocabulary.
    fault: why a model in JSON with such a vocabulary and these special tokens is not one that
    `train` makes, or None.
    """

    name: str
    model_type: str
    train: Callable[[Iterable[str], int, Sequence[str], bool], tokenizers.Tokenizer]
    vocabulary: Callable[[Model], dict[str, int] | None]
    fault: Callable[[Model, Sequence[str]], str | None]


B = TypeVar("B", bound="ByteLevel")


class ByteLevel(EngineTokenizer):
    """A byte-level tokenizer; the base class of `SentenceSubwords` and `TextSubwords`.

    A subclass sets the sub-word model, the special tokens, whether a space is added before the
    first word, and whether the vocabulary may have tags and sentinels. Instances are made by
    `train` or `load`.
    Ids are 0 .. size-1. Text that looks like a special token is never encoded as that token.
    """

    subwords: ClassVar[SubwordModel]
    specials: ClassVar[tuple[str, ...]]
    leading_space: ClassVar[bool]
    has_tags: ClassVar[bool] = False

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        """Wrap a Hugging Face tokenizer `engine` for which `_fault` returns None."""
        super().__init__(engine)
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
                self._bytes[index] = bytes(BYTE_OF_LETTER[letter] for letter in letters)

    @classmethod
    def train(
        cls: type[B], texts: Iterable[str], vocabulary_size: int, tags: Sequence[str] = ()
    ) -> B:
        """Learn a vocabulary of at most `vocabulary_size` tokens from `texts`, read once as a
        stream.

        tags: further special tokens: <2de> for a target language, <BT>, or <extra_id_0>.

        Deterministic: the same texts give the same tokenizer. A small corpus may have fewer
        frequent parts of words than requested; then `size` is smaller. Raises UsageError if
        `vocabulary_size` is below the 256 bytes plus the special tokens, DataError for a string
        that cannot be encoded as UTF-8.
        """
        special_tokens = [*cls.specials, *tags]
        smallest = 256 + len(special_tokens)
        if vocabulary_size < smallest:
            raise UsageError(
                f"the vocabulary size must be at least {smallest} (256 bytes and "
                f"{len(special_tokens)} special tokens), but is {vocabulary_size}",
                hint=f"set it to {smallest} or more; 8000 suits a small corpus",
            )
        words = _without_long_words(texts)
        return cls(cls.subwords.train(words, vocabulary_size, special_tokens, cls.leading_space))

    @classmethod
    def load(cls: type[B], path: Path) -> B:
        """Read a file that `save` wrote. Raises DataError, with the reason, for another file."""
        raw = read_bytes(path, FILE_LIMIT)
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the tokenizer file is not JSON: {error}", where=str(path)) from error
        fault = _fault(content, cls.subwords, cls._special_names(content), cls.leading_space)
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
    def _special_names(cls, content: object) -> tuple[str, ...]:
        """Return the special tokens that the JSON value of a tokenizer may have."""
        added = content.get("added_tokens") if isinstance(content, dict) else None
        if not cls.has_tags or not isinstance(added, list):
            return cls.specials
        names = [entry.get("content") for entry in added if isinstance(entry, dict)]
        tags = [name for name in names if isinstance(name, str) and _is_further(name)]
        return (*cls.specials, *tags)

    @property
    def model_json(self) -> dict[str, Any]:
        """The sub-word model of the engine, as parsed JSON."""
        model: dict[str, Any] = self.engine_json["model"]
        return model

    def ids_by_letters(self) -> dict[str, int]:
        """Return the id of each token, in the letters of the byte-level alphabet."""
        vocabulary: dict[str, int] = self._engine.get_vocab()
        return vocabulary

    def words_in_letters(self, text: str) -> list[str]:
        """Split a text into words, in letters of the byte-level alphabet; no token has parts of
        two."""
        words = self._engine.pre_tokenizer.pre_tokenize_str(checked(text))
        return [word for word, _ in words]

    def _raw(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of the tokens `ids`; special tokens have none."""
        return b"".join([self._bytes[i] for i in checked_ids(ids, self.size)])

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


def _part(content: dict[str, Any], name: str) -> dict[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}


def _fault(
    content: object, subwords: SubwordModel, specials: Sequence[str], leading_space: bool
) -> str | None:
    """Return why the JSON value `content` is not a tokenizer of this kind, or None if it is.

    Decoding uses the bytes of each token. A file of another kind (WordPiece, or with a normaliser)
    would load but decode to wrong text, so it is refused here.
    """
    if not isinstance(content, dict):
        return "the tokenizer file must be a JSON object, but is another JSON value"
    model, splitter = _part(content, "model"), _part(content, "pre_tokenizer")
    if model.get("type") != subwords.model_type or splitter.get("type") != "ByteLevel":
        return f"the tokenizer must be {subwords.name}, but is of type {model.get('type')!r}"
    if (
        content.get("normalizer") is not None
        or splitter.get("add_prefix_space") is not leading_space
    ):
        space = "without a" if leading_space else "with a"
        return f"the {subwords.name} has a normaliser, or is {space} space before the first word"
    if any(content.get(name) for name in ("truncation", "padding", "post_processor")):
        return "the tokenizer file sets truncation, padding or a post-processor"
    vocabulary, added = subwords.vocabulary(model), content.get("added_tokens")
    if vocabulary is None or not isinstance(added, list):
        return "the tokenizer has no vocabulary"
    return subwords.fault(model, specials) or _vocabulary_fault(vocabulary, added, specials)


def _vocabulary_fault(
    model_vocabulary: Mapping[str, int], added: Sequence[object], specials: Sequence[str]
) -> str | None:
    """Return what is wrong with the vocabulary (token -> id) and the added tokens, or None."""
    vocabulary: dict[Any, Any] = {**model_vocabulary}
    for entry in added:
        name, index = (
            (entry.get("content"), entry.get("id")) if isinstance(entry, dict) else (None, None)
        )
        if name not in specials or vocabulary.setdefault(name, index) != index:
            return f"the tokenizer has an unknown added token: {name!r}"
    missing = [name for name in specials if name not in vocabulary]
    if missing:
        return f"the vocabulary lacks the special tokens {', '.join(missing)}"
    ids = list(vocabulary.values())
    if any(type(i) is not int for i in ids) or sorted(ids) != list(range(len(ids))):
        return f"the ids of the vocabulary are not 0 .. {len(ids) - 1}"
    for token in vocabulary:
        if token not in specials and not all(letter in BYTE_OF_LETTER for letter in token):
            return f"the token {token!r} is not in the byte alphabet"
    absent = [letter for letter in BYTE_OF_LETTER if letter not in vocabulary]
    return f"the vocabulary lacks {len(absent)} of the 256 bytes" if absent else None


def byte_level_engine(engine: tokenizers.Tokenizer, *, space: bool) -> tokenizers.Tokenizer:
    """Return the engine, made to split texts into words of bytes and to decode them.

    space: whether a space is added before the first word of a text.
    """
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    engine.decoder = decoders.ByteLevel()
    return engine
