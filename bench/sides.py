"""Measurement of two libraries in two processes that take turns: A B A B ...

Each side has its own process, so that neither inherits the other's allocator, thread pool or cached
kernels. A process without a request waits on its standard input and computes nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Answer = dict[str, Any]
"""{"work": the number of units done, "seconds": their duration, ...}."""
Worker = Callable[[dict[str, Any]], Answer]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Configuration of a side, passed to its process.

    claim: the module of this package with the functions `ours` and `peer`. side: the name of one of
    them. folder: the trained run. allocator: whether the process uses Headway's allocator and
    oneDNN settings; None: nothing is set up, as in a process that a user starts. work: the amount
    of work of one round, in units of the claim (steps, sentences, calls).
    """

    claim: str
    side: str
    folder: str
    threads: int
    allocator: bool | None
    work: int


def environment() -> dict[str, str]:
    """Return the environment of a process that finds this package and uses no network."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "HF_HUB_OFFLINE": "1",
        "KINETO_LOG_LEVEL": "9",  # otherwise torch's profiler prints messages
    }


class Side:
    """A process that runs one round per request."""

    def __init__(self, settings: Settings) -> None:
        self.name = f"{settings.claim}, {settings.side}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.sides", json.dumps(asdict(settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def ask(self, **question: Any) -> Answer:
        """Run one round. RuntimeError if the process died; its messages are on standard error."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the process ended; its exit code is reported below
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"the process of {self.name} ended with exit code {self._process.wait()}"
            )
        answer: Answer = json.loads(line)
        return answer

    def __enter__(self) -> Side:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        if kind is not None:
            self._process.terminate()
        with suppress(BrokenPipeError):  # the process has ended, and did not read its last request
            self._process.stdin.close()
        self._process.wait()


def interleave(
    ours: Side, peer: Side, rounds: int, *, warm_up: bool = True, **question: Any
) -> list[tuple[Answer, Answer]]:
    """Run `rounds` pairs of rounds, after a warm-up of each side; return their answers."""
    if warm_up:
        ours.ask(**question)
        peer.ask(**question)
    return [(ours.ask(**question), peer.ask(**question)) for _ in range(rounds)]


ATTENTION = ({"attention": "sdpa"}, {"attention": "eager"})
"""transformers' implementations of attention."""


def fastest(
    peer: Side, choices: Sequence[dict[str, Any]], *, warm_up: bool = True, **question: Any
) -> dict[str, Any]:
    """Return the settings with which the peer is fastest. With `warm_up`, the first call with each
    is not counted."""
    if warm_up:
        for choice in choices:
            peer.ask(**choice, **question)
    answers = [peer.ask(**choice, **question) for choice in choices]
    rates = [answer["work"] / answer["seconds"] for answer in answers]
    return choices[rates.index(max(rates))]


def _serve(settings: Settings) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it has started ends with it
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the output of libraries is sent to standard error, apart from the answers
    _set_up(settings)
    work: Worker = getattr(import_module(f"bench.{settings.claim}"), settings.side)(settings)
    for line in sys.stdin:
        print(json.dumps(work(json.loads(line))), file=answers, flush=True)


def _set_up(settings: Settings) -> None:
    """Set the same number of threads and flush denormals, but for a side as a user starts it."""
    if settings.allocator is None:
        return
    if settings.allocator:
        from headway.base.devices import MachineConfig, prepare

        prepare(MachineConfig(device="cpu", threads=settings.threads))
        return
    import torch

    torch.set_num_threads(settings.threads)
    torch.set_flush_denormal(True)


if __name__ == "__main__":
    _serve(Settings(**json.loads(sys.argv[1])))
