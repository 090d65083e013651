"""Files of predictions for the test parts of GLUE, whose labels are not public."""

from headway.suites.layouts import Layout
from headway.suites.measuring import AnsweredRow, Result
from headway.suites.prompts import Labelled


def submissions(layout: Layout, result: Result) -> dict[str, str]:
    """Return name -> content of the files that gluebenchmark.com accepts; empty for other suites
    and parts.

    Each has the columns index and prediction, which is the name of a class or its number, as in the
    files of the task. Of several numbers of examples, the predictions are those of the first.
    """
    if not layout.submission or result.split != "test":
        return {}
    first = result.measurements[0].shots
    rows = [row for row in result.answers if row.shots == first]
    files = {}
    for group, name in layout.submission.items():
        chosen = [row for row in rows if group in ("", row.group)]
        if chosen:
            lines = [f"{i}\t{_prediction(layout, row)}\n" for i, row in enumerate(chosen)]
            files[name] = "".join(["index\tprediction\n", *lines])
    return files


def _prediction(layout: Layout, row: AnsweredRow) -> str:
    if isinstance(row.prediction, float):
        return f"{min(5.0, max(0.0, row.prediction)):.3f}"  # similarities are from 0 to 5
    if layout.submits_names and isinstance(layout.question, Labelled):
        return layout.question.classes[int(str(row.prediction))]
    return str(row.prediction)
