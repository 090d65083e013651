"""The child process that renders chat templates: one JSON line in, one JSON line out.

It is run by its path, isolated, and imports nothing of Headway: it must start fast, and must not
have anything that a template could reach.
"""

from __future__ import annotations

import datetime
import json
import resource
import signal
import sys
from typing import Any

MEMORY = 2**28
LONGEST = 2**20
CPU_SECONDS = 2.0
"""CPU time of a template; not time by the clock, so that a busy machine refuses none."""


class _Refused(Exception):
    pass


def _refuse(message: str) -> None:
    raise _Refused(message)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _render(task: dict[str, Any]) -> str:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    template = environment.from_string(task["template"])
    parts, length = [], 0
    for part in template.generate(
        messages=task["messages"],
        bos_token=task["bos_token"],
        eos_token=task["eos_token"],
        add_generation_prompt=True,
    ):
        length += len(part)
        if length > LONGEST:
            raise _Refused("the prompt is too long")
        parts.append(part)
    return "".join(parts)


def main() -> None:
    """Render the templates of standard input, line by line."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # its signal ends the process
        try:
            reply = {"text": _render(json.loads(line))}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"[:500]}
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
