"""Image captioning. Xu et al. 2015; Rothe et al. 2020."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.evaluation.scores import Scores
from headway.tasks.captioning.bundle import CaptionerBundle
from headway.tasks.captioning.config import CaptionRunConfig, caption, caption_emoji
from headway.tasks.captioning.data import (
    CaptionExamples,
    check_captions,
    examples_of_files,
    held_out_examples,
)
from headway.tasks.captioning.evaluation import DEFAULTS, CaptionEvaluation, evaluate
from headway.tasks.captioning.foreign import from_hugging_face, to_hugging_face
from headway.tasks.captioning.job import prepare
from headway.tasks.captioning.prediction import CaptionedFile, CaptionInput, CaptionOptions
from headway.tasks.captioning.show import draw_words, prediction_lines, score_lines
from headway.tasks.job import Emit, Job
from headway.tasks.task import BundleSpec, Styled


class Captioning:
    """The `Task` of captioning."""

    name = "captioning"
    config: type[Any] = CaptionRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {"caption": caption, "caption-emoji": caption_emoji}
    bundles: Mapping[str, BundleSpec] = {
        "captioner": BundleSpec(
            bundle=CaptionerBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
        )
    }
    option_names: Mapping[str, str] = {}
    lists_one = True
    input: type[Any] = CaptionInput
    options: type[Any] = CaptionOptions
    evaluation: type[Any] = CaptionEvaluation
    plotted = "where in the image the model attends for each word"
    next_commands: Sequence[str] = (
        "caption {run} IMAGES",
        "caption {run} IMAGE --plot words.png",
        "eval {run}",
    )

    def check(self, config: CaptionRunConfig) -> None:
        check_captions(config)

    def prepare(self, config: CaptionRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def read(
        self,
        bundle: CaptionerBundle,
        paths: Sequence[Path],
        config: Any | None,
        options: CaptionEvaluation,
    ) -> CaptionExamples:
        return examples_of_files(paths, config, bundle.languages)

    def held_out(
        self, bundle: CaptionerBundle, run: Path, config: Any, options: CaptionEvaluation
    ) -> CaptionExamples:
        return held_out_examples(config, run, options.split)

    def evaluate(
        self,
        bundle: CaptionerBundle,
        examples: CaptionExamples,
        options: CaptionEvaluation = DEFAULTS,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(bundle, examples, options, progress)

    def pipeline_form(
        self, bundle: CaptionerBundle, prediction: CaptionedFile, options: CaptionOptions
    ) -> dict[str, Any]:
        return {"generated_text": prediction.captions[0].text}

    def show_prediction(
        self, bundle: CaptionerBundle, prediction: CaptionedFile, options: CaptionOptions
    ) -> list[Styled]:
        return prediction_lines(prediction, options)

    def draw(
        self,
        bundle: CaptionerBundle,
        prediction: CaptionedFile,
        options: CaptionOptions,
        path: Path,
    ) -> None:
        draw_words(bundle, prediction, options, path)

    def show_scores(self, scores: Scores) -> list[str]:
        return score_lines(scores)


TASK = Captioning()
