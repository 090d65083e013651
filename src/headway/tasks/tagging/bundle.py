"""A tagger of words with its tokenizer and its tags: texts in, entities or parts of speech out."""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from headway.bundle import (
    Attention,
    BundleWithReader,
    Probe,
    ProbeRequest,
    Reading,
    Readout,
    attention_of,
    class_names,
    framed_reading,
    word_outputs,
)
from headway.data.spans import spans_of, tags_spans
from headway.data.word_targets import WordRow, word_rows
from headway.errors import DataError, UsageError
from headway.files import are_distinct_names, json_bytes, read_json, write_file
from headway.models import BertTagger
from headway.shapes import Float, Tensor
from headway.tasks.task import NO_OPTIONS, NoOptions, TextInput
from headway.text import MarkedTokenizer

TAGS_FILE = "tags.json"
FORMAT = 1
SHORTEST = 8


@dataclass(frozen=True)
class FoundWord:
    """text[start:end], its tag, and how probable that is."""

    text: str
    start: int
    end: int
    tag: str
    probability: float


@dataclass(frozen=True)
class FoundSpan:
    """text[start:end] and what it is. probability: the product of those of its words' tags."""

    label: str
    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class Tagged:
    """text: what was tagged, words given apart being joined by blanks. spans: none where the tags
    are no spans (parts of speech)."""

    text: str
    words: tuple[FoundWord, ...]
    spans: tuple[FoundSpan, ...]


@dataclass(frozen=True)
class TagReader:
    """The strings-to-ids side of a tagger: tokenizer, tags, and how long a row may be.

    tags: in the order of the classes, each once. max_length: ids of a row, its two marks included;
    a longer text is read in several rows.
    """

    tokenizer: MarkedTokenizer
    tags: tuple[str, ...]
    max_length: int

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[list[WordRow]]:
        """Each sentence's words as rows (`word_rows`)."""
        return word_rows(self.tokenizer, sentences, self.max_length)

    def split(self, text: str) -> list[tuple[int, int]]:
        """The words of a text, each as the characters [start, end).

        They are what the tokenizer takes for words, and each sign of punctuation is one for itself.
        """
        found: list[tuple[int, int]] = []
        ids, spans = self.tokenizer.encode_spans(text)
        for i, (start, end) in zip(ids, spans, strict=True):
            while start < end and text[start].isspace():
                start += 1
            while start < end and text[end - 1].isspace():
                end -= 1
            if start == end:
                continue
            last = found[-1][1] if found else -1
            if start < last or (start == last and self._continues[i]):
                found[-1] = (found[-1][0], max(last, end))
            else:
                found.append((start, end))
        return [part for start, end in found for part in _cut(text, start, end)]

    @cached_property
    def _continues(self) -> list[bool]:
        return self.tokenizer.continues()

    @property
    def fingerprint(self) -> str:
        """sha256 of all that the ids and the names of the tags depend on."""
        return hashlib.sha256(self.tokenizer.fingerprint.encode() + self._json()).hexdigest()

    def _json(self) -> bytes:
        facts = {"format": FORMAT, "tags": self.tags, "max_length": self.max_length}
        return json_bytes(facts)

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and tags.json."""
        self.tokenizer.save(folder)
        write_file(folder / TAGS_FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> TagReader:
        """Read what `save` wrote. DataError if it is not that."""
        path = folder / TAGS_FILE
        facts = read_json(path)
        tags = facts.get("tags") if isinstance(facts, dict) else None
        if (
            not isinstance(facts, dict)
            or facts.get("format") != FORMAT
            or not are_distinct_names(tags)
            or type(facts.get("max_length")) is not int
            or facts["max_length"] < SHORTEST
        ):
            raise DataError(f"not a list of tags (format {FORMAT})", str(path))
        return cls(MarkedTokenizer.load(folder), tuple(tags), facts["max_length"])


def _cut(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """text[start:end] in parts: a sign of punctuation is a part."""
    for place in range(start, end):
        if _is_punctuation(text[place]):
            if start < place:
                yield start, place
            yield place, place + 1
            start = place + 1
    if start < end:
        yield start, end


def _is_punctuation(letter: str) -> bool:
    """Of a category P of Unicode, or a sign of ASCII, as BERT's program has it."""
    sign = letter.isascii() and letter.isprintable() and not letter.isalnum() and letter != " "
    return sign or unicodedata.category(letter).startswith("P")


class TaggerBundle(BundleWithReader):
    """A `BertTagger` with what it reads and the names of its tags."""

    kind: ClassVar[str] = "tagger"
    reader_class = TagReader
    model: BertTagger
    reader: TagReader

    def __init__(self, model: BertTagger, reader: TagReader) -> None:
        if len(reader.tags) != model.config.num_tags:
            raise DataError(
                f"there are {len(reader.tags)} names of tags, the model has "
                f"{model.config.num_tags}",
                hint="the model and the tags are not from the same training",
            )
        super().__init__(model, reader)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.reader.tags

    def tag(self, texts: Sequence[str | Sequence[str]]) -> list[Tagged]:
        """Each text's words with their tags, and the spans that these make.

        A text is a string, or a list of its words. However long it is, all of it is read, in
        several rows if need be. What a text gets does not depend on the others.
        """
        if isinstance(texts, str):
            raise UsageError("texts must be a list of texts, not one string", hint="[text]")
        shown = [text if isinstance(text, str) else " ".join(text) for text in texts]
        places = [
            self.reader.split(text) if isinstance(text, str) else _joined(text) for text in texts
        ]
        words = [
            [text[start:end] for start, end in found]
            for text, found in zip(shown, places, strict=True)
        ]
        rows = self.reader.encode(words)
        sure = iter(self._best([row for own in rows for row in own]))
        found = []
        for text, where, own in zip(shown, places, rows, strict=True):
            best = [pair for _ in own for pair in next(sure)]
            found.append(self._named(text, where, best))
        return found

    def predict(
        self, inputs: Sequence[TextInput], options: NoOptions = NO_OPTIONS, *, first: int = 1
    ) -> list[Tagged]:
        """`tag`, under the name that every bundle has."""
        return self.tag([each.text for each in inputs])

    def reading(self, text: str | Sequence[str]) -> Reading:
        """What is read of a text that fits into one row; the answer is the logits of every piece's
        tag. UsageError for a longer one."""
        words = (
            [text[start:end] for start, end in self.reader.split(text)]
            if isinstance(text, str)
            else list(text)
        )
        (rows,) = self.reader.encode([words])
        if len(rows) != 1:
            raise UsageError(
                f"the text is read in {len(rows)} rows, and one can be looked at",
                hint="give a part of it" if rows else "a text with words",
            )
        ids = list(rows[0].ids)
        return framed_reading(
            self.model, self.reader.tokenizer, ids, [0] * len(ids), within="bert."
        )

    def attention(
        self, text: str | Sequence[str], layers: Sequence[str] = (), heads: Sequence[int] = ()
    ) -> Attention:
        """Attention weights while a text that fits into one row is read. layers, heads: those to
        keep; none: all."""
        return attention_of(self.reading(text), layers, heads)

    def _probe(self, request: ProbeRequest) -> Probe:
        reading = self.reading(request.input)
        (tagged,) = self.tag([request.input])
        ((row,),) = self.reader.encode([[word.text for word in tagged.words]])
        firsts = list(row.firsts)
        spans = [f"{span.text} ({span.label})" for span in tagged.spans]
        words = [f"{word.text} ({word.tag})" for word in tagged.words if word.tag != "O"]
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=", ".join(spans or words),
            readout=Readout(
                side="text",
                positions=firsts,
                logits=lambda output: output[0, firsts],
                names=class_names(self.tags),
                equation="z = x W_c + b_c",
                function=BertTagger.forward,
            ),
            tokenizers={"text": self.reader.tokenizer},
        )

    def word_logits(
        self, rows: Sequence[WordRow], progress: Callable[[int], None] = lambda done: None
    ) -> list[Float[Tensor, "W C"]]:
        """The logits of each word's tag: `word_outputs`."""
        return word_outputs(self.model, rows, self.tokenizer.marks.pad, progress)

    def _best(self, rows: Sequence[WordRow]) -> list[list[tuple[int, float]]]:
        """Of each word of each row the number and the probability of its most probable tag."""
        found = []
        for logits in self.word_logits(rows):
            probabilities, tags = logits.softmax(-1).max(-1)
            found.append(list(zip(tags.tolist(), probabilities.tolist(), strict=True)))
        return found

    def _named(
        self, text: str, places: Sequence[tuple[int, int]], best: Sequence[tuple[int, float]]
    ) -> Tagged:
        words = tuple(
            FoundWord(text[start:end], start, end, self.tags[tag], share)
            for (start, end), (tag, share) in zip(places, best, strict=True)
        )
        if not tags_spans(self.tags):
            return Tagged(text, words, ())
        spans = []
        for span in spans_of([word.tag for word in words]):
            own = words[span.start : span.end]
            start, end = own[0].start, own[-1].end
            share = math.prod(word.probability for word in own)
            spans.append(FoundSpan(span.label, text[start:end], start, end, share))
        return Tagged(text, words, tuple(spans))


def _joined(words: Sequence[str]) -> list[tuple[int, int]]:
    """Where words stand that are joined by blanks."""
    found, start = [], 0
    for word in words:
        found.append((start, start + len(word)))
        start += len(word) + 1
    return found
