"""`headway lecture`: what the lectures claim, measured on this machine."""

from __future__ import annotations

import time
from importlib import metadata
from pathlib import Path
from typing import Any

from headway.cli.console import data, data_json, program, talk
from headway.errors import UsageError, did_you_mean
from headway.files import make_folder

ENDINGS = (".md", ".json", ".svg")


def lecture(
    name: str | None = None,
    /,
    *,
    out: Path | None = None,
    json: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
) -> None:
    """Measure a claim of the lectures; without a name, list them.

    Parameters
    ----------
    name
        A claim.
    out
        Folder for NAME.md, NAME.json and NAME.svg; lectures/NAME unless given.
    json
        One JSON object instead of text.
    overwrite
        Replace these three files where they are there already.
    threads
        CPU threads.
    """
    from headway.lectures import CLAIMS
    from headway.machine import MachineConfig, prepare
    from headway.settings import COMMAND_LINE, override

    if name is None:
        _list(json)
        return
    if name not in CLAIMS:
        raise UsageError(
            f"no claim {name!r}" + did_you_mean(name, CLAIMS),
            hint="one of: " + ", ".join(CLAIMS),
        )
    start = _place(name, out, overwrite)
    machine = prepare(override(MachineConfig(device="cpu"), {"threads": threads}, COMMAND_LINE))
    claim, started = CLAIMS[name], time.monotonic()
    with talk.status(f"measuring {name}"):
        result = claim.measure()
    facts = {
        **{"name": name, "title": claim.TITLE, "claim": claim.CLAIM, "verdict": result.verdict},
        **{"seconds": round(time.monotonic() - started, 1), "threads": machine.threads},
        **{"torch": metadata.version("torch"), "result": result.as_dict()},
    }
    _write(start, facts, result.markdown())
    claim.picture(result, start.with_suffix(".svg"))
    if json:
        data_json(facts)
    else:
        data(f"{claim.TITLE}: {claim.CLAIM}\n\n{result.markdown()}\n\n{result.verdict}")
    talk.print(f"written   {start}{', '.join(ENDINGS)}", markup=False)


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
        talk.print(f"one of them   {us} lecture {next(iter(CLAIMS))}", markup=False)
        talk.print(f"with training {us} compare {' | '.join(PLANS)}", markup=False)


def _place(name: str, out: Path | None, overwrite: bool) -> Path:
    """The three files without their endings, in a folder that is there: asked before measuring,
    not after."""
    folder = Path("lectures", name) if out is None else out
    there = [f"{name}{end}" for end in ENDINGS if (folder / f"{name}{end}").exists()]
    if there and not overwrite:
        raise UsageError(
            f"{', '.join(there)} would be replaced",
            str(folder),
            "--overwrite, or another folder with --out",
        )
    make_folder(folder)
    return folder / name


def _write(start: Path, facts: dict[str, Any], shown: str) -> None:
    """NAME.json and NAME.md; the picture stands in the page under its name."""
    from json import dumps  # `json` is a flag in this file

    from headway.files import write_file

    text = dumps(facts, ensure_ascii=False, allow_nan=False, indent=1)
    write_file(start.with_suffix(".json"), f"{text}\n".encode())
    page = (
        f"# {facts['title']}\n\nThe claim: {facts['claim']}.\n\n{shown}\n\n"
        f"**It {facts['verdict']}.**\n\n![{facts['title']}]({start.name}.svg)\n\n"
        f"`headway lecture {facts['name']}`, {facts['seconds']} s, "
        f"CPU threads: {facts['threads']}, torch {facts['torch']}.\n"
    )
    write_file(start.with_suffix(".md"), page.encode())
