"""Translates a file in place: its untranslated texts, and nothing else, change."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from headway.base.errors import UsageError
from headway.base.files import check_new_file, write_file
from headway.base.settings import setting
from headway.data.formats.lines import ending
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationRunConfig
from headway.tasks.translation.documents.opening import DOCUMENTS, open_document
from headway.tasks.translation.documents.segments import Document
from headway.tasks.translation.options import TranslateOptions
from headway.tasks.translation.pair_files import InlineTags, is_language, same_language
from headway.tasks.translation.texts import SafeTranslation, Text, translate_texts
from headway.tasks.translation.translation_memory import TranslationMemory

SHOWN = 10
"""Maximum number of texts without a translation that the terminal lists."""


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """What is not in the file itself: its languages, and what happens to tags."""

    source: str | None = setting(
        None, "language of the originals in a file; if unset, data.source of the run"
    )
    target: str | None = setting(
        None, "language of the translations in a file; if unset, data.target of the run"
    )
    inline_tags: InlineTags = setting(
        "keep", "tags inside the texts of HTML, TMX and XLIFF files: kept, or dropped"
    )
    memory: Path | None = setting(
        None,
        "translation memory, a file of sentence pairs (.tmx, .po, .tsv ...): a text that is in it, "
        "or a similar one, has that translation",
    )
    similarity: float = setting(
        0.8,
        "minimum similarity of a text of the memory: 1 - edit distance in words / number of words "
        "of the longer one; 1: only the same text",
        ge=0.5,
        le=1,
    )


@dataclass(frozen=True, kw_only=True)
class LeftText:
    """A text that has no translation: its line in the file, and the reason."""

    line: int
    text: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class SimilarText:
    """A text with the translation of `source`, a similar text of the translation memory."""

    line: int
    text: str
    source: str
    similarity: float


@dataclass(frozen=True, kw_only=True)
class DocumentReport:
    """What happened to the texts of a file.

    texts: the number of its texts. present: those that were translated before. translated: those
    that are translated now. placeholders: the number of translated lines with placeholders, by how
    they came right (`SafeTranslation.how`). mark: how a new translation is marked in the file.
    memory: the number of texts that were in the translation memory. similar: the texts with the
    translation of a similar one.
    """

    input: str
    output: str
    texts: int
    present: int
    translated: int
    placeholders: Mapping[str, int]
    left: tuple[LeftText, ...]
    mark: str
    memory: int = 0
    similar: tuple[SimilarText, ...] = ()


def check_document(path: Path, output: Path) -> None:
    """Check the names of an input and its output before a model is loaded.

    UsageError for a missing input, an output that exists or that has another format.
    """
    if not path.is_file():
        raise UsageError("no such file", str(path), "-o needs the path of a file to translate")
    opener, writer = DOCUMENTS.get(ending(path)), DOCUMENTS.get(ending(output))
    if opener is not None and writer is not opener:
        raise UsageError(
            f"the output has the format of the input, {ending(path)}, but this name ends in "
            f"{output.suffix or 'no suffix'}",
            str(output),
            f"-o {output.stem}{path.suffix}",
        )
    check_new_file(output)


def translate_document(
    bundle: TranslatorBundle,
    path: Path,
    output: Path,
    config: object,
    chosen: DocumentOptions,
    options: TranslateOptions,
) -> DocumentReport:
    """Translate the untranslated texts of a file and write the result to a new file.

    config: the configuration of the model's run, for its languages; None for a model without a run.
    A text with placeholders that do not survive stays untranslated and is reported. Raises what
    `open_document` and `check_document` raise; UsageError for options of single translations.
    """
    if options.nbest > 1 or options.scores or options.align:
        flag = "--nbest" if options.nbest > 1 else "--scores" if options.scores else "--align"
        raise UsageError(f"{flag} is not available with -o", hint=f"leave out {flag}")
    check_document(path, output)
    data = config.data if isinstance(config, TranslationRunConfig) else None
    source = chosen.source or (data.source if data and is_language(data.source) else None)
    target = chosen.target or (data.target if data and is_language(data.target) else None)
    if bundle.languages:
        options = replace(options, to=options.to or target)
        target = target or options.to
    document = open_document(path, source, target, chosen.inline_tags)
    if bundle.languages and options.to is None and document.language is not None:
        options = replace(options, to=_into(document.language, bundle.languages, path))
    texts = [Text(text, s.protected) for s in document.segments for text in s.texts]
    memory = None
    if chosen.memory is not None:
        memory = TranslationMemory.read(chosen.memory, source, target)
    results = iter(translate_texts(bundle, texts, options, memory, chosen.similarity))
    by_segment = [list(islice(results, len(segment.texts))) for segment in document.segments]
    translations = [[r.text for r in group if r.text is not None] for group in by_segment]
    complete = zip(document.segments, translations, strict=True)
    filled = [new if len(new) == len(segment.texts) else None for segment, new in complete]
    write_file(output, document.filled(filled))
    return _report(document, output, by_segment)


def _into(stated: str, languages: Sequence[str], path: Path) -> str:
    """Return the language of a model that agrees with the one that a file states.

    Raises UsageError if none or several agree.
    """
    agreeing = [language for language in languages if same_language(stated, language)]
    exact = [language for language in agreeing if language.lower() == stated.lower()]
    if len(exact or agreeing) == 1:
        return (exact or agreeing)[0]
    raise UsageError(
        f"the translations of the file are in {stated!r}, but the languages of the model are "
        f"{', '.join(languages)}",
        str(path),
        "--to LANGUAGE with one of them, or another model",
    )


def _report(
    document: Document, output: Path, groups: Sequence[Sequence[SafeTranslation]]
) -> DocumentReport:
    left: list[LeftText] = []
    ways: Counter[str] = Counter()
    similar: list[SimilarText] = []
    remembered = 0
    for segment, group in zip(document.segments, groups, strict=True):
        failed = [(t, r) for t, r in zip(segment.texts, group, strict=True) if r.text is None]
        left += [LeftText(line=segment.line, text=t, problem=r.problem) for t, r in failed[:1]]
        ways.update(result.how for result in group if result.has_placeholders)
        remembered += all(result.how == "memory" for result in group)
        similar += [
            SimilarText(
                line=segment.line,
                text=text,
                source=result.match.source,
                similarity=result.match.similarity,
            )
            for text, result in zip(segment.texts, group, strict=True)
            if result.how == "similar" and result.match is not None
        ]
    return DocumentReport(
        input=str(document.file.path),
        output=str(output),
        texts=document.num_texts,
        present=document.num_texts - len(document.segments),
        translated=len(document.segments) - len(left),
        placeholders=dict(ways),
        left=tuple(left),
        mark=document.mark,
        memory=remembered,
        similar=tuple(similar),
    )


_WAYS = {
    "memory": "in the memory",
    "similar": "adapted from the memory",
    "best": "right at once",
    "other": "right in another translation of the beam",
    "copied": "copied from the source",
    "constrained": "in a search that must contain them",
    "parts": "kept by translating the text between them",
    "left": "not right",
}


def document_lines(report: DocumentReport) -> list[str]:
    """Format the report: the counts, the placeholders, and the texts without a translation."""
    lines = [
        f"written   {report.output}: {report.translated:,} of {report.texts:,} texts translated, "
        f"{report.present:,} had a translation or need none"
    ]
    if report.mark and report.translated:
        lines.append(f"          new translations are marked {report.mark}: review them")
    if report.placeholders:
        ways = [f"{count:,} {_WAYS[w]}" for w in _WAYS if (count := report.placeholders.get(w))]
        lines.append(f"          texts with placeholders: {', '.join(ways)}")
    if report.memory:
        lines.append(f"memory    texts from the translation memory: {report.memory:,}")
    similar = [
        (s.line, s.text, f"as {_short(s.source)}, similarity {s.similarity:.2f}: review it")
        for s in report.similar
    ]
    lines += _listed("similar", report.input, similar)
    left = [(text.line, text.text, text.problem) for text in report.left]
    return lines + _listed("left", report.input, left)


def _listed(name: str, path: str, rows: Sequence[tuple[int, str, str]]) -> list[str]:
    """Format the first rows, each of a line in the file, a text and a remark."""
    lines = [
        f"{name:9} {path}:{line}  {_short(text)}: {remark}" for line, text, remark in rows[:SHOWN]
    ]
    if len(rows) > SHOWN:
        lines.append(f"{name:9} and {len(rows) - SHOWN:,} more; --json lists all")
    return lines


def _short(text: str) -> str:
    """Return a text in quotes on one line, shortened to 60 characters."""
    line = " ".join(text.split())
    return repr(line if len(line) <= 60 else f"{line[:59]}…")
