"""The task of language modelling."""

from __future__ import annotations

from headway.bundle import TextBundle
from headway.tasks.language_modeling.config import (
    LanguageEvaluationConfig,
    LanguageRunConfig,
    LanguageScoring,
    StudentDataConfig,
    gpt,
    gpt_shakespeare,
    gpt_tiny,
)
from headway.tasks.language_modeling.data import check_sources
from headway.tasks.language_modeling.evaluation import evaluate, held_out_text, read_text
from headway.tasks.language_modeling.foreign import (
    from_hugging_face,
    to_ctranslate2,
    to_hugging_face,
)
from headway.tasks.language_modeling.job import prepare, student_job
from headway.tasks.language_modeling.show import score_lines
from headway.tasks.sections import TextStudentTrainingConfig
from headway.tasks.task import BundleSpec, Task, Teaches

LANGUAGE_MODELING = Task(
    name="language_modeling",
    config=LanguageRunConfig,
    recipes={"gpt": gpt, "gpt-tiny": gpt_tiny, "gpt-shakespeare": gpt_shakespeare},
    check=check_sources,
    prepare=prepare,
    evaluation=LanguageScoring,
    evaluate=evaluate,
    read=read_text,
    held_out=held_out_text,
    show_scores=score_lines,
    bundles={
        "gpt": BundleSpec(
            bundle=TextBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
            export_to_ctranslate2=to_ctranslate2,
        )
    },
    teaches=Teaches(
        data=StudentDataConfig(),
        evaluation=LanguageEvaluationConfig(),
        training=TextStudentTrainingConfig(),
        unit="sequences",
        job=student_job,
    ),
    next_commands=(
        'generate {run} "..."',
        "chat {run}",
        "eval {run}",
        "export {run} --to hf",
    ),
)
