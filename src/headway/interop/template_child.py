"""The child process that renders chat templates: one JSON line in, one JSON line out.

It is run by its path, isolated, and imports nothing of Headway: it must start fast, and must not
have anything that a template could reach. Templates have the tags, filters and functions that
transformers gives them.
"""

import datetime
import json
import resource
import signal
import sys
from functools import lru_cache
from typing import Any

MEMORY = 2**28
LONGEST = 2**20
CPU_SECONDS = 2.0
"""CPU time of a template; not time by the clock, so that a busy machine refuses none."""


class _Refused(Exception):
    pass


def _refuse(message: str) -> None:
    raise _Refused(message)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _now(form: str) -> str:
    return datetime.datetime.now().strftime(form)


def _environment(marks: tuple[str, str]) -> Any:
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %}, around what the model wrote; it writes its body between `marks`."""

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            # a call, as in transformers: what the body sets is not set after it
            return nodes.CallBlock(self.call_method("_written"), [], [], body).set_lineno(line)

        def _written(self, caller: Any) -> Any:
            return marks[0] + caller() + marks[1]

    Generation.tags = {"generation"}
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    return environment


@lru_cache(4)
def _compiled(source: str, marks: tuple[str, str]) -> Any:
    """Return a compiled template, in an environment that no other template shares."""
    return _environment(marks).from_string(source)


def _render(task: dict[str, Any]) -> str:
    template = _compiled(task["template"], tuple(task.get("marks") or ("", "")))
    parts, length = [], 0
    for part in template.generate(task["variables"]):
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
