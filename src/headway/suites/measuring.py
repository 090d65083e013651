"""Measures a model on a suite: prompts, answers, metrics, and the rows behind them.

Few-shot prompts have solved examples before a question: Brown et al. 2020 (GPT-3), section 2.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from random import Random
from typing import Literal

from headway.base.errors import UsageError
from headway.evaluation.bleu import score_translations
from headway.inspection.work import Report, unreported
from headway.suites.metrics import Measured, measured
from headway.suites.questions import Completion, Judged, Passage, Question
from headway.suites.reading import Part, Suite

Sampling = Literal["random", "balanced", "first"]


class Examples:
    """Draws the solved examples of each question, in the order of the questions.

    sampling: random draws uniformly without replacement, anew for each question, with the generator
    of the Language Model Evaluation Harness. balanced draws in turn from each class, in a random
    order of classes, so that their numbers differ by at most 1. first takes the first ones, the
    same for all. one_more: draw one more than needed, and leave out the question itself, as the
    harness does for benchmarks without a test part; otherwise the pool is apart from the questions.
    """

    def __init__(
        self, pool: Sequence[Question], sampling: Sampling, seed: int, *, one_more: bool
    ) -> None:
        self._pool, self._sampling, self._random = list(pool), sampling, Random(seed)
        self._one_more = one_more

    def before(self, question: Question, shots: int) -> str:
        """Return the text before a question: its description, and `shots` solved examples.

        Raises UsageError if there are not as many.
        """
        if not shots:
            return question.description
        drawn = self._drawn(question, shots)
        return question.description + "".join(example.solved for example in drawn)

    def _drawn(self, question: Question, shots: int) -> Sequence[Question]:
        pool = [row for row in self._pool if row != question] if self._one_more else self._pool
        if len(pool) < shots:
            raise UsageError(
                f"{shots} examples per prompt: the suite has only {len(pool)} other rows to take "
                "them from",
                hint="choose fewer with --shots, or add the training part of the suite",
            )
        if self._sampling == "random":
            count = min(shots + self._one_more, len(self._pool))
            sampled = self._random.sample(self._pool, count)
            drawn = [row for row in sampled if row != question] if self._one_more else sampled
            # without enough, copies of the question were drawn
            return drawn[:shots] if len(drawn) >= shots else self._random.sample(pool, shots)
        return pool[:shots] if self._sampling == "first" else self._balanced(pool, shots)

    def _balanced(self, pool: Sequence[Question], shots: int) -> list[Question]:
        by_label: dict[str, list[Question]] = {}
        for example in pool:
            by_label.setdefault(example.label, []).append(example)
        queues = [self._random.sample(rows, min(len(rows), shots)) for rows in by_label.values()]
        self._random.shuffle(queues)
        rounds = max(map(len, queues))
        in_turn = [queue[i] for i in range(rounds) for queue in queues if i < len(queue)][:shots]
        self._random.shuffle(in_turn)
        return in_turn


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
