"""`headway data`: fetch what can be had, look at what is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from headway.cli.console import data, data_json, program, talk
from headway.errors import DataError

if TYPE_CHECKING:
    from headway.data.corpus_check import CheckReport
    from headway.data.fetch import Fetched
    from headway.data.shakespeare import FetchedTexts

data_app = App(name="data", help="Get data sets, and check your own.")


@data_app.command
def fetch(name: str, /, *, target: str = "fr", output: Path | None = None) -> None:
    """Bring a data set onto this disk.

    Parameters
    ----------
    name
        emoji-names: names of emoji, English to another language. shakespeare: his works.
    target
        The other language of emoji-names: ar de es fa fr id it ja ko pt ru tr zh.
    output
        Folder to make; data/NAME (for pairs -en-TARGET) unless given.
    """
    from headway.data.fetch import fetch as fetch_data
    from headway.data.shakespeare import NAME, FetchedTexts

    folder = output or Path("data") / (NAME if name == NAME else f"{name}-en-{target}")
    fetched = fetch_data(name, target, folder)
    if isinstance(fetched, FetchedTexts):
        talk.print(describe_texts(fetched), markup=False)
        talk.print(f"next      {program()} train gpt {folder}/train --valid {folder}/valid")
        return
    talk.print(describe(fetched), markup=False)
    talk.print(f"next      {program()} train emoji-names {folder} --source en --target {target}")


@data_app.command
def check(
    path: Path,
    /,
    *,
    source: str | None = None,
    target: str | None = None,
    json: bool = False,
) -> None:
    """Count, measure and find faults in sentence pairs; exit code 3 if there are any.

    Parameters
    ----------
    path
        A .tsv file, a folder with splits, or the beginning of two aligned files.
    source
        Column or file ending of the source language.
    target
        Column or file ending of the target language.
    json
        One JSON object instead of text.
    """
    from headway.data.corpus_check import check as check_data
    from headway.data.formats import locate

    report = check_data(locate(path, source, target))
    if json:
        data_json(report.as_dict())
    else:
        data(_table(report))
    if report.faults:
        raise DataError(
            f"{len(report.faults)} faults in the data",
            str(path),
            "mend them, or train anyway: empty pairs are skipped, the rest is learnt as it is",
        )


def describe(fetched: Fetched) -> str:
    """What was fetched, and what a score on it means."""
    sizes = " · ".join(f"{count:,} {name}" for name, count in fetched.pairs.items())
    left_out = ", ".join(f"{count:,} {why}" for why, count in fetched.skipped.items())
    how = "already there" if fetched.reused else f"left out: {left_out}"
    return (
        f"data      {fetched.folder}: {sizes} pairs ({how})\n"
        "          split by the hash of the English name: no name stands in two splits, but its "
        "parts do,\n          so held-out scores measure new combinations of known words"
    )


def describe_texts(fetched: FetchedTexts) -> str:
    """What was fetched, by split."""
    sizes = " · ".join(
        f"{count:,} {split} ({fetched.text_bytes[split]:,} bytes)"
        for split, count in fetched.texts.items()
    )
    how = " (already there)" if fetched.reused else ""
    return f"data      {fetched.folder}: texts {sizes}{how}"


def _table(report: CheckReport) -> str:
    lines = []
    for name, split in report.splits.items():
        lines.append(f"{name:<6} {split.pairs:>9,} pairs   {' + '.join(split.files)}")
        for what, length in split.lengths.items():
            lines.append(
                f"       {what:<18} mean {length.mean:6.1f}   95 % up to {length.p95:>5,}   "
                f"longest {length.max:>6,}"
            )
    lines += [f"fault    {fault}" for fault in report.faults]
    lines += [f"warning  {warning}" for warning in report.warnings]
    return "\n".join(lines if report.faults else [*lines, "no faults"])
