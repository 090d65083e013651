"""The task of question answering."""

from __future__ import annotations

from headway.tasks.question_answering.bundle import (
    AnswerInput,
    AnswerOptions,
    QuestionAnsweringBundle,
)
from headway.tasks.question_answering.config import (
    AnswerDataConfig,
    AnswerEvaluationConfig,
    AnswerRunConfig,
    AnswerScoring,
    answer,
)
from headway.tasks.question_answering.data import check_answers
from headway.tasks.question_answering.evaluation import evaluate, held_out_examples, read_examples
from headway.tasks.question_answering.foreign import from_hugging_face, to_hugging_face
from headway.tasks.question_answering.job import prepare, student_job
from headway.tasks.question_answering.show import pipeline_form, prediction_lines, score_lines
from headway.tasks.task import BundleSpec, Pipeline, Predicts, Task, Teaches

QUESTION_ANSWERING = Task(
    name="question_answering",
    config=AnswerRunConfig,
    recipes={"answer": answer},
    check=check_answers,
    prepare=prepare,
    evaluation=AnswerScoring,
    evaluate=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    show_scores=score_lines,
    bundles={
        "bert-answerer": BundleSpec(
            bundle=QuestionAnsweringBundle, foreign=from_hugging_face, export=to_hugging_face
        )
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
