"""Measures a model on a suite: prompts, answers, metrics, and the rows behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from random import Random

from headway.base.errors import UsageError
from headway.evaluation.bleu import score_translations
from headway.inspection.work import Report, unreported
from headway.suites.metrics import Measured, measured
from headway.suites.questions import Completion, Judged, Passage, Question
from headway.suites.reading import Part, Suite
from headway.suites.shots import Examples, Sampling

SEED = 1234
"""As in the Language Model Evaluation Harness."""
SACREBLEU = ("bleu", "chrf")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a suite is measured.

    shots: numbers of solved examples in a prompt; each is measured. limit: the most rows, sampled
    with the seed; None: all. split: the part of the data; None: that of the layout. sampling: how
    examples are chosen; None: as the layout says, the first ones or at random.
    """

    shots: tuple[int, ...] = (0,)
    limit: int | None = None
    split: str | None = None
    sampling: Sampling | None = None
    seed: int = SEED


@dataclass(frozen=True, kw_only=True)
class AnsweredRow:
    """A row of a suite with the answer of a model.

    shots: the number of examples before it. scores: those that a single row has.
    """

    shots: int
    where: str
    group: str
    gold: object
    prediction: object
    scores: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The metrics with one number of examples in the prompt. groups: the primary metric of each
    group of rows, if there are several."""

    shots: int
    metrics: list[Measured]
    groups: dict[str, Measured]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What was measured on one suite.

    rows: the number of rows that were measured. unlabelled: rows without a label, which have a
    prediction and no score. sha256: of all files of the suite.
    """

    suite: str
    about: str
    split: str
    rows: int
    unlabelled: int
    sha256: str
    files: dict[str, str]
    sampling: str
    seed: int
    measurements: list[Measurement]
    answers: list[AnsweredRow]

    def as_dict(self) -> dict[str, object]:
        """The result for JSON, without the rows."""
        return {key: value for key, value in asdict(self).items() if key != "answers"}


Answerer = Callable[[Sequence[Question], Sequence[str], Report], list[Judged]]
"""Answers questions, each with the text before it (description and solved examples)."""


def measure(answerer: Answerer, suite: Suite, plan: Plan, report: Report = unreported) -> Result:
    """Measure a model on a suite with each number of examples.

    The same rows are measured with each number. Raises UsageError for examples before questions
    that take none, or if the suite has too few.
    """
    split, parts = suite.evaluated(plan.split)
    if plan.limit is not None and plan.limit < len(parts):
        chosen = sorted(Random(plan.seed).sample(range(len(parts)), plan.limit))
        parts = [parts[i] for i in chosen]
    if not parts:
        raise UsageError(f"{suite.name} has no rows", hint="add the files of the suite")
    if any(plan.shots) and isinstance(parts[0].question, Passage):
        raise UsageError(
            f"{suite.name} measures the perplexity of texts, which take no examples",
            hint="leave out --shots",
        )
    sampling = plan.sampling or ("first" if suite.layout.first else "random")
    measurements, answers = [], []
    for number, shots in enumerate(plan.shots):

        def report_part(fraction: float, number: int = number) -> None:
            report((number + fraction) / len(plan.shots))

        before = _before(suite, split, parts, shots, sampling, plan.seed)
        judged = answerer([part.question for part in parts], before, report_part)
        measurements.append(_measurement(suite, parts, judged, shots))
        answers += [_answered(part, row, shots) for part, row in zip(parts, judged, strict=True)]
    return Result(
        suite=suite.name,
        about=suite.layout.about,
        split=split,
        rows=len(parts),
        unlabelled=sum(not row.terms for row in judged),
        sha256=suite.sha256,
        files=suite.files,
        sampling=sampling,
        seed=plan.seed,
        measurements=measurements,
        answers=answers,
    )


def _before(
    suite: Suite, split: str, parts: Sequence[Part], shots: int, sampling: Sampling, seed: int
) -> list[str]:
    """Return the text before each question. Examples are of the group of the question, if the
    layout has a description for each group."""
    pool, is_held_out = suite.examples(split)
    texts = {question.description for question in pool}
    pools = {
        text: Examples(
            [question for question in pool if question.description == text],
            sampling,
            seed,
            one_more=not is_held_out or split != "test",
        )
        for text in texts | {part.question.description for part in parts}
    }
    return [pools[part.question.description].before(part.question, shots) for part in parts]


def _measurement(
    suite: Suite, parts: Sequence[Part], judged: Sequence[Judged], shots: int
) -> Measurement:
    further = {}
    if not set(SACREBLEU).isdisjoint(suite.layout.metrics):
        sums = score_translations(["-"], ["-"], SACREBLEU).sums
        further = {name: of_metric.value for name, of_metric in sums.items()}
    names, metrics = suite.layout.metrics, measured(judged, suite.layout.metrics, further)
    rows = sorted(zip(parts, judged, strict=True), key=lambda pair: pair[0].group)
    groups = {
        name: measured([row for _, row in pairs], names[:1], further)
        for name, pairs in groupby(rows, key=lambda pair: pair[0].group)
    }
    by_group = {name: values[0] for name, values in groups.items() if values}
    return Measurement(shots=shots, metrics=metrics, groups=by_group if len(by_group) > 1 else {})


def _answered(part: Part, judged: Judged, shots: int) -> AnsweredRow:
    gold = getattr(part.question, "gold", None)
    if gold is None and isinstance(part.question, Completion):
        gold = list(part.question.answers)
    return AnsweredRow(
        shots=shots,
        where=part.where,
        group=part.group,
        gold=gold,
        prediction=judged.prediction,
        scores={
            name: terms[0]
            for name, terms in judged.terms.items()
            if len(terms) == 2 and name != "chance"
        },
    )
