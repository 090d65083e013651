"""`headway data`: fetch what can be had, look at what is there."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from headway.cli.console import data, data_json, talk
from headway.errors import DataError

data_app = App(name="data", help="Get data sets, and check your own.")


@data_app.command
def fetch(name: str, /, *, target: str = "fr", output: Path | None = None) -> None:
    """Bring a data set onto this disk.

    Parameters
    ----------
    name
        emoji-names: names of emoji, English to another language.
    target
        The other language: ar de es fa fr id it ja ko pt ru tr zh.
    output
        Folder to make; data/NAME-en-TARGET unless given.
    """
    from headway.data.fetch import DATASETS, fetch_emoji_names
    from headway.errors import UsageError

    if name not in DATASETS:
        raise UsageError(f"unknown data set {name!r}", hint="one of: " + ", ".join(DATASETS))
    folder = output or Path("data") / f"{name}-en-{target}"
    fetched = fetch_emoji_names(target, folder)
    talk.print(str(fetched), markup=False)
    talk.print(f"next      headway train emoji-names {folder} --source en --target {target}")


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
    from headway.data.check import check_splits
    from headway.data.formats import locate

    report = check_splits(locate(path, source, target))
    if json:
        data_json(report.as_dict())
    else:
        data(str(report))
    if report.faults:
        raise DataError(
            f"{len(report.faults)} faults in the data",
            str(path),
            "mend them, or train anyway: empty pairs are skipped, the rest is learnt as it is",
        )
