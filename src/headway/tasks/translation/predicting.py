"""`headway translate`: the options of a user applied to the texts of a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.errors import UsageError
from headway.tasks.translation.ensembles import ensemble
from headway.tasks.translation.glossary import Glossary, required_phrases
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from headway.tasks.translation.search import Translation
from headway.text import split_sentences

if TYPE_CHECKING:
    from headway.tasks.translation.bundle import TranslatorBundle


@dataclass(frozen=True)
class RankedTranslation:
    """One of the translations of a sentence.

    log_probability: in nats. score: the value by which translations are ranked. finished: False if
    it was truncated at the maximum length.
    """

    text: str
    score: float
    log_probability: float
    finished: bool


@dataclass(frozen=True)
class Translated:
    """A sentence and its translations, best first.

    line: the number of the input. alignment: source and target words, and the attention weights of
    each target word (`inspection.Alignment.as_dict`); None if it was not requested, if the
    translation is empty, or if the text was split.
    """

    line: int
    source: str
    translations: tuple[RankedTranslation, ...]
    alignment: Mapping[str, Any] | None = None


def _joined(sentences: Sequence[Translation]) -> RankedTranslation:
    """Return the translation of a text that was split: its score is the mean of its sentences'."""
    return RankedTranslation(
        " ".join(sentence.text for sentence in sentences),
        sum(sentence.score for sentence in sentences) / len(sentences),
        sum(sentence.log_probability for sentence in sentences),
        all(sentence.finished for sentence in sentences),
    )


def predict(
    bundle: TranslatorBundle,
    inputs: Sequence[TranslateInput],
    options: TranslateOptions,
    first: int,
) -> list[Translated]:
    """Return the translations of the inputs; see `TranslatorBundle.predict`."""
    if options.align:
        from headway.inspection import check_aligns

        check_aligns(bundle)
    bundle = bundle.into(options.to, options.from_language)
    if options.nbest > options.beam:
        raise UsageError(
            f"nbest={options.nbest}: must be between 1 and the beam width, {options.beam}"
        )
    searching = ensemble(bundle, options.ensemble, options.to, options.from_language)
    texts = [item.text for item in inputs]
    parts = [_parts(bundle, text, f"text {line}") for line, text in enumerate(texts, start=first)]
    flat = [part for of_text in parts for part in of_text]
    lists = iter(_lists(searching, flat, options, first))
    outputs = []
    for line, (text, of_text) in enumerate(zip(texts, parts, strict=True), start=first):
        if len(of_text) > 1:
            joined = _joined([next(lists)[0] for _ in of_text])
            outputs.append(Translated(line, text, (joined,)))
            continue
        ranked = tuple(
            RankedTranslation(best.text, best.score, best.log_probability, best.finished)
            for best in next(lists)
        )
        words = _aligned(bundle, text, ranked[0].text) if options.align else None
        outputs.append(Translated(line, text, ranked, words))
    return outputs


def _parts(bundle: TranslatorBundle, text: str, name: str) -> list[str]:
    """Return a text, or its sentences if it is too long. Raises UsageError for a sentence that
    is too long."""
    encode = bundle.tokenizer.source.encode
    if len(encode(text.strip())) <= bundle.longest:
        return [text]
    tag, text = bundle.target_languages.split_tag(text)
    sentences = split_sentences(text)
    for number, sentence in enumerate(sentences, start=1):
        tokens = len(encode(sentence))
        bundle.check_length(tokens, name if len(sentences) == 1 else f"{name}, sentence {number},")
    return [tag + sentence for sentence in sentences]


def _lists(
    bundle: TranslatorBundle, texts: Sequence[str], options: TranslateOptions, first: int
) -> list[list[Translation]]:
    """Return the translations of each text: by beam search, or the samples by expected chrF."""
    if options.mbr:
        if options.contain or options.avoid or options.glossary is not None:
            raise UsageError(
                "--mbr samples translations, which cannot be made to contain phrases",
                hint="leave out --mbr, or --contain, --avoid and --glossary",
            )
        sampled = bundle.sample(texts, options.mbr, options.seed, first=first)
        return [ranked[: options.nbest] for ranked in sampled]
    glossary = None if options.glossary is None else Glossary.read(options.glossary)
    return bundle.search(
        texts,
        beam=options.beam,
        num_best=options.nbest,
        length_penalty=options.length_penalty,
        normalisation=options.normalisation,
        early_stopping=options.early_stopping,
        coverage=options.coverage,
        contain=required_phrases(texts, options.contain, glossary),
        avoid=options.avoid,
        first=first,
    )


def _aligned(bundle: TranslatorBundle, source: str, target: str) -> dict[str, Any] | None:
    """Return the alignment of a translation; None for an empty translation."""
    from headway.inspection import align

    return align(bundle, source, target).as_dict() if target else None
