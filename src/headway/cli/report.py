"""`headway report`: the report of a training run, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from headway.cli.console import talk
from headway.cli.flags import OUTPUT


def report(run: Path, /, *, output: Annotated[Path | None, OUTPUT] = None) -> None:
    """Write the report of a run: curves, samples, attention during training, settings.

    Training writes the report at its end. This command writes it again, also during training.

    Parameters
    ----------
    run
        A run folder.
    output
        New HTML file. If unset, report.html in the run folder, which is replaced.
    """
    from headway.inspection.page import write_page
    from headway.runs.report import report_of, write_report

    if output is None:
        written = write_report(run)
    else:
        write_page(output, report_of(run))
        written = output
    talk.print(f"written   {written}: open it in a browser", markup=False)
