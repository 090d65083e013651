"""The task of image classification."""

from __future__ import annotations

from headway.tasks.image_classification.bundle import (
    ImageClassifierBundle,
    ImageClassOptions,
    ImageInput,
)
from headway.tasks.image_classification.config import VisionRunConfig, sound, vision, vision_digits
from headway.tasks.image_classification.data import check, held_out_images, images_of_files
from headway.tasks.image_classification.evaluation import evaluate
from headway.tasks.image_classification.foreign import from_hugging_face, to_hugging_face
from headway.tasks.image_classification.job import prepare
from headway.tasks.image_classification.show import pipeline_form, prediction_lines, score_lines
from headway.tasks.task import BundleSpec, NoOptions, Pipeline, Predicts, Task

IMAGE_CLASSIFICATION = Task(
    name="image_classification",
    config=VisionRunConfig,
    recipes={"vision": vision, "vision-digits": vision_digits, "sound": sound},
    check=check,
    prepare=prepare,
    evaluation=NoOptions,
    evaluate=evaluate,
    read=images_of_files,
    held_out=held_out_images,
    show_scores=score_lines,
    bundles={
        "vit-classifier": BundleSpec(
            bundle=ImageClassifierBundle, foreign=from_hugging_face, export=to_hugging_face
        )
    },
    predicts=Predicts(
        input=ImageInput,
        options=ImageClassOptions,
        show=prediction_lines,
        pipeline=Pipeline(form=pipeline_form, option_names={"top_k": "top"}),
    ),
    next_commands=("classify {run} FILES", "eval {run} --confusion confusion.png"),
)
