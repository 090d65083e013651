"""`headway compare`: trains several variants on the same data with the same budget."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from headway.base.devices import prepare
from headway.base.errors import UsageError
from headway.base.files import read_json
from headway.base.settings import BEAMS, COMMAND_LINE, count, setting
from headway.cli.flags import QUIET, SEVERAL, WORDS, as_flags, split_words
from headway.cli.streams import copied
from headway.cli.train import unknown_recipe
from headway.comparisons.compare import Comparison, settings_of
from headway.comparisons.compare import compare as run_plan
from headway.comparisons.plans import Plan, is_file_of_plan, named_plan, read_plan, varied
from headway.comparisons.report import table, write_report
from headway.lectures.plans import PLANS
from headway.runs import AnyRunConfig, Outcome, resolved, run_folder
from headway.terminal.console import data, data_json, program, say, talk
from headway.terminal.training import train_on_screen

INTERRUPTED = 130


@as_flags
class CompareFlags:
    vary: Annotated[list[str] | None, SEVERAL] = setting(
        None, "KEY=A,B,C: a setting and its values; several settings make every combination."
    )
    seeds: Annotated[tuple[int, ...], SEVERAL] = setting(
        (),
        "Random seeds; every variant is trained with each, and the report has mean and standard "
        "deviation.",
    )
    beam: int = count(
        5, "Beam width of the evaluation, for models that decode with beam search.", BEAMS
    )
    run: str | None = setting(
        None, "Name of the comparison; its folder is runs/NAME. If unset, compare-PLAN."
    )
    json: bool = setting(False, "Print the report as one JSON object on standard output.")
    quiet: Annotated[bool, QUIET] = setting(False, "Show no progress.")


def compare(
    *words: Annotated[str, WORDS],
    flags: CompareFlags = CompareFlags(),
) -> None:
    """Compare variants of a recipe: headway compare PLAN [DATA] [--SETTING VALUE ...].

    PLAN is a built-in plan (ladder, scores, positions, extrapolation, heads, depth), a .yaml file
    (keys recipe, seeds, common, variants), or a recipe with --vary:

    headway compare translate pairs.tsv --vary model.num_heads=1,2,4 --time 10m
    headway compare gpt-tiny python-docs --vary optimizer.lr=1e-3,4e-3 --seeds 1 2

    Settings are those of `headway train` and apply to all variants. Results are saved in
    runs/NAME: one run folder per variant and seed, report.md, report.json and plots. The same
    command resumes an interrupted comparison; a variant that fails does not stop the others.
    """
    arguments, settings = split_words(words)
    plan, name = _plan(arguments, flags.vary, flags.seeds)
    if len(arguments) == 2:
        settings["data.train"] = arguments[1]
    configs = settings_of(plan, [(COMMAND_LINE, settings)])
    folder = run_folder(flags.run or f"compare-{name}")

    def announce(variant: str, number: int, total: int) -> None:
        talk.rule(f"{number} of {total}  {variant}", align="left", style="dim")

    def train(config: AnyRunConfig, path: Path) -> Outcome:
        with copied(config, path) as config:
            return train_on_screen(config, path, quiet=flags.quiet or flags.json)

    comparison = run_plan(
        plan, configs, folder, train, options={"beam": flags.beam}, announce=announce
    )
    machine = str(prepare(next(iter(configs.values())).machine))
    write_report(comparison, folder, _command(), machine)
    _show(comparison, folder, flags.json)


def _show(comparison: Comparison, folder: Path, json: bool) -> None:
    """Print the table and the failures, and exit with the code that they imply."""
    if json:
        data_json(read_json(folder / "report.json"))
    else:
        data(table(comparison))
    for variant, error in comparison.failed.items():
        say(f"failed    {variant}: {error}")
    say(f"report    {folder / 'report.md'}")
    if comparison.interrupted:
        say(f"saved     resume with: {_command()}")
        raise SystemExit(INTERRUPTED)
    if comparison.failed:
        raise SystemExit(1)


def check_named(words: Sequence[str]) -> None:
    """UsageError if the words of a command that asks for help name no plan or recipe."""
    name = unknown_recipe(words)
    if name is not None and not is_file_of_plan(name):
        named_plan(name, PLANS)


def _plan(
    arguments: Sequence[str], vary: Sequence[str] | None, seeds: Sequence[int]
) -> tuple[Plan, str]:
    """The plan that the arguments name, and the name of the comparison."""
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
