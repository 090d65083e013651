"""`headway tag`: texts in, the names in them or their parts of speech out."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.console import data, data_json, on_output, talk
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags
from headway.cli.inputs import arguments_or_lines, chunks
from headway.errors import DataError, UsageError

if TYPE_CHECKING:
    from headway.bundle import Tagged, TaggerBundle


def tag(
    run: str,
    /,
    *text: str,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Mark what stands in texts: those given, or one a line from standard input.

    A line each: [person Ada] met [person Charles]. Where the tags mark no spans, every word with
    its tag: rain/NOUN falls/VERB.

    Parameters
    ----------
    run
        A run folder or a model folder.
    text
        Texts; without any, standard input is read line by line.
    json
        One JSON object a line: spans and words, with their characters and probabilities.
    """
    from headway.bundle import TaggerBundle

    place = machine.prepare()
    bundle = place.load_as(TaggerBundle, run)
    number = 0
    for chunk in chunks(arguments_or_lines(text, "text"), from_input=not text):
        with place.precision():
            found = bundle.tag(chunk)
        for each in found:
            number += 1
            if json:
                data_json({"line": number, **asdict(each)})
            else:
                _show(bundle, each)


def _show(bundle: TaggerBundle, found: Tagged) -> None:
    """With colours on a terminal, plain in a pipe."""
    from rich.text import Text

    from headway.data.spans import tags_spans

    if tags_spans(bundle.tags):
        parts = bracketed(found)
    else:
        parts = [
            part
            for word in found.words
            for part in ((f"{word.text}/", ""), (word.tag, "cyan"), (" ", ""))
        ][:-1]
    if sys.stdout.isatty():
        on_output(highlight=False, soft_wrap=True).print(Text.assemble(*parts))
    else:
        data("".join(text for text, _ in parts))


def bracketed(found: Tagged) -> list[tuple[str, str]]:
    """The text with [label words] for each span, in parts: (text, its colour)."""
    parts, last = [], 0
    for span in found.spans:
        parts.append((found.text[last : span.start], ""))
        parts += [("[", ""), (span.label, "cyan"), (f" {span.text}]", "bold")]
        last = span.end
    return [*parts, (found.text[last:], "")]


def evaluate_tagger(bundle: TaggerBundle, run: Path, path: Path | None, json: bool) -> None:
    """F1 of spans and the share of words that are tagged right, on a file or what was held out."""
    from headway.data.formats.tags import read_tagged
    from headway.data.spans import tags_spans
    from headway.evaluation import score_spans
    from headway.recipes import saved
    from headway.recipes.tag_config import TagDataConfig
    from headway.recipes.tag_data import tagged_sentences

    config = saved(run) if (run / "run.yaml").is_file() else None
    names = config.data if config and isinstance(config.data, TagDataConfig) else TagDataConfig()
    if path is None and config is None:
        raise UsageError(
            f"{run} does not say what it was trained on", hint="name a file of tagged sentences"
        )
    asked = list(read_tagged([path], names.column)) if path else tagged_sentences(names)[1]
    if not asked:
        raise DataError("there is no sentence to evaluate on", str(path))
    for each in asked:
        for name in each.tags:
            if name not in bundle.tags:
                raise DataError(f"the model does not know the tag {name!r}", each.where)
    with talk.status(f"tagging {len(asked):,} sentences"):
        found = bundle.tag([each.words for each in asked])
    said, true = [[word.tag for word in each.words] for each in found], [x.tags for x in asked]
    words = sum(map(len, true))
    right = sum(a == b for x, y in zip(said, true, strict=True) for a, b in zip(x, y, strict=True))
    spans = score_spans(said, true) if tags_spans(bundle.tags) else None
    if json:
        numbers = {"accuracy": right / words, "words": words, "sentences": len(asked)}
        data_json(numbers if spans is None else {**asdict(spans), **numbers})
        return
    if spans is not None:
        data(
            f"F1 {spans.f1:.3f}   precision {spans.precision:.3f}, recall {spans.recall:.3f}; "
            f"{spans.right:,} right of {spans.found:,} found and {spans.true:,} true spans"
        )
    data(f"accuracy {right / words:.3f}   {right:,} of {words:,} words")
