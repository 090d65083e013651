"""Talk goes to stderr, data to stdout; errors have three parts and no traceback."""

from __future__ import annotations

import json
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

from rich.console import Console

from headway.errors import HeadwayError

talk = Console(stderr=True, highlight=False, soft_wrap=True)


def program() -> str:
    """How this person calls us: `headway`, or its path if that is on no search path."""
    if shutil.which("headway"):
        return "headway"
    called = Path(sys.argv[0])
    if called.name != "headway":
        return "python -m headway"
    inside = called.is_relative_to(Path.cwd())
    return str(called.relative_to(Path.cwd()) if inside else called)


def data(text: str) -> None:
    """One line of what was asked for, as it is."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def data_json(value: Any) -> None:
    """One JSON value on one line; NaN is refused, as it is no JSON."""
    data(json.dumps(value, ensure_ascii=False, allow_nan=False))


def report(error: HeadwayError) -> None:
    """what, where, what to do."""
    first, *others = str(error).split("\n")
    talk.print("error:", style="bold red", end=" ")
    talk.print(first, markup=False)
    for line in others:
        talk.print(line, markup=False)


def report_bug(error: BaseException) -> None:
    """Something we did not foresee: say so, keep the traceback for the report."""
    place = Path("headway-error.log")
    try:
        place.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        saved = f"the traceback is in {place}"
    except OSError:
        saved = "run again with --debug for the traceback"
    report(HeadwayError(f"unexpected {type(error).__name__}: {error}", None, f"report it; {saved}"))
