"""`headway report`: how a run went, as one page."""

from __future__ import annotations

from pathlib import Path

from headway.cli.console import talk


def report(run: Path, /, *, output: Path | None = None) -> None:
    """Write the report of a run: curves, samples, attention over time, settings.

    Training writes it at its end; this writes it anew, while the run goes on or after.

    Parameters
    ----------
    run
        A run folder.
    output
        Another file than report.html in the run folder; it must not be there yet.
    """
    from headway.inspection.page import write_page
    from headway.runs.report import report_of, write_report

    if output is None:
        written = write_report(run)
    else:
        write_page(output, report_of(run))
        written = output
    talk.print(f"written   {written}: open it in a browser", markup=False)
