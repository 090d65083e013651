"""The task of translation: its output, the files of other libraries, and the record of its
parts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway import interop
from headway.evaluation.scores import Scores
from headway.models import Translator
from headway.tasks.task import (
    BundleSpec,
    Compares,
    Documents,
    Foreign,
    Pipeline,
    Predicts,
    Styled,
    Task,
)
from headway.tasks.translation import comparison, libretranslate
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.comet import COMET
from headway.tasks.translation.config import (
    TranslationRunConfig,
    TranslationScoring,
    emoji_names,
    span_corruption,
    text_to_text,
    translate,
    translate_multi30k,
)
from headway.tasks.translation.data import sides
from headway.tasks.translation.document_translation import (
    DocumentOptions,
    document_lines,
    translate_document,
)
from headway.tasks.translation.documents.opening import DOCUMENTS
from headway.tasks.translation.evaluation import PLACEHOLDERS, REPAIRED, evaluate
from headway.tasks.translation.examples import held_out_examples, read_examples
from headway.tasks.translation.job import check, prepare
from headway.tasks.translation.options import Translated, TranslateInput, TranslateOptions
from headway.tasks.translation.origin import origin_of_foreign

NAMES = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER"}
TEXT_NAMES = {
    "exact": "exact match",
    "f1": "F1",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "cer": "character error rate",
}


def prediction_lines(
    bundle: TranslatorBundle, prediction: Translated, options: TranslateOptions
) -> list[Styled]:
    """Format one line per translation, then the alignment if there is one.

    Line breaks in a translation become spaces. With several translations per input, a line starts
    with the number of the input and the score.
    """
    lines: list[Styled] = []
    for translation in prediction.translations:
        number = f"{prediction.line}\t" if options.nbest > 1 else ""
        score = f"{translation.score:.4f}\t" if options.scores or options.nbest > 1 else ""
        lines.append([(number + score + " ".join(translation.text.split("\n")), "")])
    if prediction.alignment is not None:
        from headway.inspection import heat_map

        words = prediction.alignment
        drawn = heat_map(words["target"], words["source"], words["weights"])
        lines.append([("\n" + drawn + "\n", "")])
    return lines


def pipeline_form(
    bundle: TranslatorBundle, prediction: Translated, options: TranslateOptions
) -> dict[str, str]:
    """Return the best translation."""
    return {"translation_text": prediction.translations[0].text}


def _search(details: Mapping[str, Any]) -> str:
    """Name the search that found the translations."""
    if "mbr" in details:
        parts = [f"minimum Bayes risk of {details['mbr']} samples"]
    else:
        parts = [f"beam {details['beam']}", f"length penalty {details['length_penalty']:g}"]
    if "early_stopping" in details:
        parts.append("early stopping")
    if "coverage" in details:
        parts.append(f"coverage penalty {details['coverage']:g}")
    if "ensemble" in details:
        parts.append(f"ensemble of {len(details['ensemble']) + 1}")
    return ", ".join(parts)


def score_lines(scores: Scores) -> list[str]:
    """Format the data and the search, the metrics with their signatures, and the breakdowns.

    Exact match, F1, ROUGE and character error rate replace BLEU and chrF, unless all metrics are
    requested.
    """
    details = scores.details
    if "sentences" not in scores.counts:  # span corruption, which is not translated
        return [
            f"{details['pairs']}: nats {scores['nats']:.4f} per token of "
            f"{scores.counts['target_tokens']:,} tokens of corrupted spans and sentinels"
        ]
    texts = [metric for metric in scores.metrics if metric.name in TEXT_NAMES]
    signed = [metric for metric in scores.metrics if metric.signature is not None]
    if texts and "ter" not in scores.numbers():  # not all metrics are requested
        signed = []
    lines = [
        f"{details['pairs']}: {scores.counts['sentences']:,} sentences, {_search(details)}",
        *(f"{TEXT_NAMES[m.name]} {m.value:.3f}" for m in texts),
        *(f"{NAMES[m.name]} {m.value:.2f}   {m.signature}" for m in signed),
    ]
    if "nats" in scores:
        lines.append(
            f"nats {scores['nats']:.4f} per token of {scores.counts['target_tokens']:,} reference "
            "tokens"
        )
    if PLACEHOLDERS in scores:
        repaired = f", {scores[REPAIRED]:.3f} after repair" if REPAIRED in scores else ""
        lines.append(
            f"placeholders right {scores[PLACEHOLDERS]:.3f}{repaired}, of "
            f"{scores.counts['with_placeholders']:,} sentences with placeholders"
        )
    if COMET in scores:
        lines.append(f"COMET {scores[COMET]:.4f}   {details[f'{COMET}_signature']}")
    for name, values in details.get("by_direction", {}).items():
        lines.append(
            f"{name}: BLEU {values['bleu']:.2f}, chrF {values['chrf']:.2f} of "
            f"{values['sentences']:,} sentences"
        )
    if note := details.get("note"):
        lines.append(f"note      {note}")
    for low, high, bleu in details.get("by_length", ()):
        lines.append(f"BLEU {bleu:.1f} at {_range(low, high)} source words")
    for group in details.get("by_frequency", ()):
        lines.append(
            f"F1 {group['f1']:.1f} of {group['words']:,} words that are "
            f"{_range(group['least'], group['most'])} times in the training pairs"
        )
    return lines


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def from_hugging_face(model: Translator, folder: Path, model_type: str) -> TranslatorBundle:
    """Make a bundle of the model with the tokenizers and the settings of the folder."""
    vocabulary = model.config.target_vocabulary
    settings = interop.read_folder_settings(folder, "translator")
    tokenizers = interop.read_translator_tokenizers(folder, vocabulary)
    origin = origin_of_foreign(folder, model_type)
    return TranslatorBundle(model, tokenizers, origin=origin, settings=settings)


def to_hugging_face(bundle: TranslatorBundle, folder: Path, family: str | None) -> str:
    """Write a Hugging Face folder with the translator and its tokenizers."""
    return interop.write_translator(bundle.model, bundle.tokenizer, folder, family, bundle.settings)


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
    score=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    sides=sides,
    show_scores=score_lines,
    bundles={"translator": BundleSpec(TranslatorBundle, from_hugging_face, to_hugging_face)},
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
