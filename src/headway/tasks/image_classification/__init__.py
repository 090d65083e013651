"""Classification of images and sounds. Dosovitskiy et al. 2021."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.bundle import label_scores
from headway.data.image_examples import ImageExamples
from headway.evaluation.scores import Scores
from headway.tasks.image_classification.bundle import (
    ClassifiedImage,
    ImageClassifierBundle,
    ImageClassOptions,
    ImageInput,
)
from headway.tasks.image_classification.config import VisionRunConfig, sound, vision, vision_digits
from headway.tasks.image_classification.data import check, held_out_images, images_of_files
from headway.tasks.image_classification.evaluation import evaluate
from headway.tasks.image_classification.foreign import from_hugging_face, to_hugging_face
from headway.tasks.image_classification.job import prepare
from headway.tasks.image_classification.show import prediction_line, score_line
from headway.tasks.job import Emit, Job
from headway.tasks.task import NO_OPTIONS, BundleSpec, NoOptions, Styled, TaskDefaults


class ImageClassification(TaskDefaults):
    """The `Task` of image classification."""

    name = "image_classification"
    config: type[Any] = VisionRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {
        "vision": vision,
        "vision-digits": vision_digits,
        "sound": sound,
    }
    bundles: Mapping[str, BundleSpec] = {
        "vit-classifier": BundleSpec(
            bundle=ImageClassifierBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
        )
    }
    option_names: Mapping[str, str] = {"top_k": "top"}
    lists_one = False
    input: type[Any] = ImageInput
    options: type[Any] = ImageClassOptions
    next_commands: Sequence[str] = (
        "classify {run} FILES",
        "eval {run} --confusion confusion.png",
    )

    def check(self, config: VisionRunConfig) -> None:
        check(config)

    def prepare(self, config: VisionRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def read(
        self,
        bundle: ImageClassifierBundle,
        paths: Sequence[Path],
        config: Any | None,
        options: NoOptions,
    ) -> ImageExamples:
        return images_of_files(paths, config)

    def held_out(
        self, bundle: ImageClassifierBundle, run: Path, config: Any, options: NoOptions
    ) -> ImageExamples:
        return held_out_images(config, run)

    def evaluate(
        self,
        bundle: ImageClassifierBundle,
        examples: ImageExamples,
        options: NoOptions = NO_OPTIONS,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(bundle, examples, progress)

    def pipeline_form(
        self,
        bundle: ImageClassifierBundle,
        prediction: ClassifiedImage,
        options: ImageClassOptions,
    ) -> list[dict[str, Any]]:
        return label_scores(prediction.probabilities)

    def show_prediction(
        self,
        bundle: ImageClassifierBundle,
        prediction: ClassifiedImage,
        options: ImageClassOptions,
    ) -> list[Styled]:
        return [prediction_line(prediction, options)]

    def show_scores(self, scores: Scores) -> list[str]:
        return [score_line(scores)]


TASK = ImageClassification()
