"""Progress of long work on standard error: a bar on a terminal, else lines."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from headway.terminal.console import talk

LINE_SECONDS = 10.0  # least time between two progress lines in a pipe
FIRST_SECONDS = 2.0  # time after which work other than training shows its progress


@contextmanager
def progress(title: str | Callable[[], str]) -> Iterator[Callable[[float], None]]:
    """Show the progress of work that takes longer than two seconds.

    title: what is done; a function returns it anew for each line. The block gets a function, which
    it calls with the fraction that is done, from 0 to 1, or 0 if the whole is unknown. On a
    terminal a bar shows it, else a line every ten seconds, both with the remaining time.
    """
    begun, done, ended = time.monotonic(), 0.0, threading.Event()

    def line() -> str:
        named = title if isinstance(title, str) else title()
        return _line(named, done, time.monotonic() - begun)

    def note(fraction: float) -> None:
        nonlocal done
        done = fraction

    def print_lines() -> None:
        pause = FIRST_SECONDS
        while not ended.wait(pause):
            talk.print(line(), markup=False)
            pause = LINE_SECONDS

    if talk.is_terminal:
        bar = Progress(BarColumn(), TextColumn("{task.description}"), console=talk, transient=True)
        task = bar.add_task(escape(line()), total=1.0)

        def show(fraction: float) -> None:
            note(fraction)
            bar.update(task, completed=fraction, description=escape(line()))

        with bar:
            yield show
        return
    thread = threading.Thread(target=print_lines, daemon=True)
    thread.start()
    try:
        yield note
    finally:
        ended.set()
        thread.join()


def _line(title: str, fraction: float, seconds: float) -> str:
    """Return a line with what is done, and the remaining time once a part is done."""
    if not fraction:
        return f"{title}: {seconds:.0f} s"
    remaining = seconds * (1 - fraction) / fraction
    return f"{title}: {fraction:.0%}, ETA {clock(remaining)}"


def clock(seconds: float) -> str:
    """Format a duration as hours, minutes and seconds: 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"
