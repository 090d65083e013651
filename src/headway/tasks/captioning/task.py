"""The task of captioning."""

from __future__ import annotations

from headway.tasks.captioning.bundle import CaptionerBundle
from headway.tasks.captioning.config import (
    CaptionEvaluation,
    CaptionRunConfig,
    caption,
    caption_emoji,
)
from headway.tasks.captioning.data import check_captions, held_out_examples, read_examples
from headway.tasks.captioning.evaluation import evaluate
from headway.tasks.captioning.foreign import from_hugging_face, to_hugging_face
from headway.tasks.captioning.job import prepare
from headway.tasks.captioning.prediction import CaptionedFile, CaptionInput, CaptionOptions
from headway.tasks.captioning.show import draw_words, pipeline_form, prediction_lines, score_lines
from headway.tasks.task import BundleSpec, Draws, Pipeline, Predicts, Task

CAPTIONING = Task(
    name="captioning",
    config=CaptionRunConfig,
    recipes={"caption": caption, "caption-emoji": caption_emoji},
    check=check_captions,
    prepare=prepare,
    evaluation=CaptionEvaluation,
    evaluate=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    show_scores=score_lines,
    bundles={
        "captioner": BundleSpec(
            bundle=CaptionerBundle, foreign=from_hugging_face, export=to_hugging_face
        )
    },
    predicts=Predicts[CaptionerBundle, CaptionInput, CaptionOptions, CaptionedFile](
        input=CaptionInput,
        options=CaptionOptions,
        show=prediction_lines,
        model_options=lambda bundle: bundle.default_options,
        pipeline=Pipeline(form=pipeline_form, lists_one=True),
    ),
    draws=Draws(
        shown="where in the image the model attends for each word",
        draw=draw_words,
    ),
    next_commands=(
        "caption {run} IMAGES",
        "caption {run} IMAGE --plot words.png",
        "eval {run}",
    ),
)
