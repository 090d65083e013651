"""`headway translate`: the options of a user applied to the texts of a user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True)
class _Line:
    """A line of a text. parts: what is translated of it: the line, its sentences if it is too long,
    or nothing of a blank line. start, end: the white space around them, with the line break."""

    parts: Sequence[str]
    start: str = ""
    end: str = ""


def _joined(parts: Sequence[RankedTranslation], text: str) -> RankedTranslation:
    """Return the translation of a text that was split. Its score is the mean of its parts'."""
    return RankedTranslation(
        text,
        sum(part.score for part in parts) / len(parts),
        sum(part.log_probability for part in parts),
        all(part.finished for part in parts),
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
    lines = [_lines(bundle, text, f"text {line}") for line, text in enumerate(texts, start=first)]
    flat = [part for of_text in lines for line in of_text for part in line.parts]
    lists = iter(_lists(searching, flat, options, first))
    outputs = []
    for number, (text, of_text) in enumerate(zip(texts, lines, strict=True), start=first):
        best = _text_of_lines(of_text, [_ranked(line, lists) for line in of_text])
        is_whole = [len(line.parts) for line in of_text] == [1]
        words = _aligned(bundle, text, best[0].text) if options.align and is_whole else None
        outputs.append(Translated(number, text, best, words))
    return outputs


def _ranked(line: _Line, lists: Iterator[list[Translation]]) -> tuple[RankedTranslation, ...]:
    """Return the translations of a line, best first; one for a line that was split, none for a
    blank one."""
    of_parts = [
        [RankedTranslation(t.text, t.score, t.log_probability, t.finished) for t in next(lists)]
        for _ in line.parts
    ]
    if len(of_parts) == 1:
        return tuple(of_parts[0])
    best = [translations[0] for translations in of_parts]
    return (_joined(best, " ".join(part.text for part in best)),) if best else ()


def _text_of_lines(
    lines: Sequence[_Line], of_lines: Sequence[tuple[RankedTranslation, ...]]
) -> tuple[RankedTranslation, ...]:
    """Return the translations of a text from those of its lines.

    The n-th one has the n-th translation of each line, or its last one.
    """
    if len(lines) == 1:
        return of_lines[0]
    outputs = []
    for rank in range(max(map(len, of_lines))):
        chosen = [ranked[min(rank, len(ranked) - 1)] if ranked else None for ranked in of_lines]
        written = [
            line.start + ("" if best is None else best.text) + line.end
            for line, best in zip(lines, chosen, strict=True)
        ]
        best_of_lines = [best for best in chosen if best is not None]
        outputs.append(_joined(best_of_lines, "".join(written)))
    return tuple(outputs)


def _lines(bundle: TranslatorBundle, text: str, name: str) -> list[_Line]:
    """Return the lines of a text, each of which is translated alone.

    A text with words on one line only is one line, without the white space around it. The language
    tag at the start of a text holds for all of its lines.
    """
    if not bundle.origin.by_line or len(text.strip().splitlines()) <= 1:
        return [_Line(_parts(bundle, text, name))]
    tag, rest = bundle.target_languages.split_tag(text)
    lines = []
    for number, line in enumerate(rest.splitlines(keepends=True), start=1):
        content = line.strip()
        if not content:
            lines.append(_Line((), line))
            continue
        start, _, end = line.partition(content)
        parts = _parts(bundle, tag + content, f"{name}, line {number},")
        lines.append(_Line(parts, start, end))
    return lines


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


def check_room(length: int, limit: int | None, name: str) -> None:
    """Raise UsageError if a text has more tokens than the model has learned positions."""
    if limit is not None and length >= limit:
        raise UsageError(
            f"{name} has {length} tokens, but the model has learned positions for at most "
            f"{limit - 1}",
            hint="split it into sentences, or train with --model.positions sinusoidal",
        )
