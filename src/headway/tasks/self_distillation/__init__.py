"""Self-distillation: an image encoder that learns without labels. Caron et al. 2021 (DINO)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.bundle import ImageEncoderBundle
from headway.evaluation.scores import Scores
from headway.tasks.image_data import check_images
from headway.tasks.job import Emit, Job
from headway.tasks.self_distillation.config import DinoRunConfig, dino
from headway.tasks.self_distillation.data import NeighbourExamples, held_out_images, images_of_files
from headway.tasks.self_distillation.evaluation import DEFAULTS, NeighbourOptions, evaluate
from headway.tasks.self_distillation.foreign import from_hugging_face, to_hugging_face
from headway.tasks.self_distillation.job import prepare
from headway.tasks.self_distillation.show import score_line
from headway.tasks.task import BundleSpec


class SelfDistillation:
    """The `Task` of self-distillation, whose models are image encoders."""

    name = "self_distillation"
    config: type[Any] = DinoRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {"dino": dino}
    bundles: Mapping[str, BundleSpec] = {
        "vit": BundleSpec(
            bundle=ImageEncoderBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
        )
    }
    evaluation: type[Any] = NeighbourOptions
    next_commands: Sequence[str] = ("embed {run} IMAGES --plot images.png", "eval {run}")

    def check(self, config: DinoRunConfig) -> None:
        check_images(config.data, config.recipe)

    def prepare(self, config: DinoRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def read(
        self,
        bundle: ImageEncoderBundle,
        paths: Sequence[Path],
        config: Any | None,
        options: NeighbourOptions,
    ) -> NeighbourExamples:
        return images_of_files(paths, options.known, config)

    def held_out(
        self, bundle: ImageEncoderBundle, run: Path, config: Any, options: NeighbourOptions
    ) -> NeighbourExamples:
        return held_out_images(config, run, options.known)

    def evaluate(
        self,
        bundle: ImageEncoderBundle,
        examples: NeighbourExamples,
        options: NeighbourOptions = DEFAULTS,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(bundle, examples, options, progress)

    def show_scores(self, scores: Scores) -> list[str]:
        return [score_line(scores)]


TASK = SelfDistillation()
