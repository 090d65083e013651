"""Training that a person watches: `headway train` and `headway.train` call `train_on_screen`."""

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from headway.base.metrics_file import Event
from headway.base.ranks import ALONE, Ranks
from headway.data.bad_rows import LEFT_OUT_FILE
from headway.runs import AnyRunConfig, DryRun, Outcome, train
from headway.terminal.console import talk
from headway.terminal.numbers import TITLES, best_of, metrics, written
from headway.terminal.progress import LINE_SECONDS, clock
from headway.training import StepReport, TrainingState
from headway.training.budget import parse_time


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
                f"{self.unit}_s={speed:.0f} eta={clock(eta)}"
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
            task, completed=step, total=self.steps, description=f"{text}  ETA {clock(eta)}"
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
        talk.print(f"{event['stop']:<9} {best} · {clock(event['seconds'])} of training")


def train_on_screen(
    config: AnyRunConfig,
    folder: Path,
    *,
    listeners: Sequence[Callable[[Event], None]] = (),
    history: Sequence[str] = (),
    dry_run: DryRun | None = None,
    quiet: bool = False,
    ranks: Ranks = ALONE,
) -> Outcome:
    """Train a run as `headway.runs.train` does, and show its progress on standard error.

    quiet: show nothing. Of several processes, the first one shows it.
    """
    if not ranks.is_first:
        return train(config, folder, ranks=ranks)
    screen = Screen(quiet)
    try:
        return train(
            config,
            folder,
            listeners=[screen, *listeners],
            observers=[screen],
            history=history,
            dry_run=dry_run,
            ranks=ranks,
        )
    finally:
        screen.close()
