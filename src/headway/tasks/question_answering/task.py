"""The task of question answering: objective, job, evaluation, output, and their record.

An encoder with a head for the start and the end of an answer. Devlin et al. 2019, section 4.2.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F

from headway.base.devices import Machine
from headway.base.errors import DataError, HeadwayWarning
from headway.base.settings import override
from headway.base.sharing import Share
from headway.bundle import EncoderBundle
from headway.data.overlap import sides_of
from headway.data.split import evenly_spaced
from headway.evaluation.scores import Metric, Scores
from headway.evaluation.squad import score_answers
from headway.models import BertQuestionAnswering
from headway.tasks.finetuning import (
    batches_of,
    describe_shape,
    fitting,
    load_encoder,
    view_of,
    with_head,
)
from headway.tasks.job import Emit, Example, Job, Summary, planned_steps, update_size
from headway.tasks.question_answering.config import (
    AnswerDataConfig,
    AnswerEvaluationConfig,
    AnswerRunConfig,
    AnswerScoring,
    answer,
)
from headway.tasks.question_answering.data import (
    FILES,
    PreparedQuestions,
    answered_questions,
    prepare_answers,
    target_answer,
)
from headway.tasks.question_answering.model import (
    QUESTIONS,
    AnsweredQuestion,
    AnswerInput,
    AnswerOptions,
    AnswerReader,
    QuestionAnsweringBundle,
    from_hugging_face,
    to_hugging_face,
)
from headway.tasks.question_answering.question_files import Question, read_questions
from headway.tasks.question_answering.windows import AnswerBatch
from headway.tasks.sections import RunSettings
from headway.tasks.task import BundleSpec, Pipeline, Predicts, Styled, Task, Teaches, shown_as
from headway.tasks.truncation import warn_of_truncation
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class AnsweringObjective:
    """Computes -(log P(start) + log P(end)) / 2 of each window, over its tokens.

    The target of a window without the answer is [CLS]. The loss counts windows. Devlin et al. 2019,
    section 4.2 and released code.
    """

    def __call__(self, model: BertQuestionAnswering, batch: AnswerBatch) -> Loss:
        texts = batch.texts
        logits = model(texts.tokens, texts.keys, texts.types).float()
        begin, end = logits.masked_fill(~texts.keys[..., None], -torch.inf).unbind(-1)  # B T
        total = 0.5 * (
            F.cross_entropy(begin, batch.starts, reduction="sum")
            + F.cross_entropy(end, batch.ends, reduction="sum")
        )
        return Loss(total, total.detach(), len(batch.starts))


AnswerJob = Job[AnswerBatch, Sequence[Question], AnswerScoring]


def answering_job(
    config: AnswerRunConfig, prepared: PreparedQuestions, start: EncoderBundle, machine: Machine
) -> AnswerJob:
    """Return the job that trains an encoder with a head for start and end of the answer."""
    training, pad = config.training, start.tokenizer.special_tokens.pad
    batches = batches_of(prepared.train, training, pad, machine)
    steps = planned_steps(training, batches.batches_per_epoch, least=1000, passes=2.0)
    config = override(config, steps, "the windows")
    return Job(
        config=config,
        build=with_head(start, config, BertQuestionAnswering),
        batches=batches,
        objective=AnsweringObjective(),
        held_out=prepared.held_out,
        evaluation=config.evaluation,
        bundle=lambda model: QuestionAnsweringBundle(model, prepared.reader),
        summary=Summary(
            model=describe_shape(start),
            batches=f"{update_size(training, batches.examples_per_epoch):,} windows",
            unit="windows",
        ),
        views=lambda batch: [replace(view_of(batch.texts), over_positions=True)],
        example=_example(prepared.held_out),
    )


def _example(questions: Sequence[Question]) -> Example:
    """Return the shortest question with its context, whose tokens a film has room for."""
    shortest = min(questions, key=lambda it: len(it.question) + len(it.context))
    answer = target_answer(shortest).text
    return Example(shortest.question, second=shortest.context, label=answer)


def prepare(config: AnswerRunConfig, folder: Path, machine: Machine, emit: Emit) -> AnswerJob:
    """Load the pre-trained encoder, and encode the questions."""
    start, data = load_encoder(config.training.start), config.data
    reader = AnswerReader(start.tokenizer, fitting(data.window, start.model), data.stride)
    prepared = prepare_answers(data, reader, start.config.token_types > 1, folder, emit)
    return answering_job(config, prepared, start, machine)


def student_job(
    config: AnswerRunConfig,
    teacher: QuestionAnsweringBundle,
    folder: Path,
    machine: Machine,
    emit: Emit,
) -> AnswerJob:
    """Return the job with the questions encoded by the reader of a question-answering model."""
    reader = teacher.reader
    windows = {"data.window": reader.window, "data.stride": reader.stride}
    config = override(config, windows, "the teacher")
    typed = teacher.model.config.bert.token_types > 1
    prepared = prepare_answers(config.data, reader, typed, folder, emit)
    encoder = EncoderBundle(teacher.model.bert, reader.tokenizer)
    return answering_job(config, prepared, encoder, machine)


def read_examples(
    bundle: QuestionAnsweringBundle,
    paths: Sequence[Path],
    config: RunSettings | None,
    options: AnswerScoring,
) -> Sequence[Question]:
    """Read the questions that have an answer. Warns of others, and of truncated questions."""
    questions = list(read_questions(list(paths)))
    answered = [question for question in questions if question.answers]
    if len(answered) < len(questions):
        text = f"{len(questions) - len(answered):,} questions without an answer are left out"
        warnings.warn(text, HeadwayWarning, stacklevel=2)
    return _with_warning(bundle, answered)


def held_out_examples(
    bundle: QuestionAnsweringBundle, run: Path, config: RunSettings, options: AnswerScoring
) -> Sequence[Question]:
    """Read the held-out questions of a run. Warns of questions that are truncated."""
    return _with_warning(bundle, answered_questions(config.data)[1])


def _with_warning(
    bundle: QuestionAnsweringBundle, questions: Sequence[Question]
) -> Sequence[Question]:
    """Return the questions, and warn of those that are truncated."""
    lengths = bundle.reader.lengths([question.question for question in questions])
    warn_of_truncation(lengths, bundle.reader.max_question_length, "question")
    return questions


def evaluate(
    bundle: QuestionAnsweringBundle,
    questions: Sequence[Question],
    options: AnswerScoring,
    share: Share,
) -> Scores:
    """Compute F1 and exact match of the most probable answers (`score_answers`).

    Raises DataError if there is no question, and for a question without an answer.
    """
    if not questions:
        raise DataError("no questions to evaluate")
    for question in questions:
        if not question.answers:
            raise DataError(f"question {question.id} has no answer in its context", question.where)
    chosen = [questions[i] for i in evenly_spaced(len(questions), options.questions)]
    pairs = [(question.question, question.context) for question in chosen]

    def compute(batch: Sequence[tuple[str, str]]) -> list[str]:
        return [best[0].text if best else "" for best in bundle.answer_all(batch)]

    batches = [pairs[i : i + QUESTIONS] for i in range(0, len(pairs), QUESTIONS)]
    predictions = [text for texts in share.each(batches, compute, len) for text in texts]
    targets = [[answer.text for answer in question.answers] for question in chosen]
    scores = score_answers(predictions, targets)
    metrics = (Metric("f1", scores.f1), Metric("exact", scores.exact))
    return Scores(metrics, {"questions": scores.questions})


def prediction_lines(
    bundle: QuestionAnsweringBundle, prediction: AnsweredQuestion, options: AnswerOptions
) -> list[Styled]:
    """Format the answers with their probabilities, separated by tabs."""
    parts: Styled = []
    for best in prediction.answers:
        words = " ".join(best.text.split())
        parts += [(words, "bold"), (f"\t{best.probability:.3f}", ""), ("\t", "")]
    return [parts[:-1]]


def pipeline_form(
    bundle: QuestionAnsweringBundle, prediction: AnsweredQuestion, options: AnswerOptions
) -> object:
    """Return the answers with their scores and spans, or only the best one."""
    answers = [
        {"answer": a.text, "score": a.probability, "start": a.start, "end": a.end}
        for a in prediction.answers
    ]
    return answers[0] if options.top == 1 and answers else answers


QUESTION_ANSWERING = Task(
    name="question_answering",
    config=AnswerRunConfig,
    recipes={"answer": answer},
    check=FILES.check,
    prepare=prepare,
    evaluation=AnswerScoring,
    score=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    sides=lambda data: sides_of(
        answered_questions(data), lambda one: f"{one.question}\n{one.context}"
    ),
    show_scores=shown_as("exact match {exact:.3f}   F1 {f1:.3f}   {questions:,} questions"),
    bundles={
        "bert-answerer": BundleSpec(QuestionAnsweringBundle, from_hugging_face, to_hugging_face)
    },
    predicts=Predicts(
        input=AnswerInput,
        options=AnswerOptions,
        show=prediction_lines,
        pipeline=Pipeline(form=pipeline_form, option_names={"top_k": "top"}),
    ),
    teaches=Teaches(
        data=AnswerDataConfig(),
        evaluation=AnswerEvaluationConfig(),
        unit="windows",
        job=student_job,
        decided=frozenset({"data.window", "data.stride"}),
    ),
    next_commands=('answer {run} "..." --context FILE', "eval {run}"),
)
