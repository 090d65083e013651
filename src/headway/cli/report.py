"""`headway report`: the report of a training run, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from headway.base.settings import setting
from headway.cli.flags import OUTPUT, as_flags
from headway.terminal.console import say


@as_flags
class ReportFlags:
    output: Annotated[Path | None, OUTPUT] = setting(
        None, "New HTML file. If unset, report.html in the run folder, which is replaced."
    )


def report(run: Path, /, *, flags: ReportFlags = ReportFlags()) -> None:
    """Write the report of a run: curves, samples, attention during training, settings.

    Training writes the report at its end. This command writes it again, also during training.

    Parameters
    ----------
    run
        A run folder.
    """
    from headway.inspection.page import write_page  # these import torch, and the help needs none
    from headway.runs.report import report_of, write_report

    if flags.output is None:
        written = write_report(run)
    else:
        write_page(flags.output, report_of(run))
        written = flags.output
    say(f"written   {written}: open it in a browser")
