"""`headway report`: the report of a training run as one HTML page, and its film as an image."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

from headway.base.files import check_new_file
from headway.base.settings import setting
from headway.cli.flags import OUTPUT, as_flags
from headway.terminal.console import say


@as_flags
class ReportFlags:
    output: Annotated[Path | None, OUTPUT] = setting(
        None,
        "New file: .html for the report, .webp, .gif or .png for the film as an animated image. "
        "If unset, report.html in the run folder, which is replaced.",
    )
    open: bool = setting(False, "Open the file in the browser.")


def report(run: Path, /, *, flags: ReportFlags = ReportFlags()) -> None:
    """Write the report of a run: its film, curves, samples, settings.

    The film shows how the model learned: loss, output and attention for one held-out example, at
    about 40 moments of the training. The page needs no network. Training writes the report at its
    end; this command writes it again, also during training.

    headway report runs/demo-fr --open
    headway report runs/demo-fr -o film.webp

    Parameters
    ----------
    run
        A run folder.
    """
    from headway.inspection.page import write_page  # these import torch, and the help needs none
    from headway.runs.film_picture import check_picture
    from headway.runs.report import report_of, write_film, write_report

    path = flags.output
    if path is None:
        path = write_report(run)
    elif path.suffix.lower() == ".html":
        write_page(path, report_of(run))
    else:
        check_new_file(path)
        check_picture(path)
        write_film(run, path)
    say(f"written   {path}  {path.stat().st_size / 1e6:.1f} MB: open it in a browser")
    if flags.open:
        webbrowser.open(path.resolve().as_uri())
