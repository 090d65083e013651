"""An answerer of questions with its tokenizer: a question and a text in, the answer's place out."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from headway.bundle import (
    Attention,
    BundleWithReader,
    InputSpec,
    Probe,
    ProbeRequest,
    Reading,
    Readout,
    attention_of,
    framed_reading,
)
from headway.data.encoder_batches import shortest_first
from headway.errors import DataError, UsageError
from headway.files import json_bytes, read_json, write_file
from headway.models import BertAnswerer
from headway.settings import required, setting
from headway.shapes import Bool, Float, Tensor
from headway.tasks.question_answering.windows import (
    Window,
    collate_windows,
    question_room,
    windows,
)
from headway.text import MarkedTokenizer

WINDOWS_FILE = "windows.json"
FORMAT = 1
ROWS = 16  # windows read at once
QUESTIONS = 8  # whose windows are read together: a context may be long
LONGEST = 30  # tokens of an answer
SHORTEST = 8

Span = tuple[float, int, int]
"""Score of an answer, and its first and last token in the context."""


@dataclass(frozen=True, kw_only=True)
class AnswerInput:
    """One input of a question-answering model."""

    question: str = required("the question")
    context: str = required(
        "Text that holds the answer, or a file of it (.txt, .md, plain or .gz).", may_be_file=True
    )


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    top: int = setting(1, "Number of answers to each question, the most probable first.", gt=0)


ONE_ANSWER = AnswerOptions()


@dataclass(frozen=True)
class FoundAnswer:
    """context[start:end]. probability: that it begins there and that it ends there, multiplied, in
    the window where that is most."""

    text: str
    probability: float
    start: int
    end: int


@dataclass(frozen=True)
class Answered:
    """A question and the most probable answers to it, the best first."""

    question: str
    answers: tuple[FoundAnswer, ...]


@dataclass(frozen=True)
class Asked:
    """A question's windows, and the characters of each of the context's tokens."""

    windows: list[Window]
    spans: list[tuple[int, int]]

    def characters(self, first: int, last: int, context: str) -> tuple[int, int]:
        """Where these tokens stand in the context, without blanks around them."""
        start, end = self.spans[first][0], self.spans[last][1]
        while start < end and context[start].isspace():
            start += 1
        while start < end and context[end - 1].isspace():
            end -= 1
        return start, end


@dataclass(frozen=True)
class AnswerReader:
    """The strings-to-ids side of an answerer.

    window: ids of a window, its marks included. stride: the next one begins so many tokens later.
    """

    tokenizer: MarkedTokenizer
    window: int
    stride: int

    def encode(self, question: str, context: str) -> Asked:
        """What is read to answer the question."""
        asked = self.tokenizer.encode(question)
        ids, spans = self.tokenizer.encode_spans(context)
        return Asked(windows(self.tokenizer.marks, asked, ids, self.window, self.stride), spans)

    @property
    def question_room(self) -> int:
        """The number of tokens that are read of a question."""
        return question_room(self.tokenizer.marks, self.window)

    def lengths(self, questions: Sequence[str]) -> list[int]:
        """The number of tokens of each question, before any are cut."""
        return [len(ids) for ids in self.tokenizer.encode_batch(questions)]

    @property
    def fingerprint(self) -> str:
        """sha256 of all that the windows depend on."""
        return hashlib.sha256(self.tokenizer.fingerprint.encode() + self._json()).hexdigest()

    def _json(self) -> bytes:
        facts = {"format": FORMAT, "window": self.window, "stride": self.stride}
        return json_bytes(facts)

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and windows.json."""
        self.tokenizer.save(folder)
        write_file(folder / WINDOWS_FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> AnswerReader:
        """Read what `save` wrote. DataError if it is not that."""
        path = folder / WINDOWS_FILE
        facts = read_json(path)
        if (
            not isinstance(facts, dict)
            or facts.get("format") != FORMAT
            or type(facts.get("window")) is not int
            or type(facts.get("stride")) is not int
            or facts["window"] < SHORTEST
            or facts["stride"] < 1
        ):
            raise DataError(f"not the sizes of windows (format {FORMAT})", str(path))
        return cls(MarkedTokenizer.load(folder), facts["window"], facts["stride"])


def best_spans(
    logits: Float[Tensor, "B T 2"], keys: Bool[Tensor, "B T"], given: Sequence[Window], top: int
) -> list[list[Span]]:
    """Of each window the `top` likeliest answers, the best first.

    The score of the tokens i .. j is log P(begins at i) + log P(ends at j), i <= j, at most 30
    tokens and all of the context. Devlin et al. 2019, section 4.2.
    """
    logits = logits.float().masked_fill(~keys[..., None], -torch.inf)
    begin, end = logits.log_softmax(1).unbind(-1)  # B T
    length = logits.shape[1]
    places = torch.arange(length, device=logits.device)
    firsts = torch.tensor([window.first for window in given], device=logits.device)
    counts = torch.tensor([window.count for window in given], device=logits.device)
    inside = (places >= firsts[:, None]) & (places < (firsts + counts)[:, None])  # B T
    apart = places[None, :] - places[:, None]  # T T: how much later the end is
    allowed = (apart >= 0) & (apart < LONGEST) & inside[:, :, None] & inside[:, None, :]
    scores = (begin[:, :, None] + end[:, None, :]).masked_fill(~allowed, -torch.inf)
    best = scores.flatten(1).topk(min(top, length * length), dim=1)
    found = []
    for window, values, cells in zip(
        given, best.values.tolist(), best.indices.tolist(), strict=True
    ):
        shift = window.begin - window.first
        found.append(
            [
                (value, cell // length + shift, cell % length + shift)
                for value, cell in zip(values, cells, strict=True)
                if value > -math.inf
            ]
        )
    return found


def merged(found: Sequence[Sequence[Span]], top: int) -> list[Span]:
    """The `top` best answers of several windows of one text; what two of them hold counts once."""
    best: dict[tuple[int, int], float] = {}
    for score, first, last in (span for spans in found for span in spans):
        best[first, last] = max(score, best.get((first, last), -math.inf))
    ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))
    return [(score, first, last) for (first, last), score in ranked[:top]]


class AnswererBundle(BundleWithReader):
    """A `BertAnswerer` with what it reads."""

    kind: ClassVar[str] = "question answerer"
    inputs: ClassVar[InputSpec] = InputSpec(second=True)
    reader_class = AnswerReader
    model: BertAnswerer
    reader: AnswerReader

    def answer(self, question: str, context: str, top: int = 1) -> list[FoundAnswer]:
        """The `top` likeliest pieces of the context, the best first.

        However long the context is, all of it is read, in windows that overlap. Of the question the
        first `reader.question_room` tokens are read. UsageError for one that is longer than a
        window.
        """
        self._check_room([question])
        return self.answer_all([(question, context)], top)[0]

    def predict(
        self,
        inputs: Sequence[AnswerInput],
        options: AnswerOptions = ONE_ANSWER,
        *,
        first: int = 1,
    ) -> list[Answered]:
        """`answer` of each input. first: the number of the first one, in errors."""
        self._check_room([each.question for each in inputs], first)
        pairs = [(each.question, each.context) for each in inputs]
        answers = self.answer_all(pairs, options.top, first=first)
        return [
            Answered(each.question, tuple(found))
            for each, found in zip(inputs, answers, strict=True)
        ]

    @property
    def input_limit(self) -> int:
        """The number of tokens that are read of a question."""
        return self.reader.question_room

    def input_lengths(self, inputs: Sequence[AnswerInput]) -> list[int]:
        """The number of tokens of each question, before any are cut."""
        return self.reader.lengths([each.question for each in inputs])

    def _check_room(self, questions: Sequence[str], first: int = 1) -> None:
        """UsageError for a question that is longer than a window."""
        for number, length in enumerate(self.reader.lengths(questions), start=first):
            if length > self.reader.window:
                raise UsageError(
                    f"the question has {length:,} tokens, and this model reads at most "
                    f"{self.reader.window:,} of question and context together",
                    f"question {number}",
                    f"ask in at most {self.reader.question_room} tokens",
                )

    def answer_all(
        self,
        pairs: Sequence[tuple[str, str]],
        top: int = 1,
        progress: Callable[[int], None] = lambda done: None,
        *,
        first: int = 1,
    ) -> list[list[FoundAnswer]]:
        """`answer` of each (question, context); what one gets does not depend on the others.

        progress: called before each batch with the number of questions answered so far. first: the
        number of the first question, in errors.
        """
        if top < 1:
            raise UsageError(f"{top=} must be at least 1")
        _check_texts(pairs, first)
        answers: list[list[FoundAnswer]] = []
        while len(answers) < len(pairs):
            progress(len(answers))
            batch = pairs[len(answers) : len(answers) + QUESTIONS]
            asked, found = self._found(batch, top)
            answers += [
                _named(each, context, merged(own, top))
                for each, own, (_, context) in zip(asked, found, batch, strict=True)
            ]
        return answers

    def reading(self, question: str, context: str) -> Reading:
        """What is read of the window in which the best answer stands; the answer is the logits of
        its first and its last token."""
        _check_texts([(question, context)])
        (asked,), (found,) = self._found([(question, context)], 1)
        best = max(range(len(found)), key=lambda i: found[i][0][0] if found[i] else -math.inf)
        window = asked.windows[best]
        return framed_reading(
            self.model, self.reader.tokenizer, list(window.ids), window.types, within="bert."
        )

    def attention(
        self,
        question: str,
        context: str,
        layers: Sequence[str] = (),
        heads: Sequence[int] = (),
    ) -> Attention:
        """Attention weights while the window with the best answer is read. layers, heads: those to
        keep; none: all."""
        return attention_of(self.reading(question, context), layers, heads)

    def _probe(self, request: ProbeRequest) -> Probe:
        question, context = request.input, request.second
        if context is None:
            raise UsageError(
                "an answer is looked for in a text, and there is none", hint="give it as the second"
            )
        reading = self.reading(question, context)
        pieces = reading.pieces["text"]
        with torch.inference_mode():
            positions = reading.run()[0].argmax(0).tolist()  # where it begins, where it ends
        answers = self.answer(question, context)
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=answers[0].text if answers else "",
            readout=Readout(
                side="text",
                positions=positions,
                logits=lambda output: output[0].T,  # a column is a position
                names=lambda ids: [pieces[i] for i in ids],
                equation="z = x W_c + b_c",
                function=BertAnswerer.forward,
            ),
            tokenizers={"text": self.reader.tokenizer},
        )

    @torch.inference_mode()
    def _found(
        self, pairs: Sequence[tuple[str, str]], top: int
    ) -> tuple[list[Asked], list[list[list[Span]]]]:
        """Of each pair what is read, and of each window of it the `top` likeliest answers."""
        asked = [self.reader.encode(question, context) for question, context in pairs]
        every = [window for each in asked for window in each.windows]
        found: list[list[Span]] = [[] for _ in every]
        pad, typed = self.reader.tokenizer.marks.pad, self.config.bert.token_types > 1
        for chosen in shortest_first([window.ids for window in every], ROWS):
            given = [every[i] for i in chosen]
            batch = collate_windows(given, pad, typed).to(str(self.device))
            logits = self.model(batch.tokens, batch.keys, batch.types)
            spans = best_spans(logits, batch.keys, given, top)
            for i, own in zip(chosen, spans, strict=True):
                found[i] = own
        left = iter(found)
        return asked, [[next(left) for _ in each.windows] for each in asked]


def _check_texts(pairs: Sequence[tuple[str, str]], first: int = 1) -> None:
    """UsageError for an empty question or context."""
    for number, (question, context) in enumerate(pairs, start=first):
        if not question.strip() or not context.strip():
            what = "context" if question.strip() else "question"
            raise UsageError(f"the {what} is empty", f"question {number}")


def _named(asked: Asked, context: str, spans: Sequence[Span]) -> list[FoundAnswer]:
    found = []
    for score, first, last in spans:
        start, end = asked.characters(first, last, context)
        found.append(FoundAnswer(context[start:end], math.exp(score), start, end))
    return found
