"""The budget of a run: a number of steps, a time, or the one of both that ends first.

    fraction = max(step / steps, seconds / time)

The learning rate, evaluations and checkpoints depend on the fraction that is used, so that they fit
any budget (Li, Yumer and Ramanan 2020, "Budgeted training"). A run that is limited by steps alone
depends on the step alone, and is resumed exactly.
"""

import re
from dataclasses import dataclass

from headway.base.errors import UsageError
from headway.training.state import StepReport, TrainingState

PARTS = 10
"""Maximum number of equal parts of a budget, each of which ends with an evaluation and a save."""

STEPS_OF_A_PART = 25
"""Minimum number of steps of a part, if steps limit the run and two parts are possible."""


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?) ?([smhd]) ?)+")
LONGEST_TIME = 366 * _SECONDS["d"]


def parse_time(text: str) -> float:
    """Convert a duration such as 90s, 30m, 2h, 1d or 1h30m to seconds.

    Raises UsageError for a duration without a unit, of 0, or above a year, which is a typing error.
    """
    text = text.strip()
    examples = "90s (seconds), 30m (minutes), 2h (hours), 1d (days) or 1h30m"
    if not _TIME.fullmatch(text):
        number = re.fullmatch(r"\d+(\.\d+)?", text)
        problem = "has no unit" if number else "is not a time"
        raise UsageError(f"training.time={text} {problem}", hint=examples)
    parts = re.findall(r"([\d.]+) ?([smhd])", text)
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in parts)
    if not 0 < seconds <= LONGEST_TIME:
        raise UsageError(f"training.time={text} must be above 0 and at most 366d", hint=examples)
    return seconds


@dataclass
class Budget:
    """Observer that keeps the fraction of the budget that is used, and ends the run after the time.

    steps: number of updates. seconds: time of training, evaluations included, summed over all
    resumes; if None, no limit. step_seconds: duration of the last step; before the first one, an
    estimate.
    """

    steps: int
    seconds: float | None = None
    step_seconds: float = 0.0

    def begin(self, run: TrainingState) -> None:
        """Stop a run whose time is used up; one that is resumed takes no further step then."""
        if self.seconds is not None and run.seconds >= self.seconds:
            run.stop = "time"

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        """Record the duration of the step, and stop the run if its time is used up."""
        self.step_seconds = report.seconds
        run.fraction = self.fraction(run.step, run.seconds)
        if run.stop is None:
            self.begin(run)

    def fraction(self, step: int, seconds: float) -> float:
        """Return the fraction of the budget that is used after a step and a time, at most 1."""
        by_time = 0.0 if self.seconds is None else seconds / self.seconds
        return min(1.0, max(step / self.steps, by_time))

    def total_steps(self, step: int, seconds: float) -> float:
        """Return the number of updates of the whole run, as estimated before update `step`.

        seconds: the time before the update.
        """
        if self.seconds is None:
            return float(self.steps)
        by_time = (seconds + self.step_seconds) / self.seconds
        is_limited_by_steps = by_time <= step / self.steps
        return float(self.steps if is_limited_by_steps else max(step, step / by_time))

    def parts(self, fraction: float) -> int:
        """Return the number of marks that a fraction has passed.

        The first mark is in the middle of the first part, so that there is an early one; the others
        are the ends of the parts.
        """
        parts = PARTS
        if self.seconds is None:
            parts = min(PARTS, max(2, self.steps // STEPS_OF_A_PART))
        nearly = fraction + 1e-9  # 0.3 of 10 parts is 3 of them, not 2.9999
        return int(nearly * parts) + (nearly * parts >= 0.5)
