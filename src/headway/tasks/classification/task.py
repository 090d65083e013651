"""The task of classification."""

from __future__ import annotations

from headway.tasks.classification.bundle import ClassifierBundle, ClassInput, ClassOptions
from headway.tasks.classification.config import (
    ClassifyEvaluationConfig,
    ClassifyRunConfig,
    StudentDataConfig,
    classify,
    pairs,
    regress,
)
from headway.tasks.classification.data import check_extra, check_texts
from headway.tasks.classification.evaluation import evaluate, held_out_examples, read_examples
from headway.tasks.classification.foreign import from_hugging_face, to_hugging_face
from headway.tasks.classification.inputs import ClassColumns, read_line, read_table
from headway.tasks.classification.job import prepare, student_job
from headway.tasks.classification.show import pipeline_form, prediction_lines, score_lines
from headway.tasks.task import BundleSpec, NoOptions, Pipeline, Predicts, Table, Task, Teaches

CLASSIFICATION = Task(
    name="classification",
    config=ClassifyRunConfig,
    recipes={"classify": classify, "pairs": pairs, "regress": regress},
    check=check_texts,
    prepare=prepare,
    evaluation=NoOptions,
    evaluate=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    show_scores=score_lines,
    bundles={
        "gpt-classifier": BundleSpec(bundle=ClassifierBundle),
        "bert-classifier": BundleSpec(
            bundle=ClassifierBundle, foreign=from_hugging_face, export=to_hugging_face
        ),
    },
    predicts=Predicts(
        input=ClassInput,
        options=ClassOptions,
        show=prediction_lines,
        read_line=read_line,
        table=Table(columns=ClassColumns, read=read_table),
        pipeline=Pipeline(form=pipeline_form, option_names={"top_k": "top"}, lists_one=True),
    ),
    teaches=Teaches(
        data=StudentDataConfig(),
        evaluation=ClassifyEvaluationConfig(),
        job=student_job,
        decided=frozenset({"data.max_length"}),
        check=check_extra,
    ),
    next_commands=('classify {run} "..."', "eval {run}"),
)
