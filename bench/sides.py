"""Measurement of two libraries in two processes that take turns: A B A B ...

Each side has its own process, so that neither inherits the other's allocator, thread pool or cached
kernels. A process without a request waits on its standard input and computes nothing.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
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
    oneDNN settings. work: the amount of work of one round, in units of the claim (steps, sentences,
    calls).
    """

    claim: str
    side: str
    folder: str
    threads: int
    allocator: bool
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


def measured(command: list[str], folder: Path, log: Path) -> dict[str, float]:
    """Run a command, write its output to `log`, and return its CPU and wall-clock seconds.

    CPU seconds are those of the whole process: reading, training, scoring. Raises
    CalledProcessError if the command fails.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with open(log, "w", encoding="utf-8") as output:
        subprocess.run(
            command,
            cwd=folder,
            env=environment(),
            check=True,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = sum(getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
    return {"cpu_seconds": spent, "wall_seconds": time.perf_counter() - began}


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
            self._process.kill()
        with suppress(BrokenPipeError):  # the process has ended, and did not read its last request
            self._process.stdin.close()
        self._process.wait()


def interleave(ours: Side, peer: Side, rounds: int, **question: Any) -> list[tuple[Answer, Answer]]:
    """Run `rounds` pairs of rounds, after a warm-up of each side; return their answers."""
    ours.ask(**question)
    peer.ask(**question)
    return [(ours.ask(**question), peer.ask(**question)) for _ in range(rounds)]


def faster_attention(peer: Side, tries: int = 1, **question: Any) -> str:
    """Return the faster of transformers' attention implementations for the peer.

    It is the one with the fastest of `tries` calls; the first call of each is not counted.
    """
    names = ("sdpa", "eager")
    for name in names:
        peer.ask(attention=name, **question)
    seconds = dict.fromkeys(names, float("inf"))
    for _ in range(tries):
        for name in names:
            spent = peer.ask(attention=name, **question)["seconds"]
            seconds[name] = min(seconds[name], spent)
    return min(names, key=lambda name: seconds[name])


def _serve(settings: Settings) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the output of libraries is sent to standard error, apart from the answers
    _set_up(settings)
    work: Worker = getattr(import_module(f"bench.{settings.claim}"), settings.side)(settings)
    for line in sys.stdin:
        print(json.dumps(work(json.loads(line))), file=answers, flush=True)


def _set_up(settings: Settings) -> None:
    """Set the same number of threads and flush denormals on both sides."""
    if settings.allocator:
        from headway.base.devices import MachineConfig, prepare

        prepare(MachineConfig(device="cpu", threads=settings.threads))
        return
    import torch

    torch.set_num_threads(settings.threads)
    torch.set_flush_denormal(True)


if __name__ == "__main__":
    _serve(Settings(**json.loads(sys.argv[1])))
