"""Masked language modelling and next-sentence prediction: pre-training of text encoders.

Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.base.errors import HeadwayWarning
from headway.bundle import EncoderBundle, FilledText, FillInput, FillOptions
from headway.data.formats import TABLES, ending
from headway.evaluation.scores import Scores
from headway.tasks.job import Emit, Job
from headway.tasks.masked_language_modeling.config import (
    EncoderDataConfig,
    EncoderRunConfig,
    EncoderScoring,
    bert,
    bert_domain,
    bert_tiny,
    roberta,
)
from headway.tasks.masked_language_modeling.data import (
    check_encoder,
    held_out_sentences,
    sentences_of_files,
)
from headway.tasks.masked_language_modeling.evaluation import USUAL, evaluate
from headway.tasks.masked_language_modeling.foreign import from_hugging_face, to_hugging_face
from headway.tasks.masked_language_modeling.held_out import (
    HeldOutText,
    held_out_folders,
    held_out_sources,
)
from headway.tasks.masked_language_modeling.job import prepare
from headway.tasks.masked_language_modeling.show import prediction_lines, score_lines
from headway.tasks.masked_language_modeling.teaching import STUDENTS
from headway.tasks.task import BundleSpec, Styled


class MaskedLanguageModeling:
    """The `Task` of masked language modelling."""

    name = "masked_language_modeling"
    config: type[Any] = EncoderRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {
        "bert": bert,
        "bert-tiny": bert_tiny,
        "bert-domain": bert_domain,
        "roberta": roberta,
    }
    bundles: Mapping[str, BundleSpec] = {
        "bert": BundleSpec(
            bundle=EncoderBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
        )
    }
    option_names: Mapping[str, str] = {"top_k": "top"}
    lists_one = False
    input: type[Any] = FillInput
    options: type[Any] = FillOptions
    evaluation: type[Any] = EncoderScoring
    students = STUDENTS
    next_commands: Sequence[str] = ('fill {run} "... [MASK] ..."', "eval {run}")

    def check(self, config: EncoderRunConfig) -> None:
        check_encoder(config)

    def prepare(self, config: EncoderRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def reads(self, path: Path) -> bool:
        """Return whether the file is running text, not a table."""
        return ending(path) not in TABLES

    def read(
        self,
        bundle: EncoderBundle,
        paths: Sequence[Path],
        config: Any | None,
        options: EncoderScoring,
    ) -> HeldOutText:
        data = config.data if isinstance(config, EncoderRunConfig) else EncoderDataConfig()
        read_sentences = partial(sentences_of_files, paths, data)
        return HeldOutText(sources={}, batch_size=1, read_sentences=read_sentences)

    def held_out(
        self, bundle: EncoderBundle, run: Path, config: Any, options: EncoderScoring
    ) -> HeldOutText:
        """Return the held-out text of the run; only its sentences if prepared data was removed."""
        folders = held_out_folders(config, run).values()
        missing = [str(folder) for folder in folders if not folder.is_dir()]
        if missing:
            text = f"no scores for masked words: the prepared data {', '.join(missing)} is missing"
            warnings.warn(text, HeadwayWarning, stacklevel=2)
        return HeldOutText(
            sources={} if missing else held_out_sources(bundle, config, run),
            batch_size=config.training.batch_size,
            read_sentences=partial(held_out_sentences, config.data),
        )

    def evaluate(
        self,
        bundle: EncoderBundle,
        examples: HeldOutText,
        options: EncoderScoring = USUAL,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(bundle, examples, options, progress)

    def pipeline_form(
        self, bundle: EncoderBundle, prediction: FilledText, options: FillOptions
    ) -> Any:
        masks = [
            [
                {
                    "sequence": bundle.filled(prediction.text, number, word),
                    "score": word.probability,
                    "token": word.token,
                    "token_str": word.word,
                }
                for word in words
            ]
            for number, words in enumerate(prediction.predictions)
        ]
        return masks[0] if len(masks) == 1 else masks

    def show_prediction(
        self, bundle: EncoderBundle, prediction: FilledText, options: FillOptions
    ) -> list[Styled]:
        return prediction_lines(prediction)

    def show_scores(self, scores: Scores) -> list[str]:
        return score_lines(scores)


TASK = MaskedLanguageModeling()
