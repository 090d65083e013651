"""The task of self-distillation, whose models are image encoders."""

from __future__ import annotations

from headway.bundle import ImageEncoderBundle
from headway.tasks.self_distillation.config import DinoRunConfig, NeighbourOptions, dino
from headway.tasks.self_distillation.data import check, held_out_images, images_of_files
from headway.tasks.self_distillation.evaluation import evaluate
from headway.tasks.self_distillation.foreign import from_hugging_face, to_hugging_face
from headway.tasks.self_distillation.job import prepare
from headway.tasks.self_distillation.show import score_lines
from headway.tasks.task import BundleSpec, Task

SELF_DISTILLATION = Task(
    name="self_distillation",
    config=DinoRunConfig,
    recipes={"dino": dino},
    check=check,
    prepare=prepare,
    evaluation=NeighbourOptions,
    evaluate=evaluate,
    read=images_of_files,
    held_out=held_out_images,
    show_scores=score_lines,
    bundles={
        "vit": BundleSpec(
            bundle=ImageEncoderBundle, foreign=from_hugging_face, export=to_hugging_face
        )
    },
    next_commands=("embed {run} IMAGES --plot images.png", "eval {run}"),
)
