"""The task of masked language modelling."""

from __future__ import annotations

from headway.bundle import EncoderBundle, FillInput, FillOptions
from headway.tasks.masked_language_modeling.config import (
    EncoderRunConfig,
    EncoderScoring,
    StudentDataConfig,
    StudentEvaluationConfig,
    bert,
    bert_domain,
    bert_tiny,
    roberta,
    settings_of_student,
)
from headway.tasks.masked_language_modeling.data import check_encoder
from headway.tasks.masked_language_modeling.evaluation import evaluate
from headway.tasks.masked_language_modeling.foreign import from_hugging_face, to_hugging_face
from headway.tasks.masked_language_modeling.held_out import held_out_text, read_text, reads_text
from headway.tasks.masked_language_modeling.job import held_out_batches, prepare, student_job
from headway.tasks.masked_language_modeling.show import (
    pipeline_form,
    prediction_lines,
    score_lines,
)
from headway.tasks.sections import TextStudentTrainingConfig
from headway.tasks.task import BundleSpec, Pipeline, Predicts, Task, Teaches
from headway.training import LayersConfig

MASKED_LANGUAGE_MODELING = Task(
    name="masked_language_modeling",
    config=EncoderRunConfig,
    recipes={"bert": bert, "bert-tiny": bert_tiny, "bert-domain": bert_domain, "roberta": roberta},
    check=check_encoder,
    prepare=prepare,
    evaluation=EncoderScoring,
    evaluate=evaluate,
    read=read_text,
    held_out=held_out_text,
    reads=reads_text,
    show_scores=score_lines,
    bundles={
        "bert": BundleSpec(bundle=EncoderBundle, foreign=from_hugging_face, export=to_hugging_face)
    },
    predicts=Predicts(
        input=FillInput,
        options=FillOptions,
        show=prediction_lines,
        pipeline=Pipeline(form=pipeline_form, option_names={"top_k": "top"}),
    ),
    teaches=Teaches(
        data=StudentDataConfig(),
        evaluation=StudentEvaluationConfig(),
        training=TextStudentTrainingConfig(),
        distillation=LayersConfig(),
        unit="sequences",
        job=student_job,
        settings=settings_of_student,
        compared=held_out_batches,
        next_commands=(
            "train classify TEXTS --from {run}",
            "embed {run} TEXTS --output vectors.npz",
        ),
    ),
    next_commands=('fill {run} "... [MASK] ..."', "eval {run}"),
)
