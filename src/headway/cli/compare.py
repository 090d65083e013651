"""`headway compare`: trains several variants on the same data with the same budget."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.base.errors import UsageError
from headway.base.settings import COMMAND_LINE
from headway.cli.console import data, data_json, program, talk
from headway.cli.flags import BeamWidth
from headway.cli.train import run_training, split_words

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
    """Compare variants of a recipe: headway compare PLAN [DATA] [--SETTING VALUE ...].

    PLAN is a built-in plan (ladder, scores, positions, extrapolation, heads, depth), a .yaml file
    (keys recipe, seeds, common, variants), or a recipe with --vary:

    headway compare translate pairs.tsv --vary model.num_heads=1,2,4 --time 10m
    headway compare gpt-tiny python-docs --vary optimizer.lr=1e-3,4e-3 --seeds 1 2

    Settings are those of `headway train` and apply to all variants. Results are saved in
    runs/NAME: one run folder per variant and seed, report.md, report.json and plots. The same
    command resumes an interrupted comparison; a variant that fails does not stop the others.

    Parameters
    ----------
    vary
        KEY=A,B,C: a setting and its values; several settings make every combination.
    seeds
        Random seeds; every variant is trained with each, and the report has mean and standard
        deviation.
    beam
        Beam width of the evaluation, for models that decode with beam search.
    run
        Name of the comparison; its folder is runs/NAME. If unset, compare-PLAN.
    json
        Print the report as one JSON object on standard output.
    quiet
        Show no progress.
    """
    from headway.base.devices import prepare
    from headway.comparisons.compare import compare as run_plan
    from headway.comparisons.compare import settings_of
    from headway.comparisons.report import write_report
    from headway.runs import run_folder

    arguments, flags = split_words(words)
    plan, name = _plan(arguments, vary, seeds)
    if len(arguments) == 2:
        flags["data.train"] = arguments[1]
    configs = settings_of(plan, [(COMMAND_LINE, flags)])
    folder = run_folder(run or f"compare-{name}")

    def announce(variant: str, number: int, total: int) -> None:
        talk.rule(f"{number} of {total}  {variant}", align="left", style="dim")

    def train(config: Any, path: Path) -> Outcome:
        return run_training(config, path, quiet=quiet or json)

    comparison = run_plan(plan, configs, folder, train, options={"beam": beam}, announce=announce)
    machine = str(prepare(next(iter(configs.values())).machine))
    write_report(comparison, folder, _command(), machine)
    _show(comparison, folder, json)


def _show(comparison: Comparison, folder: Path, json: bool) -> None:
    """Print the table and the failures, and exit with the code that they imply."""
    from headway.base.files import read_json
    from headway.comparisons.report import table

    if json:
        data_json(read_json(folder / "report.json"))
    else:
        data(table(comparison))
    for variant, error in comparison.failed.items():
        talk.print(f"failed    {variant}: {error}", markup=False)
    talk.print(f"report    {folder / 'report.md'}", markup=False)
    if comparison.interrupted:
        talk.print(f"saved     resume with: {_command()}", markup=False)
        raise SystemExit(INTERRUPTED)
    if comparison.failed:
        raise SystemExit(1)


def _plan(arguments: Sequence[str], vary: Sequence[str], seeds: Sequence[int]) -> tuple[Plan, str]:
    """The plan that the arguments name, and the name of the comparison."""
    from dataclasses import replace

    from headway.comparisons.plans import is_file_of_plan, named_plan, read_plan, varied
    from headway.lectures.plans import PLANS

    if not arguments:
        raise UsageError("the plan is missing", hint=f"headway compare {' | '.join(PLANS)}")
    if len(arguments) > 2:
        raise UsageError(
            f"unexpected argument {arguments[2]!r}: expected a plan and one path of training data"
        )
    if vary:
        plan, name = varied(arguments[0], vary), arguments[0]
    elif is_file_of_plan(arguments[0]):
        plan, name = read_plan(Path(arguments[0])), Path(arguments[0]).stem
    else:
        _check_no_models(arguments)
        plan, name = named_plan(arguments[0], PLANS), arguments[0]
    return (replace(plan, seeds=tuple(seeds)) if seeds else plan), name


def _check_no_models(arguments: Sequence[str]) -> None:
    """UsageError if the plan is a recipe without variants, or a trained model."""
    from headway.runs import resolved

    name, *others = arguments
    if resolved(name) is not None:
        raise UsageError(
            f"{name} is a recipe, and nothing is varied",
            hint=f"headway compare {shlex.join(arguments)} --vary optimizer.lr=1e-3,4e-3",
        )
    if Path(name).exists():
        against = others[0] if others else "RUN2"
        raise UsageError(
            f"{name} is a file or folder, but compare trains the variants of a plan or recipe",
            hint=f"to compare trained models: headway eval {name} --against {against}; to compare "
            f"settings: headway compare RECIPE DATA --vary KEY=A,B",
        )


def _command() -> str:
    return shlex.join([program(), *sys.argv[1:]])
