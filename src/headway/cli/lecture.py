"""`headway lecture`: the claims of the lectures, measured on this machine."""

import time
from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import Annotated

import torch

from headway.base.devices import MachineConfig, prepare
from headway.base.errors import UsageError
from headway.base.files import make_folder, write_file
from headway.base.settings import COMMAND_LINE, THREADS, count, override, setting
from headway.cli.flags import OUTPUT, as_flags, check_name
from headway.lectures import CLAIMS
from headway.lectures.plans import PLANS
from headway.terminal.console import program, result, say
from headway.terminal.progress import progress

ENDINGS = (".md", ".json", ".svg")


@as_flags
class LectureFlags:
    output: Annotated[Path | None, OUTPUT] = setting(
        None, "Folder for NAME.md, NAME.json and NAME.svg. If unset, lectures/NAME."
    )
    json: bool = setting(False, "Print one JSON object instead of text.")
    overwrite: bool = setting(False, "Replace these three files if they exist.")
    threads: int | None = count(
        None,
        "Number of CPU threads. If unset, that of OMP_NUM_THREADS, or the fastest one.",
        THREADS,
    )


def lecture(name: str | None = None, /, *, flags: LectureFlags = LectureFlags()) -> None:
    """Measure a claim of the lectures; without a name, list them.

    Parameters
    ----------
    name
        Name of the claim.
    """
    if name is None:
        _list(flags.json)
        return
    check_name(name, CLAIMS, "claim")
    path = _output_path(name, flags.output, flags.overwrite)
    machine = prepare(
        override(MachineConfig(device="cpu"), {"threads": flags.threads}, COMMAND_LINE)
    )
    claim, started = CLAIMS[name], time.monotonic()
    with progress(f"measuring {name}") as report_fraction:
        measured = claim.measure(report=report_fraction)
    report = {
        **{"name": name, "title": claim.TITLE, "claim": claim.CLAIM, "verdict": measured.verdict},
        **{"seconds": round(time.monotonic() - started, 1), "threads": machine.threads},
        **{"torch": torch.__version__, "result": measured.as_dict()},
    }
    _write(path, report, measured.markdown())
    claim.plot(measured, path.with_suffix(".svg"))
    text = f"{claim.TITLE}: {claim.CLAIM}\n\n{measured.markdown()}\n\n{measured.verdict}"
    result(report, text, as_json=flags.json)
    say(f"written   {path}{', '.join(ENDINGS)}")


def check_named(words: Sequence[str]) -> None:
    """UsageError if the words of a command that asks for help name no claim."""
    arguments = [word for word in words if not word.startswith("-")]
    if arguments and not any(word in CLAIMS for word in arguments):
        check_name(arguments[0], CLAIMS, "claim")


def _list(as_json: bool) -> None:
    width = max(map(len, CLAIMS))
    for name, claim in CLAIMS.items():
        value = {"name": name, "title": claim.TITLE, "claim": claim.CLAIM}
        result(value, f"{name:<{width}}  {claim.CLAIM}", as_json=as_json)
    if not as_json:
        us = program()
        say(f"measure one    {us} lecture {next(iter(CLAIMS))}")
        say(f"with training  {us} compare {' | '.join(PLANS)}")


def _output_path(name: str, output: Path | None, overwrite: bool) -> Path:
    """The path of the three files without suffix; creates their folder. Called before measuring.

    UsageError if a file exists and must not be overwritten.
    """
    folder = Path("lectures", name) if output is None else output
    existing = [f"{name}{end}" for end in ENDINGS if (folder / f"{name}{end}").exists()]
    if existing and not overwrite:
        raise UsageError(
            f"files exist already: {', '.join(existing)}",
            str(folder),
            "replace them with --overwrite, or choose another folder with --output",
        )
    make_folder(folder)
    return folder / name


def _write(path: Path, report: dict[str, object], table: str) -> None:
    """Write NAME.json and NAME.md, which includes the plot NAME.svg."""
    text = dumps(report, ensure_ascii=False, allow_nan=False, indent=1)
    write_file(path.with_suffix(".json"), f"{text}\n".encode())
    page = (
        f"# {report['title']}\n\nThe claim: {report['claim']}.\n\n{table}\n\n"
        f"**It {report['verdict']}.**\n\n![{report['title']}]({path.name}.svg)\n\n"
        f"`headway lecture {report['name']}`, {report['seconds']} s, "
        f"CPU threads: {report['threads']}, torch {report['torch']}.\n"
    )
    write_file(path.with_suffix(".md"), page.encode())
