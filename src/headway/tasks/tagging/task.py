"""The task of tagging."""

from __future__ import annotations

from headway.tasks.tagging.bundle import TaggerBundle, TagOptions
from headway.tasks.tagging.config import TagDataConfig, TagEvaluationConfig, TagRunConfig, tag
from headway.tasks.tagging.data import check_tags
from headway.tasks.tagging.evaluation import evaluate, held_out_examples, read_examples
from headway.tasks.tagging.foreign import from_hugging_face, to_hugging_face
from headway.tasks.tagging.job import prepare, student_job
from headway.tasks.tagging.show import pipeline_form, prediction_lines, score_lines
from headway.tasks.task import BundleSpec, NoOptions, Pipeline, Predicts, Task, Teaches, TextInput

TAGGING = Task(
    name="tagging",
    config=TagRunConfig,
    recipes={"tag": tag},
    check=check_tags,
    prepare=prepare,
    evaluation=NoOptions,
    evaluate=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    show_scores=score_lines,
    bundles={
        "bert-tagger": BundleSpec(
            bundle=TaggerBundle, foreign=from_hugging_face, export=to_hugging_face
        )
    },
    predicts=Predicts(
        input=TextInput,
        options=TagOptions,
        show=prediction_lines,
        pipeline=Pipeline(form=pipeline_form),
    ),
    teaches=Teaches(
        data=TagDataConfig(),
        evaluation=TagEvaluationConfig(),
        unit="sentences",
        job=student_job,
        decided=frozenset({"data.max_length", "evaluation.metric"}),
    ),
    next_commands=('tag {run} "..."', "eval {run}"),
)
