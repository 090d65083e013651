"""How models of each kind answer the questions of suites: language models by likelihoods and by
writing, others by what they predict."""

from collections.abc import Sequence
from typing import TypeVar

import torch

from headway.base.chunks import chunks
from headway.base.errors import UsageError
from headway.bundle import Bundle, TextBundle
from headway.bundle.contract import TextEmbedding
from headway.evaluation.ranking import ranks
from headway.inspection.work import Report
from headway.suites.embedding import Clustered, Searched, clustered, ranked
from headway.suites.measuring import Answerer
from headway.suites.questions import (
    Answering,
    Choice,
    Completion,
    Judged,
    Likelihood,
    Passage,
    Question,
    Rated,
    Scored,
    Translating,
)
from headway.suites.scoring import Scorer
from headway.tasks.classification.model import ClassifierBundle
from headway.tasks.opening import with_article
from headway.tasks.question_answering.model import (
    QUESTIONS,
    PredictedAnswer,
    QuestionAnsweringBundle,
)
from headway.tasks.translation.bundle import TranslatorBundle

Q = TypeVar("Q", bound=Question)


def answerer_of(bundle: Bundle) -> Answerer:
    """Return how a model answers questions.

    It raises UsageError for questions that a model of its kind cannot answer, or for examples
    before the questions of a model that reads none.
    """
    if isinstance(bundle, TextBundle):
        return _language_model(Scorer(bundle))
    if isinstance(bundle, ClassifierBundle):
        return _classifier(bundle)
    if isinstance(bundle, QuestionAnsweringBundle):
        return _question_answering(bundle)
    if isinstance(bundle, TranslatorBundle):
        return _translator(bundle)
    if isinstance(bundle, TextEmbedding):
        return _embedding(bundle)
    raise UsageError(
        f"no suite measures {with_article(bundle.kind)}",
        hint="use a language model, classifier, question-answering model, translator or text "
        "encoder; headway eval evaluates a model of any kind",
    )


def _all(questions: Sequence[Question], kind: type[Q], reader: str) -> list[Q]:
    """Return the questions if all are of a kind. UsageError, which names the reader, otherwise."""
    chosen = [question for question in questions if isinstance(question, kind)]
    if len(chosen) != len(questions):
        raise UsageError(
            f"{with_article(reader)} cannot answer the questions of this suite",
            hint="use a model of a kind that the layout is scored by: headway bench --help",
        )
    return chosen


def _no_examples(questions: Sequence[Question], before: Sequence[str], reader: str) -> None:
    """UsageError if there are solved examples before the questions."""
    if any(text != question.description for question, text in zip(questions, before, strict=True)):
        raise UsageError(
            f"{with_article(reader)} reads no examples in a prompt", hint="leave out --shots"
        )


def _language_model(scorer: Scorer) -> Answerer:
    kind = "language model"

    def answer(
        questions: Sequence[Question], before: Sequence[str], report: Report
    ) -> list[Judged]:
        if isinstance(questions[0], Passage):
            passages = _all(questions, Passage, kind)
            nats = scorer.texts([passage.text for passage in passages], report)
            return [passage.judge(value) for passage, value in zip(passages, nats, strict=True)]
        if isinstance(questions[0], Scored):
            scored = _all(questions, Scored, kind)  # type: ignore[type-abstract]
            asked = zip(scored, before, strict=True)
            likelihoods = scorer.likelihoods([one.requests(text) for one, text in asked], report)
            return [one.judge(row) for one, row in zip(scored, likelihoods, strict=True)]
        written = _all(questions, Completion, kind)  # type: ignore[type-abstract]
        prompts = [text + one.prompt for one, text in zip(written, before, strict=True)]
        longest = max(one.max_tokens for one in written)
        outputs = scorer.continuations(prompts, longest, report)
        return [one.judge(text) for one, text in zip(written, outputs, strict=True)]

    return answer


def _classifier(bundle: ClassifierBundle) -> Answerer:
    def answer(
        questions: Sequence[Question], before: Sequence[str], report: Report
    ) -> list[Judged]:
        _no_examples(questions, before, bundle.kind)
        if bundle.reader.numbers is not None:
            rated = _all(questions, Rated, bundle.kind)
            return _rated(rated, bundle.score([question.texts for question in rated]))
        choices = _all(questions, Choice, bundle.kind)
        columns = _columns(bundle.labels, choices[0])
        inputs = [one.texts if len(one.texts) > 1 else one.texts[0] for one in choices]
        log_p = bundle.logits(inputs).log_softmax(-1)[:, columns].tolist()  # type: ignore[arg-type]
        return [
            one.judge([Likelihood(value, False) for value in row])
            for one, row in zip(choices, log_p, strict=True)
        ]

    return answer


def _columns(labels: Sequence[str], question: Choice) -> list[int]:
    """Return the index of the model's label for each class of the suite.

    A label is the name of a class or its number. UsageError for other labels, or for a suite whose
    rows are no texts to classify.
    """
    numbers = [str(i) for i in range(len(question.classes))]
    for names in (question.classes, numbers):
        if question.texts and set(names) == set(labels):
            return [list(labels).index(name) for name in names]
    raise UsageError(
        f"the model has the labels {', '.join(labels)}, but the classes of the suite are "
        f"{', '.join(question.classes) or 'answers to prompts'}",
        hint="train the classifier on the training part of the suite",
    )


def _question_answering(bundle: QuestionAnsweringBundle) -> Answerer:
    def answer(
        questions: Sequence[Question], before: Sequence[str], report: Report
    ) -> list[Judged]:
        _no_examples(questions, before, bundle.kind)
        asked = _all(questions, Answering, bundle.kind)
        best: list[list[PredictedAnswer]] = []
        for part in chunks(asked, QUESTIONS):
            report(len(best) / len(asked))
            best += bundle.answer_all([(one.question, one.context) for one in part])
        return [
            one.judge(answers[0].text if answers else "")
            for one, answers in zip(asked, best, strict=True)
        ]

    return answer


def _translator(bundle: TranslatorBundle) -> Answerer:
    def answer(
        questions: Sequence[Question], before: Sequence[str], report: Report
    ) -> list[Judged]:
        _no_examples(questions, before, bundle.kind)
        asked = _all(questions, Translating, bundle.kind)
        outputs = bundle.translate([one.source for one in asked])
        return [one.judge(text) for one, text in zip(asked, outputs, strict=True)]

    return answer


def _embedding(bundle: TextEmbedding) -> Answerer:
    """Answer by vectors: how similar two texts are is the cosine of theirs."""
    kind = "text encoder"

    def answer(
        questions: Sequence[Question], before: Sequence[str], report: Report
    ) -> list[Judged]:
        _no_examples(questions, before, kind)
        if isinstance(questions[0], Searched):
            return ranked(bundle, _all(questions, Searched, kind))
        if isinstance(questions[0], Clustered):
            return clustered(bundle, _all(questions, Clustered, kind))
        rated = _all(questions, Rated, kind)
        first, second = (bundle.embed([one.texts[i] for one in rated]) for i in (0, 1))
        return _rated(rated, (first * second).sum(-1).tolist())

    return answer


def _rated(questions: Sequence[Rated], numbers: Sequence[float]) -> list[Judged]:
    """Judge predicted numbers together: Spearman's correlation is that of their ranks."""
    has_gold = [question.gold is not None for question in questions]
    predicted = torch.tensor([n for n, known in zip(numbers, has_gold, strict=True) if known])
    gold = torch.tensor([float(one.gold) for one in questions if one.gold is not None])
    both = iter(zip(ranks(predicted).tolist(), ranks(gold).tolist(), strict=True))
    return [
        question.judge(number, next(both) if known else None)
        for question, number, known in zip(questions, numbers, has_gold, strict=True)
    ]
