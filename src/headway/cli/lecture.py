"""`headway lecture`: the claims of the lectures, measured on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from headway.base.errors import UsageError, did_you_mean
from headway.base.files import make_folder
from headway.cli.console import data, data_json, program, talk
from headway.cli.flags import OUTPUT
from headway.cli.progress import progress

ENDINGS = (".md", ".json", ".svg")


def lecture(
    name: str | None = None,
    /,
    *,
    output: Annotated[Path | None, OUTPUT] = None,
    json: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
) -> None:
    """Measure a claim of the lectures; without a name, list them.

    Parameters
    ----------
    name
        Name of the claim.
    output
        Folder for NAME.md, NAME.json and NAME.svg. If unset, lectures/NAME.
    json
        Print one JSON object instead of text.
    overwrite
        Replace these three files if they exist.
    threads
        Number of CPU threads. If unset, that of OMP_NUM_THREADS, or the fastest one.
    """
    import torch

    from headway.base.devices import MachineConfig, prepare
    from headway.base.settings import COMMAND_LINE, override
    from headway.lectures import CLAIMS

    if name is None:
        _list(json)
        return
    if name not in CLAIMS:
        raise UsageError(
            f"unknown claim {name!r}" + did_you_mean(name, CLAIMS),
            hint="one of: " + ", ".join(CLAIMS),
        )
    path = _output_path(name, output, overwrite)
    machine = prepare(override(MachineConfig(device="cpu"), {"threads": threads}, COMMAND_LINE))
    claim, started = CLAIMS[name], time.monotonic()
    with progress(f"measuring {name}") as report_fraction:
        result = claim.measure(report=report_fraction)
    report = {
        **{"name": name, "title": claim.TITLE, "claim": claim.CLAIM, "verdict": result.verdict},
        **{"seconds": round(time.monotonic() - started, 1), "threads": machine.threads},
        **{"torch": torch.__version__, "result": result.as_dict()},
    }
    _write(path, report, result.markdown())
    claim.plot(result, path.with_suffix(".svg"))
    if json:
        data_json(report)
    else:
        data(f"{claim.TITLE}: {claim.CLAIM}\n\n{result.markdown()}\n\n{result.verdict}")
    talk.print(f"written   {path}{', '.join(ENDINGS)}", markup=False)


def _list(as_json: bool) -> None:
    from headway.lectures import CLAIMS
    from headway.lectures.plans import PLANS

    width = max(map(len, CLAIMS))
    for name, claim in CLAIMS.items():
        if as_json:
            data_json({"name": name, "title": claim.TITLE, "claim": claim.CLAIM})
        else:
            data(f"{name:<{width}}  {claim.CLAIM}")
    if not as_json:
        us = program()
        talk.print(f"measure one    {us} lecture {next(iter(CLAIMS))}", markup=False)
        talk.print(f"with training  {us} compare {' | '.join(PLANS)}", markup=False)


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


def _write(path: Path, report: dict[str, Any], table: str) -> None:
    """Write NAME.json and NAME.md, which includes the plot NAME.svg."""
    from json import dumps  # `json` is a flag in this file

    from headway.base.files import write_file

    text = dumps(report, ensure_ascii=False, allow_nan=False, indent=1)
    write_file(path.with_suffix(".json"), f"{text}\n".encode())
    page = (
        f"# {report['title']}\n\nThe claim: {report['claim']}.\n\n{table}\n\n"
        f"**It {report['verdict']}.**\n\n![{report['title']}]({path.name}.svg)\n\n"
        f"`headway lecture {report['name']}`, {report['seconds']} s, "
        f"CPU threads: {report['threads']}, torch {report['torch']}.\n"
    )
    write_file(path.with_suffix(".md"), page.encode())
