"""The task of translation."""

from __future__ import annotations

from headway.tasks.task import (
    BundleSpec,
    Compares,
    Documents,
    Foreign,
    Pipeline,
    Predicts,
    Task,
)
from headway.tasks.translation import comparison, libretranslate
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationRunConfig, TranslationScoring
from headway.tasks.translation.data import sides
from headway.tasks.translation.document_translation import (
    DocumentOptions,
    document_lines,
    translate_document,
)
from headway.tasks.translation.documents.opening import DOCUMENTS
from headway.tasks.translation.evaluation import evaluate
from headway.tasks.translation.examples import held_out_examples, read_examples
from headway.tasks.translation.foreign import from_hugging_face, to_hugging_face
from headway.tasks.translation.job import check, prepare
from headway.tasks.translation.options import Translated, TranslateInput, TranslateOptions
from headway.tasks.translation.recipes import (
    emoji_names,
    span_corruption,
    text_to_text,
    translate,
    translate_multi30k,
)
from headway.tasks.translation.show import pipeline_form, prediction_lines, score_lines

TRANSLATION = Task(
    name="translation",
    config=TranslationRunConfig,
    recipes={
        "translate": translate,
        "translate-multi30k": translate_multi30k,
        "emoji-names": emoji_names,
        "text-to-text": text_to_text,
        "span-corruption": span_corruption,
    },
    check=check,
    prepare=prepare,
    evaluation=TranslationScoring,
    evaluate=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    sides=sides,
    show_scores=score_lines,
    bundles={
        "translator": BundleSpec(
            bundle=TranslatorBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
        )
    },
    predicts=Predicts[TranslatorBundle, TranslateInput, TranslateOptions, Translated](
        input=TranslateInput,
        options=TranslateOptions,
        show=prediction_lines,
        model_options=lambda bundle: bundle.default_options,
        pipeline=Pipeline(
            form=pipeline_form,
            option_names={"tgt_lang": "to", "src_lang": "from_language"},
            lists_one=True,
        ),
        foreign=Foreign(
            fields=libretranslate.FIELDS,
            is_request=libretranslate.is_request,
            read=libretranslate.read_request,
            targets=libretranslate.targets_of,
            reply=libretranslate.reply,
        ),
    ),
    compares=Compares(
        options=comparison.comparison_options,
        evaluate=comparison.evaluate_in_depth,
        tables=comparison.tables,
        plots=comparison.plots,
    ),
    documents=Documents(
        suffixes=tuple(DOCUMENTS),
        settings=DocumentOptions,
        write=translate_document,
        show=document_lines,
    ),
    next_commands=(
        'translate {run} "..."',
        'translate {run} --align "..."',
        "eval {run}",
    ),
)
