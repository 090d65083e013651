"""Progress on standard error, of training and of other work: a bar on a terminal, else lines."""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from headway.base.metrics_file import Event
from headway.data.bad_rows import LEFT_OUT_FILE
from headway.tasks.sections import parse_time
from headway.terminal.console import talk
from headway.terminal.numbers import TITLES, best_of, metrics, written
from headway.training import StepReport, TrainingState

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
    return f"{title}: {fraction:.0%}, ETA {_clock(remaining)}"


class Screen:
    """A listener of the events of a run and an observer of its steps."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.live = talk.is_terminal and not quiet
        self.progress: Progress | None = None
        self.steps, self.limit, self.unit = 0, float("inf"), "tok"
        self.recent: deque[tuple[float, int, float]] = deque(maxlen=50)  # seconds, targets, loss
        self.training = self.evaluating = 0.0
        self.last_line = 0.0
        self.shown_header = False

    def __call__(self, event: Event) -> None:
        handler = getattr(self, f"_on_{event['kind']}", None)
        if handler is not None and not self.quiet:
            handler(event)

    def close(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        """Observe a step: move the bar, or print a line every few seconds."""
        self.recent.append((report.seconds, report.targets, report.loss))
        self.training += report.seconds
        if self.quiet:
            return
        speed = sum(t for _, t, _ in self.recent) / sum(s for s, _, _ in self.recent)
        loss = statistics.fmean(x for _, _, x in self.recent)
        eta = self._eta(run.step, run.seconds)
        if self.live:
            self.steps = round(run.step / run.fraction) if run.fraction else self.steps
            self._move_bar(
                run.step, f"loss {loss:.2f}  lr {report.lr:.1e}  {speed:,.0f} {self.unit}/s", eta
            )
        elif time.monotonic() - self.last_line > LINE_SECONDS:
            self.last_line = time.monotonic()
            talk.print(
                f"step={run.step} epoch={run.epoch} loss={loss:.3f} lr={report.lr:.2e} "
                f"{self.unit}_s={speed:.0f} eta={_clock(eta)}"
            )

    def _eta(self, step: int, seconds: float) -> float:
        """Remaining seconds: median step time, scaled by the time that evaluations add."""
        median = statistics.median(s for s, _, _ in self.recent)
        with_evaluation = 1 + self.evaluating / max(self.training, 1e-9)
        remaining = median * (self.steps - step) * with_evaluation
        return max(0.0, min(remaining, self.limit - seconds))

    def _move_bar(self, step: int, text: str, eta: float) -> None:
        if self.progress is None:
            self.progress = Progress(
                BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), console=talk
            )
            self.progress.start()
            self.progress.add_task("", total=self.steps)
        task = self.progress.task_ids[0]
        self.progress.update(
            task, completed=step, total=self.steps, description=f"{text}  ETA {_clock(eta)}"
        )

    def _on_preparing(self, event: Event) -> None:
        if time.monotonic() - self.last_line > 2:
            self.last_line = time.monotonic()
            read = f": {event['done']:,} {event.get('unit', 'pairs')} read"
            talk.print(f"preparing {event['what']}{read if event['done'] else ''}", markup=False)

    def _on_tokenizer(self, event: Event) -> None:
        talk.print(f"tokenizer vocabulary size {event['vocabulary_size']:,} ({event['how']})")

    def _on_vocabulary(self, event: Event) -> None:
        how = " (reused)" if event.get("reused") else f", minimum count {event['min_count']}"
        talk.print(f"words     vocabulary size {event['words']:,}{how}")

    def _on_prepared(self, event: Event) -> None:
        reasons = {k: v for k, v in event.get("skipped", {}).items() if v}
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
        note = " (reused)" if event.get("reused") else ""
        note += f" · left out: {left_out}" if left_out else ""
        talk.print(
            f"data      {event['what']}: {event['count']:,} {event.get('unit', 'pairs')}{note}"
        )

    def _on_note(self, event: Event) -> None:
        talk.print(f"          ! {event['text']}", markup=False)

    def _on_left_out(self, event: Event) -> None:
        text = f"          ! {event['text']}; {LEFT_OUT_FILE} in the run folder lists them"
        talk.print(text, markup=False)

    def _on_plan(self, event: Event) -> None:
        self.steps, self.unit = event["steps"], event["unit"]
        if event["time"]:
            self.limit = parse_time(event["time"])
        size = event["parameters"]
        talk.print(f"model     {event['model']} · {size / 1e6:.1f} M parameters")
        limit = f" or {event['time']}" if event["time"] else ""
        talk.print(
            f"plan      {event['steps']:,} steps{limit} · batches of {event['batches']} · "
            f"{event['batches_per_epoch']:,} batches per epoch · seed {event['seed']}"
        )
        if event.get("buys"):
            talk.print(f"          {event['buys']}", markup=False)
        talk.print(f"machine   {event['machine']}")

    def _on_resumed(self, event: Event) -> None:
        talk.print(f"resumed from step {event['step']}   {event['path']}", markup=False)
        for reason in event["skipped"]:
            talk.print(f"          ! skipped a damaged checkpoint, {reason}", markup=False)

    def _on_valid(self, event: Event) -> None:
        self.evaluating += event["took"]
        star = "  ★ best, saved" if event["is_best"] else ""
        numbers = {name: written(name, value) for name, value in metrics(event).items()}
        if not self.live:
            values = " ".join(f"{name}={text}" for name, text in numbers.items())
            talk.print(f"valid step={event['step']} {values} best={str(event['is_best']).lower()}")
            return
        if "nats" in event and "perplexity" not in numbers:
            numbers["ppl"] = f"{min(2.718281828 ** event['nats'], 1e6):.1f}"
        if not self.shown_header:
            self.shown_header = True
            titles = "  ".join(f"{TITLES.get(name, name):>7}" for name in numbers)
            talk.print(f"{'step':>7}  {'train':>6}  {titles}")
        loss = statistics.fmean(x for _, _, x in self.recent) if self.recent else float("nan")
        values = "  ".join(f"{text:>7}" for text in numbers.values())
        talk.print(f"{event['step']:>7,}  {loss:>6.3f}  {values}{star}")

    def _on_sample(self, event: Event) -> None:
        for name in ("source", "language", "reference", "prompt", "output"):
            if text := event.get(name):
                talk.print(f"   [dim]{name:<10}[/] {escape(text.replace(chr(10), ' ⏎ '))}")

    def _on_finished(self, event: Event) -> None:
        self.close()
        best = "no evaluation"
        if event["best"] is not None:
            shown = best_of(event["metric"], event["best"])
            best = f"best {shown} at step {event['best_step']:,}"
        talk.print(f"{event['stop']:<9} {best} · {_clock(event['seconds'])} of training")


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"
