"""`headway compare`: several models on the same data with the same budget, in one report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.cli.console import data, data_json, program, talk
from headway.cli.flags import BeamWidth
from headway.cli.train import run_folder, run_training, split_words
from headway.errors import UsageError
from headway.settings import COMMAND_LINE

if TYPE_CHECKING:
    from headway.comparisons.compare import Comparison
    from headway.comparisons.plans import Plan
    from headway.runs import Outcome

INTERRUPTED = 130


def compare(
    *words: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    vary: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    seeds: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (),
    beam: BeamWidth = 5,
    run: str | None = None,
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> None:
    """Train variants of a recipe, report on all: headway compare PLAN [DATA] [--SETTING VALUE ...].

    PLAN is one that comes with Headway (ladder, scores, positions,
    extrapolation, heads, depth), a .yaml file
    (recipe, seeds, common, variants), or a recipe with --vary:

    headway compare translate pairs.tsv --vary model.num_heads=1,2,4 --time 10m
    headway compare gpt-tiny python-docs --vary optimizer.lr=1e-3,4e-3 --seeds 1 2

    Settings are those of `headway train` and hold for all variants. Everything is kept in
    runs/NAME: one run folder a variant and seed, report.md, report.json, and pictures. The same
    command goes on where it stopped; a variant that fails does not stop the others.

    Parameters
    ----------
    vary
        KEY=A,B,C: a setting and its values; several make every combination.
    seeds
        Train every variant with each of these; the report gives mean and standard deviation.
    beam
        Beam width for the report's scores, of models that search.
    run
        Name of the comparison; its folder is runs/NAME.
    json
        The report as one JSON object on standard output.
    quiet
        Say nothing while training.
    """
    from headway.comparisons.compare import compare as run_plan
    from headway.comparisons.compare import settings_of
    from headway.comparisons.report import write_report
    from headway.machine import prepare

    things, flags = split_words(words)
    plan, name = _plan(things, vary, seeds)
    if len(things) == 2:
        flags["data.train"] = things[1]
    configs = settings_of(plan, [(COMMAND_LINE, flags)])
    folder = run_folder(run or f"compare-{name}")

    def announce(variant: str, number: int, total: int) -> None:
        talk.rule(f"{number} of {total}  {variant}", align="left", style="dim")

    def train(config: Any, place: Path) -> Outcome:
        return run_training(config, place, quiet=quiet or json)

    found = run_plan(plan, configs, folder, train, options={"beam": beam}, announce=announce)
    machine = str(prepare(next(iter(configs.values())).machine))
    write_report(found, folder, _command(), machine)
    _say(found, folder, json)


def _say(found: Comparison, folder: Path, json: bool) -> None:
    """What came out, and by which code it ends."""
    from headway.comparisons.report import table
    from headway.files import read_json

    if json:
        data_json(read_json(folder / "report.json"))
    else:
        data(table(found))
    for variant, error in found.failed.items():
        talk.print(f"failed    {variant}: {error}", markup=False)
    talk.print(f"report    {folder / 'report.md'}", markup=False)
    if found.interrupted:
        talk.print(f"saved     go on with: {_command()}", markup=False)
        raise SystemExit(INTERRUPTED)
    if found.failed:
        raise SystemExit(1)


def _plan(things: Sequence[str], vary: Sequence[str], seeds: Sequence[int]) -> tuple[Plan, str]:
    """The plan, and what to call it."""
    from dataclasses import replace

    from headway.comparisons.plans import named_plan, read_plan, varied
    from headway.lectures.plans import PLANS

    if not things:
        raise UsageError(f"which plan? One of {', '.join(PLANS)}", hint="headway compare --help")
    if len(things) > 2:
        raise UsageError(f"what is {things[2]!r}? There is a plan and one DATA")
    if vary:
        plan, name = varied(things[0], vary), things[0]
    elif things[0].endswith((".yaml", ".yml")):
        plan, name = read_plan(Path(things[0])), Path(things[0]).stem
    else:
        plan, name = named_plan(things[0], PLANS), things[0]
    return (replace(plan, seeds=tuple(seeds)) if seeds else plan), name


def _command() -> str:
    return shlex.join([program(), *sys.argv[1:]])
