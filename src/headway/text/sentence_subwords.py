"""The byte-level tokenizers of translation models: a word has the same tokens at the start of a
sentence and inside it."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import tokenizers

from headway.base.files import write_file
from headway.text.bpe import BYTE_PAIRS, merges_of
from headway.text.byte_level import (
    BACK_TRANSLATED,
    BOS,
    EOS,
    LANGUAGE_TAG,
    PAD,
    ByteLevel,
    is_tag,
    readable,
    sentinels_of,
)
from headway.text.tokenizer import checked_ids
from headway.text.unigram import UNIGRAM, log_probabilities

_BACK_TRANSLATED = re.compile(re.escape(BACK_TRANSLATED))


class SentenceSubwords(ByteLevel):
    """A byte-level tokenizer with the special tokens <pad>, <s> and </s>; their ids are `pad`,
    `bos` and `eos`.

    A space is added before the first word, so that a word has the same tokens at the start of a
    sentence and inside it. The tokenizer of a model for several target languages has language tags
    too: a tag at the start of a text is encoded as one token ("<2de> a cat"; Johnson et al. 2017).
    After it, or instead of it, the tag of machine-translated sources may follow ("<BT> a cat";
    Caswell et al. 2019).
    """

    specials: ClassVar[tuple[str, ...]] = (PAD, BOS, EOS)
    leading_space: ClassVar[bool] = True
    has_tags: ClassVar[bool] = True
    prefix: ClassVar[tuple[int, ...]] = ()

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        super().__init__(engine)
        self.pad, self.bos, self.eos = (self.special_ids[name] for name in self.specials)
        self.ends = (self.eos,)
        self.language_tags: dict[str, int] = {
            tag[1]: index
            for name, index in self.special_ids.items()
            if (tag := LANGUAGE_TAG.fullmatch(name))
        }
        """The id of the tag of each target language; empty for one direction."""
        self.sentinels = sentinels_of(self.special_ids)
        """The ids of the sentinels of span corruption, in order; empty for translators."""
        self._tags = {name: index for name, index in self.special_ids.items() if is_tag(name)}

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode each text, in parallel on all cores: its tags if it begins with tags of this
        tokenizer, and its words."""
        if not self._tags:
            return super().encode_batch(texts)
        parts = [self._without_tags(text) for text in texts]
        encoded = super().encode_batch([words for _, words in parts])
        return [[*tags, *ids] for (tags, _), ids in zip(parts, encoded, strict=True)]

    def _without_tags(self, text: str) -> tuple[list[int], str]:
        """Return the ids of the tags that a text begins with, the language first, and the rest."""
        tags: list[int] = []
        for pattern in (LANGUAGE_TAG, _BACK_TRANSLATED) if self._tags else ():
            tag = pattern.match(text)
            if tag is not None and tag[0] in self._tags:
                tags.append(self._tags[tag[0]])
                text = text[tag.end() :].removeprefix(" ")
        return tags, text

    def save(self, path: Path) -> None:
        """Write the tokenizer durably as one JSON file in the Hugging Face format."""
        write_file(path, self._json())

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; special tokens are skipped, broken characters become U+FFFD.

        decode(encode(text)) == text for every text that does not begin with a space: the space
        before the first word is removed, because `encode` added it. Raises DataError for an id
        outside 0 .. size-1.
        """
        return readable(self._raw(ids).removeprefix(b" "))

    def words(self, ids: Iterable[int]) -> list[tuple[str, list[int]]]:
        """Return the words of `ids`, each with the positions of its tokens in `ids`.

        A word begins at the first token, at each token that starts with a space, and after a
        special token. A special token is a word of its own. The words do not include the space, so
        without special tokens " ".join(word for word, _ in words(ids)) == decode(ids).
        """
        groups: list[list[int]] = []
        known = checked_ids(ids, self.size)
        after_special = True
        for position, index in enumerate(known):
            special = index in self._specials
            if special or after_special or self._bytes[index].startswith(b" "):
                groups.append([position])
            else:
                groups[-1].append(position)
            after_special = special
        return [(self._word([known[p] for p in positions]), positions) for positions in groups]

    def _word(self, ids: Sequence[int]) -> str:
        if ids[0] in self._specials:
            return self._specials[ids[0]]
        return readable(self._raw(ids).removeprefix(b" "))


class Tokenizer(SentenceSubwords):
    """Byte-level BPE for sentences."""

    subwords = BYTE_PAIRS

    def merges(self) -> list[tuple[str, str]]:
        """Return the merged pairs of tokens in order, in letters of the byte-level alphabet."""
        return merges_of(self.model_json)


class UnigramTokenizer(SentenceSubwords):
    """A byte-level Unigram language model for sentences."""

    subwords = UNIGRAM

    def log_probabilities(self) -> dict[str, float]:
        """Return the log-probability of each token but the special ones, in letters."""
        return log_probabilities(self.model_json)
