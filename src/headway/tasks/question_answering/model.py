"""The bundle of an extractive question-answering model, which finds the answer's span in a context;
and its Hugging Face folders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from headway import interop
from headway.base.errors import UsageError
from headway.base.files import is_count
from headway.base.settings import required, setting
from headway.bundle import (
    Attending,
    BundleWithReader,
    ForwardPass,
    InputSpec,
    Preprocessing,
    Probe,
    ProbeRequest,
    Readout,
    StoredReader,
    encoder_pass,
)
from headway.bundle.arguments import checked
from headway.data.padding import shortest_first
from headway.models import BertQuestionAnswering
from headway.tasks.question_answering.windows import (
    Span,
    Window,
    best_spans,
    collate_windows,
    max_question_length,
    merged,
    windows,
)
from headway.text import EncoderTokenizer

WINDOW, STRIDE = 256, 96
"""Window length and stride of a Hugging Face folder, which does not specify them."""

ROWS = 16
"""Batch size, in windows."""

QUESTIONS = 8
"""Number of questions whose windows are encoded together; a context may have many windows."""

SHORTEST = 8
"""Minimum window length in tokens."""


@dataclass(frozen=True, kw_only=True)
class AnswerInput:
    """One input of a question-answering model."""

    question: str = required("the question")
    context: str = required(
        "Text that contains the answer, or a file with it (.txt or .md, plain or .gz).",
        may_be_file=True,
    )


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Options of a prediction."""

    top: int = setting(1, "Number of answers per question, most probable first.", gt=0)


ONE_ANSWER = AnswerOptions()


@dataclass(frozen=True)
class PredictedAnswer:
    """The answer context[start:end].

    probability: the product of the probabilities of its start and its end, in the window in which
    that is highest.
    """

    text: str
    probability: float
    start: int
    end: int


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question with its most probable answers, best first."""

    question: str
    answers: tuple[PredictedAnswer, ...]


@dataclass(frozen=True)
class EncodedQuestion:
    """The windows of a question, and the character spans of the context's tokens."""

    windows: list[Window]
    spans: list[tuple[int, int]]

    def characters(self, first: int, last: int, context: str) -> tuple[int, int]:
        """Return the characters [start, end) of tokens in the context, without outer spaces."""
        start, end = self.spans[first][0], self.spans[last][1]
        while start < end and context[start].isspace():
            start += 1
        while start < end and context[end - 1].isspace():
            end -= 1
        return start, end


@dataclass(frozen=True)
class AnswerReader(StoredReader):
    """Encodes questions and contexts as windows.

    window: the maximum length of a window in tokens, special tokens included. stride: the distance
    of windows in tokens of the context.
    """

    FILE: ClassVar[str] = "windows.json"
    tokenizer: EncoderTokenizer
    window: int
    stride: int

    def encode(self, question: str, context: str) -> EncodedQuestion:
        """Encode a question and its context as windows."""
        question_ids = self.tokenizer.encode(question)
        ids, spans = self.tokenizer.encode_spans(context)
        return EncodedQuestion(
            windows(self.tokenizer.special_tokens, question_ids, ids, self.window, self.stride),
            spans,
        )

    @property
    def max_question_length(self) -> int:
        """The maximum number of tokens of a question."""
        return max_question_length(self.tokenizer.special_tokens, self.window)

    def lengths(self, questions: Sequence[str]) -> list[int]:
        """Return the number of tokens of each question before truncation."""
        return [len(ids) for ids in self.tokenizer.encode_batch(questions)]

    @classmethod
    def load(cls, folder: Path) -> AnswerReader:
        settings = cls.load_settings(
            folder,
            lambda it: is_count(it.get("window"), SHORTEST) and is_count(it.get("stride"), 1),
            f"`window` of at least {SHORTEST} and `stride` of at least 1",
        )
        return cls(EncoderTokenizer.load(folder), settings["window"], settings["stride"])

    def contents(self) -> tuple[Preprocessing, dict[str, object]]:
        return self.tokenizer, {"window": self.window, "stride": self.stride}


class QuestionAnsweringBundle(BundleWithReader, Attending):
    """A `BertQuestionAnswering` with its reader."""

    kind: ClassVar[str] = "question-answering model"
    inputs: ClassVar[InputSpec] = InputSpec(second=True)
    reader_class = AnswerReader
    model: BertQuestionAnswering
    reader: AnswerReader

    @checked
    def answer(self, question: str, context: str, top: int = 1) -> list[PredictedAnswer]:
        """Find the `top` most probable answers in the context, best first.

        A long context is encoded in overlapping windows. A question is truncated to
        `reader.max_question_length` tokens. Raises UsageError for one longer than a window.
        """
        self._check_room([question])
        return self.answer_all([(question, context)], top)[0]

    def predict(
        self,
        inputs: Sequence[AnswerInput],
        options: AnswerOptions = ONE_ANSWER,
        *,
        first: int = 1,
    ) -> list[AnsweredQuestion]:
        """Answer the inputs as `answer` does. first: the number of the first input, in errors."""
        self._check_room([item.question for item in inputs], first)
        pairs = [(item.question, item.context) for item in inputs]
        answers = self.answer_all(pairs, options.top, first=first)
        answered = zip(inputs, answers, strict=True)
        return [AnsweredQuestion(item.question, tuple(best)) for item, best in answered]

    @property
    def input_limit(self) -> int:
        """The maximum number of tokens of a question."""
        return self.reader.max_question_length

    def input_lengths(self, inputs: Sequence[AnswerInput]) -> list[int]:
        """Return the number of tokens of each question before truncation."""
        return self.reader.lengths([item.question for item in inputs])

    def _check_room(self, questions: Sequence[str], first: int = 1) -> None:
        """Raise UsageError for a question that is longer than a window."""
        for number, length in enumerate(self.reader.lengths(questions), start=first):
            if length > self.reader.window:
                raise UsageError(
                    f"the question has {length:,} tokens, but the maximum length of question and "
                    f"context together is {self.reader.window:,} tokens",
                    f"question {number}",
                    f"shorten the question to at most {self.reader.max_question_length} tokens",
                )

    def answer_all(
        self,
        pairs: Sequence[tuple[str, str]],
        top: int = 1,
        *,
        first: int = 1,
    ) -> list[list[PredictedAnswer]]:
        """Answer pairs (question, context). The answers of a pair do not depend on other pairs.

        top: the number of answers per question. first: the number of the first question, in errors.
        """
        if top < 1:
            raise UsageError(f"{top=} must be at least 1")
        _check_texts(pairs, first)
        answers: list[list[PredictedAnswer]] = []
        while len(answers) < len(pairs):
            batch = pairs[len(answers) : len(answers) + QUESTIONS]
            questions, window_spans = self._best_spans(batch, top)
            answers += [
                _answers(question, context, merged(spans, top))
                for question, spans, (_, context) in zip(
                    questions, window_spans, batch, strict=True
                )
            ]
        return answers

    def reading(self, question: str, context: str) -> ForwardPass:
        """Prepare a forward pass over the window with the best answer, for inspection.

        It returns the logits of start and end.
        """
        _check_texts([(question, context)])
        (encoded,), (spans,) = self._best_spans([(question, context)], 1)
        best = max(range(len(spans)), key=lambda i: spans[i][0][0] if spans[i] else -math.inf)
        window = encoded.windows[best]
        return encoder_pass(
            self.model, self.reader.tokenizer, list(window.ids), window.types, within="bert."
        )

    def _probe(self, request: ProbeRequest) -> Probe:
        question, context = request.input, request.second
        if context is None:
            raise UsageError(
                "a question needs a context, and there is none",
                hint="give the context as the second text",
            )
        reading = self.reading(question, context)
        tokens = reading.tokens["text"]
        with torch.inference_mode():
            positions = reading.run()[0].argmax(0).tolist()  # start and end
        answers = self.answer(question, context)
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=answers[0].text if answers else "",
            readout=Readout(
                side="text",
                positions=positions,
                logits=lambda output: output[0].T,  # a column is a position
                names=lambda ids: [tokens[i] for i in ids],
                equation="z = x W_c + b_c",
                function=BertQuestionAnswering.forward,
            ),
            tokenizers={"text": self.reader.tokenizer},
        )

    @torch.inference_mode()
    def _best_spans(
        self, pairs: Sequence[tuple[str, str]], top: int
    ) -> tuple[list[EncodedQuestion], list[list[list[Span]]]]:
        """Encode pairs (question, context), and find the `top` best answers in each window."""
        questions = [self.reader.encode(question, context) for question, context in pairs]
        all_windows = [window for question in questions for window in question.windows]
        spans: list[list[Span]] = [[] for _ in all_windows]
        pad, typed = self.reader.tokenizer.special_tokens.pad, self.config.bert.token_types > 1
        for chosen in shortest_first([window.ids for window in all_windows], ROWS):
            chosen_windows = [all_windows[i] for i in chosen]
            batch = collate_windows(chosen_windows, pad, typed).to(str(self.device))
            logits = self.model(batch.tokens, batch.keys, batch.types)
            batch_spans = best_spans(logits, batch.keys, chosen_windows, top)
            for i, window_spans in zip(chosen, batch_spans, strict=True):
                spans[i] = window_spans
        in_order = iter(spans)
        return questions, [[next(in_order) for _ in question.windows] for question in questions]


def _check_texts(pairs: Sequence[tuple[str, str]], first: int = 1) -> None:
    """Raise UsageError for an empty question or context."""
    for number, (question, context) in enumerate(pairs, start=first):
        if not question.strip() or not context.strip():
            part = "context" if question.strip() else "question"
            raise UsageError(f"the {part} is empty", f"question {number}")


def _answers(
    question: EncodedQuestion, context: str, spans: Sequence[Span]
) -> list[PredictedAnswer]:
    answers = []
    for score, first, last in spans:
        start, end = question.characters(first, last, context)
        answers.append(PredictedAnswer(context[start:end], math.exp(score), start, end))
    return answers


def from_hugging_face(
    model: BertQuestionAnswering, folder: Path, model_type: str
) -> QuestionAnsweringBundle:
    """Make a bundle of the model with the tokenizer of the folder."""
    window = min(WINDOW, model.config.bert.max_length)
    tokenizer = interop.read_encoder_tokenizer(folder, model_type)
    return QuestionAnsweringBundle(model, AnswerReader(tokenizer, window, min(STRIDE, window // 2)))


def to_hugging_face(bundle: QuestionAnsweringBundle, folder: Path, family: str | None) -> str:
    """Write a Hugging Face folder with the question-answering model and its tokenizer."""
    return interop.write_text_model(bundle.model, bundle.reader.tokenizer, folder, family)
