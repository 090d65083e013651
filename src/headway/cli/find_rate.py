"""`headway train ... --find-lr`: finds a learning rate, and the command that trains with it.

The report has a chart of the loss over the learning rate, the suggestion and its reason.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import UsageError
from headway.base.files import check_new_file
from headway.base.settings import COMMAND_LINE
from headway.cli.flags import SHORT, spelled
from headway.inspection.plots import check_plot, line_plot
from headway.runs import AnyRunConfig, check_same, run_folder, with_settings
from headway.runs.rate_test import UPDATES, RangeTest, Suggestion, range_test, suggested
from headway.terminal.chart import block_chart
from headway.terminal.console import data_json, say, say_next, talk
from headway.terminal.training import Screen

EDGE = 10  # columns at the left of the chart
ABOVE = 0.15  # part of the chart above the first loss; higher ones are cut off


@dataclass(frozen=True)
class Request:
    """A command that asks for a test. arguments, changes: its words and its settings by dotted key;
    run, config: the values of these flags. plot: new file for the curve."""

    arguments: Sequence[str]
    changes: Mapping[str, object]
    run: str | None
    config: Path | None
    plot: Path | None
    json: bool
    quiet: bool

    def with_rate(self, settings: AnyRunConfig, test: RangeTest, rate: float) -> str:
        """The command that trains with a rate, in a folder that no other run has.

        Muon's own rate, if it is set, keeps its relation to that of AdamW.
        """
        tested = test.config.optimizer
        rates: dict[str, object] = {"optimizer.lr": f"{rate:.2g}"}
        if tested.muon_lr is not None:
            rates["optimizer.muon_lr"] = f"{tested.muon_lr / tested.lr * float(f'{rate:.2g}'):.2g}"
        run = _free_name(self.run or settings.name, with_settings(settings, (COMMAND_LINE, rates)))
        short = {key: name for name, key in SHORT.items()}
        words = ["train", *self.arguments]
        words += [] if self.config is None else ["--config", str(self.config)]
        words += [] if run == settings.name else ["--run", run]
        for key, value in {**self.changes, **rates}.items():
            words += [spelled(short.get(key, key)), str(value)]
        return shlex.join(words)


def _free_name(name: str, settings: AnyRunConfig) -> str:
    """The name, or with a number if its folder has a trained run with other settings."""
    number, free = 1, name
    while True:
        try:
            check_same(run_folder(free), settings)
        except UsageError:
            number, free = number + 1, f"{name}-{number + 1}"
        else:
            return free


def find_rate(settings: AnyRunConfig, folder: Path, request: Request) -> str:
    """Test learning rates for a run, and report the suggested one; return why the test ended.

    folder: a temporary one.
    """
    if request.plot is not None:
        check_new_file(request.plot)
        check_plot(request.plot)
    screen = Screen(request.quiet)
    screen.steps = UPDATES
    try:
        test = range_test(settings, folder, listeners=[screen], observers=[screen])
    finally:
        screen.close()
    if test.curve.end == "interrupted":
        return test.curve.end
    found = suggested(test.curve)
    command = None if found.rate is None else request.with_rate(settings, test, found.rate)
    if request.plot is not None:
        _draw(request.plot, test, found)
    if request.json:
        curve = {"rates": test.curve.rates, "losses": test.curve.losses, "end": test.curve.end}
        recipe = test.config.optimizer.lr
        data_json({**vars(found), "recipe": recipe, **curve, "command": command})
        return test.curve.end
    _show(test, found)
    if request.plot is not None:
        say(f"written   {request.plot}")
    if command is not None:
        say_next([command])
    return test.curve.end


def _show(test: RangeTest, found: Suggestion) -> None:
    """Print the chart, the range of the test, and what to conclude."""
    rates, means = test.curve.rates, test.curve.means
    top = _top(means)
    rows = block_chart(means, top, width=talk.width - EDGE - 1)
    labels = {0: f"{top:.3g}", len(rows) - 1: f"{min(means):.3g}"}
    for number, row in enumerate(rows):
        say(f"{labels.get(number, ''):>{EDGE - 1}} {row}")
    columns = min(talk.width - EDGE - 1, len(means))
    axis = ["─"] * columns
    for rate, mark in ((found.minimum, "○"), (found.rate, "▲")):
        if rate is not None:
            nearest = min(range(len(rates)), key=lambda i: abs(rates[i] / rate - 1))
            axis[nearest * columns // len(rates)] = mark
    last = f"{rates[-1]:.1e}"
    say(f"{'loss':>{EDGE - 1}} {''.join(axis)}")
    say(f"{'rate':>{EDGE - 1}} {f'{rates[0]:.1e}':<{max(8, columns - len(last))}}{last}")
    ending = "the loss diverged" if test.curve.end == "diverged" else "the highest rate"
    say(f"tested    {len(rates)} updates, up to {ending}; nothing was saved")
    if found.rate is None:
        say(f"no rate   {found.reason}")
        return
    say(f"rate  ▲   {found.rate:.2g}: {found.reason}")
    say(f"          the configuration has {test.config.optimizer.lr:.2g}")


def _top(means: Sequence[float]) -> float:
    """The highest loss of a chart."""
    return means[0] + ABOVE * (means[0] - min(means)) + 1e-6


def _draw(path: Path, test: RangeTest, found: Suggestion) -> None:
    """Draw the losses, their means, and the suggested rate."""
    rates, means = test.curve.rates, test.curve.means
    top = _top(means)
    series = {
        "loss of an update": list(
            zip(rates, (min(x, top) for x in test.curve.losses), strict=True)
        ),
        "mean of neighbouring updates": list(zip(rates, (min(x, top) for x in means), strict=True)),
    }
    if found.rate is not None:
        series[f"suggested: {found.rate:.2g}"] = [(found.rate, min(means)), (found.rate, top)]
    title = f"Learning-rate range test of {test.config.recipe}"
    line_plot(path, series, title=title, x_label="learning rate", y_label="loss", log_x=True)
