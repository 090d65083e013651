"""The bundle of a tagger of words: model, tokenizer and tags; and its Hugging Face folders."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from headway import interop
from headway.base.errors import UsageError
from headway.base.files import are_distinct_names, is_count
from headway.base.settings import setting
from headway.base.shapes import Float, Tensor
from headway.base.sharing import WHOLE, Share
from headway.bundle import (
    Attending,
    BundleWithReader,
    ForwardPass,
    Preprocessing,
    Probe,
    ProbeRequest,
    Readout,
    StoredReader,
    check_outputs,
    class_names,
    encoder_pass,
    word_outputs,
)
from headway.bundle.arguments import checked
from headway.data.word_targets import WordSequence, token_sequences, word_sequences
from headway.models import BertTagger
from headway.tasks.tagging.spans import (
    Strategy,
    TaggedToken,
    TextEntities,
    are_span_tags,
    entities_of,
    spans_of,
)
from headway.tasks.task import TextInput
from headway.text import EncoderTokenizer

SHORTEST = 8
"""Minimum value of `max_length`."""


@dataclass(frozen=True)
class PredictedWord:
    """The word text[start:end], its predicted tag, and the probability of the tag."""

    text: str
    start: int
    end: int
    tag: str
    probability: float


@dataclass(frozen=True)
class PredictedSpan:
    """The span text[start:end] and its label.

    probability: the product of the probabilities of its words' tags.
    """

    label: str
    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class TaggedText:
    """A tagged text.

    text: the text; if the input was a list of words, these are joined by spaces. spans: empty if
    the tags have no spans (parts of speech).
    """

    text: str
    words: tuple[PredictedWord, ...]
    spans: tuple[PredictedSpan, ...]


@dataclass(frozen=True, kw_only=True)
class TagOptions:
    """Options of a prediction."""

    aggregation_strategy: Literal["words", Strategy] = setting(
        "words",
        "How tags form entities. words: a word has the tag of its first token, and words form "
        "spans. none, simple, first, average, max: as in the pipeline of transformers, from the "
        "tags of all tokens.",
    )


DEFAULTS = TagOptions()


@dataclass(frozen=True)
class TagReader(StoredReader):
    """Encodes texts for a tagger, and names its tags.

    tags: the distinct tags, in the order of the classes. max_length: the maximum sequence length in
    tokens, special tokens included; a longer text is split into several sequences.
    """

    FILE: ClassVar[str] = "tags.json"
    tokenizer: EncoderTokenizer
    tags: tuple[str, ...]
    max_length: int

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[list[WordSequence]]:
        """Encode the words of sentences as sequences (`word_sequences`)."""
        return word_sequences(self.tokenizer, sentences, self.max_length)

    def split(self, text: str) -> list[tuple[int, int]]:
        """Split a text into words; return their characters [start, end).

        The words are those of the tokenizer, and every punctuation character is a word.
        """
        words: list[tuple[int, int]] = []
        ids, spans = self.tokenizer.encode_spans(text)
        for i, (start, end) in zip(ids, spans, strict=True):
            while start < end and text[start].isspace():
                start += 1
            while start < end and text[end - 1].isspace():
                end -= 1
            if start == end:
                continue
            last = words[-1][1] if words else -1
            if start < last or (start == last and self._continues[i]):
                words[-1] = (words[-1][0], max(last, end))
            else:
                words.append((start, end))
        return [part for start, end in words for part in _split_punctuation(text, start, end)]

    def encode_tokens(
        self, text: str
    ) -> tuple[list[tuple[str, int, int, bool]], list[WordSequence]]:
        """Encode a text token by token.

        Returns its tokens (string, first character, end, whether it continues a word) and the
        sequences that have all of them in order.
        """
        ids, spans = self.tokenizer.encode_spans(text)
        unknown = self.tokenizer.unknown
        tokens, words = [], list[list[int]]()
        for i, string, (start, end) in zip(
            ids, self.tokenizer.token_strings(ids), spans, strict=True
        ):
            if self.tokenizer.has_continuation_prefix:
                continues = self._continues[i]
            else:  # as the pipeline of transformers has it: every space separates words
                continues = start > 0 and i != unknown and " " not in text[start - 1 : start + 1]
            tokens.append((text[start:end] if i == unknown else string, start, end, continues))
            if words and continues:
                words[-1].append(i)
            else:
                words.append([i])
        return tokens, token_sequences(self.tokenizer, words, self.max_length)

    @cached_property
    def _continues(self) -> list[bool]:
        return self.tokenizer.continues()

    def contents(self) -> tuple[Preprocessing, dict[str, object]]:
        return self.tokenizer, {"tags": self.tags, "max_length": self.max_length}

    @classmethod
    def load(cls, folder: Path) -> TagReader:
        settings = cls.load_settings(
            folder,
            lambda it: (
                are_distinct_names(it.get("tags")) and is_count(it.get("max_length"), SHORTEST)
            ),
            "a list of tags and a maximum length",
        )
        return cls(EncoderTokenizer.load(folder), tuple(settings["tags"]), settings["max_length"])


def _split_punctuation(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split text[start:end] so that every punctuation character is a part."""
    for i in range(start, end):
        if _is_punctuation(text[i]):
            if start < i:
                yield start, i
            yield i, i + 1
            start = i + 1
    if start < end:
        yield start, end


def _is_punctuation(character: str) -> bool:
    """Return whether a character is punctuation, as BERT's tokenizer defines it.

    Punctuation is a character of a Unicode category P, or a symbol of ASCII.
    """
    is_symbol = (
        character.isascii()
        and character.isprintable()
        and not character.isalnum()
        and character != " "
    )
    return is_symbol or unicodedata.category(character).startswith("P")


class TaggerBundle(BundleWithReader, Attending):
    """A `BertTagger` with its reader."""

    kind: ClassVar[str] = "tagger"
    reader_class = TagReader
    model: BertTagger
    reader: TagReader

    def __init__(self, model: BertTagger, reader: TagReader) -> None:
        check_outputs(len(reader.tags), model.config.num_tags, "tags")
        super().__init__(model, reader)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.reader.tags

    @checked
    def tag(self, texts: Sequence[str | Sequence[str]]) -> list[TaggedText]:
        """Tag the words of texts, and find the spans that the tags form.

        A text is a string, or a list of its words. A long text is split into several sequences. The
        tags of a text do not depend on the other texts.
        """
        strings = [text if isinstance(text, str) else " ".join(text) for text in texts]
        word_spans = [
            self.reader.split(text) if isinstance(text, str) else _joined(text) for text in texts
        ]
        words = [
            [text[start:end] for start, end in spans]
            for text, spans in zip(strings, word_spans, strict=True)
        ]
        rows_by_text = self.reader.encode(words)
        best_by_row = iter(self._best([row for rows in rows_by_text for row in rows]))
        tagged = []
        for text, spans, rows in zip(strings, word_spans, rows_by_text, strict=True):
            best = [pair for _ in rows for pair in next(best_by_row)]
            tagged.append(self._tagged(text, spans, best))
        return tagged

    @checked
    def entities(self, texts: Sequence[str], strategy: Strategy = "simple") -> list[TextEntities]:
        """Return the entities of texts as the pipeline of transformers does (`entities_of`).

        A long text is split into several sequences, while the pipeline drops its end.
        """
        encoded = [self.reader.encode_tokens(text) for text in texts]
        logits = iter(self.word_logits([row for _, rows in encoded for row in rows]))
        found = []
        for text, (tokens, rows) in zip(texts, encoded, strict=True):
            probabilities = [p for _ in rows for p in next(logits).softmax(-1)]
            tagged = [
                TaggedToken(*token, p) for token, p in zip(tokens, probabilities, strict=True)
            ]
            join = self.reader.tokenizer.joined
            found.append(TextEntities(text, entities_of(tagged, self.tags, strategy, join)))
        return found

    def predict(
        self, inputs: Sequence[TextInput], options: TagOptions = DEFAULTS, *, first: int = 1
    ) -> list[TaggedText] | list[TextEntities]:
        """Tag the inputs as `tag` does, or as `entities` if the options name another strategy."""
        texts = [item.text for item in inputs]
        strategy = options.aggregation_strategy
        return self.tag(texts) if strategy == "words" else self.entities(texts, strategy)

    def reading(self, text: str | Sequence[str]) -> ForwardPass:
        """Prepare a forward pass over a text that fits into one sequence, for inspection.

        It returns the logits of the tags of all tokens. Raises UsageError for a longer text.
        """
        words = (
            [text[start:end] for start, end in self.reader.split(text)]
            if isinstance(text, str)
            else list(text)
        )
        (rows,) = self.reader.encode([words])
        if len(rows) != 1:
            raise UsageError(
                f"the text needs {len(rows)} sequences of at most {self.reader.max_length} tokens, "
                "but only one can be inspected",
                hint="shorten the text" if rows else "a text with words",
            )
        ids = list(rows[0].ids)
        return encoder_pass(self.model, self.reader.tokenizer, ids, [0] * len(ids), within="bert.")

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
        self, rows: Sequence[WordSequence], share: Share = WHOLE
    ) -> list[Float[Tensor, "W C"]]:
        """Compute the logits of the tags of each word (`word_outputs`)."""
        return word_outputs(self.model, rows, self.tokenizer.special_tokens.pad, share)

    def _best(self, rows: Sequence[WordSequence]) -> list[list[tuple[int, float]]]:
        """Return the index and the probability of the most probable tag of each word."""
        best = []
        for logits in self.word_logits(rows):
            probabilities, tags = logits.softmax(-1).max(-1)
            best.append(list(zip(tags.tolist(), probabilities.tolist(), strict=True)))
        return best

    def _tagged(
        self, text: str, word_spans: Sequence[tuple[int, int]], best: Sequence[tuple[int, float]]
    ) -> TaggedText:
        words = tuple(
            PredictedWord(text[start:end], start, end, self.tags[tag], probability)
            for (start, end), (tag, probability) in zip(word_spans, best, strict=True)
        )
        if not are_span_tags(self.tags):
            return TaggedText(text, words, ())
        spans = []
        for span in spans_of([word.tag for word in words]):
            span_words = words[span.start : span.end]
            start, end = span_words[0].start, span_words[-1].end
            probability = math.prod(word.probability for word in span_words)
            spans.append(PredictedSpan(span.label, text[start:end], start, end, probability))
        return TaggedText(text, words, tuple(spans))


def _joined(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the characters [start, end) of words that are joined by spaces."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return spans


def from_hugging_face(model: BertTagger, folder: Path, model_type: str) -> TaggerBundle:
    """Make a bundle of the model with the tokenizer and the tags of the folder.

    The maximum sequence length is the number of positions of the model.
    """
    tokenizer = interop.read_encoder_tokenizer(folder, model_type)
    tags = interop.read_labels(folder, model_type)
    return TaggerBundle(model, TagReader(tokenizer, tags, model.config.bert.max_length))


def to_hugging_face(bundle: TaggerBundle, folder: Path, family: str | None) -> str:
    """Write a Hugging Face folder with the tagger, its tokenizer and its tags."""
    return interop.write_text_model(
        bundle.model, bundle.reader.tokenizer, folder, family, bundle.tags
    )
