"""Translation of sentences from one language to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.evaluation.scores import Scores
from headway.tasks.job import Emit, Job
from headway.tasks.task import BundleSpec, Styled
from headway.tasks.translation import libretranslate
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationRunConfig, TranslationScoring
from headway.tasks.translation.document_translation import (
    DocumentOptions,
    DocumentReport,
    document_lines,
    translate_document,
)
from headway.tasks.translation.documents.opening import DOCUMENTS
from headway.tasks.translation.evaluation import FIVE_BEAMS, evaluate
from headway.tasks.translation.examples import (
    TranslationExamples,
    held_out_examples,
    read_examples,
)
from headway.tasks.translation.foreign import (
    from_hugging_face,
    to_ctranslate2,
    to_hugging_face,
)
from headway.tasks.translation.job import check, prepare
from headway.tasks.translation.lines import Translated
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from headway.tasks.translation.recipes import (
    emoji_names,
    span_corruption,
    text_to_text,
    translate,
    translate_multi30k,
)
from headway.tasks.translation.show import prediction_lines, score_lines
from headway.tasks.translation.target_languages import check_chosen


def _between(bundle: TranslatorBundle, options: TranslationScoring) -> TranslatorBundle:
    """Return the bundle for the languages of the options. Raises UsageError if the model needs
    languages, and none is chosen."""
    chosen = bundle.into(options.to, options.from_language)
    check_chosen(chosen.tokenizer)
    return chosen


class Translating:
    """The `Task` of translation."""

    name = "translation"
    config: type[Any] = TranslationRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {
        "translate": translate,
        "translate-multi30k": translate_multi30k,
        "emoji-names": emoji_names,
        "text-to-text": text_to_text,
        "span-corruption": span_corruption,
    }
    bundles: Mapping[str, BundleSpec] = {
        "translator": BundleSpec(
            bundle=TranslatorBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
            export_to_ctranslate2=to_ctranslate2,
        )
    }
    input: type[Any] = TranslateInput
    options: type[Any] = TranslateOptions
    evaluation: type[Any] = TranslationScoring
    option_names: Mapping[str, str] = {"tgt_lang": "to", "src_lang": "from_language"}
    lists_one = True
    foreign_fields: Sequence[str] = libretranslate.FIELDS
    document_suffixes: Sequence[str] = tuple(DOCUMENTS)
    document_options: type[Any] = DocumentOptions
    next_commands: Sequence[str] = (
        'translate {run} "..."',
        'translate {run} --align "..."',
        "eval {run}",
    )

    def check(self, config: TranslationRunConfig) -> None:
        check(config)

    def prepare(
        self, config: TranslationRunConfig, folder: Path, machine: Machine, emit: Emit
    ) -> Job:
        return prepare(config, folder, machine, emit)

    def read(
        self,
        bundle: TranslatorBundle,
        paths: Sequence[Path],
        config: Any | None,
        options: TranslationScoring,
    ) -> TranslationExamples:
        return read_examples(_between(bundle, options), paths, config, options)

    def held_out(
        self, bundle: TranslatorBundle, run: Path, config: Any, options: TranslationScoring
    ) -> TranslationExamples:
        return held_out_examples(_between(bundle, options), run, config, options)

    def evaluate(
        self,
        bundle: TranslatorBundle,
        examples: TranslationExamples,
        options: TranslationScoring = FIVE_BEAMS,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(_between(bundle, options), examples, options, progress)

    def comparison_options(self, config: TranslationRunConfig) -> Mapping[str, Any]:
        from headway.tasks.translation import comparison

        return comparison.comparison_options(config)

    def evaluate_in_depth(
        self, bundle: TranslatorBundle, examples: TranslationExamples, options: TranslationScoring
    ) -> Scores:
        from headway.tasks.translation import comparison

        return comparison.evaluate_in_depth(_between(bundle, options), examples, options)

    def comparison_tables(self, variants: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
        from headway.tasks.translation import comparison

        return comparison.tables(variants)

    def comparison_plots(
        self, variants: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path, title: str
    ) -> list[tuple[str, str]]:
        from headway.tasks.translation import comparison

        return comparison.plots(variants, folder, title)

    def show_prediction(
        self, bundle: TranslatorBundle, prediction: Translated, options: TranslateOptions
    ) -> list[Styled]:
        return prediction_lines(prediction, options)

    def pipeline_form(
        self, bundle: TranslatorBundle, prediction: Translated, options: TranslateOptions
    ) -> dict[str, Any]:
        return {"translation_text": prediction.translations[0].text}

    def is_foreign(self, fields: Mapping[str, Any]) -> bool:
        return libretranslate.is_request(fields)

    def read_foreign(
        self, bundle: TranslatorBundle, fields: Mapping[str, Any]
    ) -> tuple[list[TranslateInput], TranslateOptions]:
        return libretranslate.read_request(bundle, fields)

    def targets(self, bundle: TranslatorBundle) -> Mapping[str, Sequence[str]]:
        return libretranslate.targets_of(bundle)

    def foreign_form(
        self, fields: Mapping[str, Any], predictions: Sequence[Translated]
    ) -> dict[str, Any]:
        return libretranslate.reply(fields, predictions)

    def write_document(
        self,
        bundle: TranslatorBundle,
        path: Path,
        output: Path,
        config: Any | None,
        chosen: DocumentOptions,
        options: TranslateOptions,
    ) -> DocumentReport:
        return translate_document(bundle, path, output, config, chosen, options)

    def show_document(self, report: DocumentReport) -> list[str]:
        return document_lines(report)

    def show_scores(self, scores: Scores) -> list[str]:
        return score_lines(scores)


TASK = Translating()
