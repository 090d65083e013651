"""Two libraries in two processes, asked in turn: A B A B ...

Each side lives in its own process, so that neither inherits the other's allocator, thread pool or
cached kernels. A process that is not asked waits on its standard input and computes nothing.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Answer = dict[str, Any]
"""{"work": units done, "seconds": how long, ...}."""
Worker = Callable[[dict[str, Any]], Answer]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a side is told when it starts.

    claim: the module of this package with the functions `ours` and `peer`. folder: the trained run.
    allocator: whether the process sets its allocator and oneDNN up as Headway does.
    work: how much one round is, in units of the claim (steps, sentences, calls).
    """

    claim: str
    side: str
    folder: str
    threads: int
    allocator: bool
    work: int


def environment() -> dict[str, str]:
    """Of a process of ours: it finds this package, and asks nobody for anything."""
    places = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in places if p),
        "HF_HUB_OFFLINE": "1",
        "KINETO_LOG_LEVEL": "9",  # torch's profiler says when it starts and stops
    }


def measured(command: list[str], folder: Path, log: Path) -> dict[str, float]:
    """Run a command to its end, its words in `log`; what it cost. CalledProcessError if it fails.

    CPU seconds are those of the whole process: reading, training, scoring.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with open(log, "w", encoding="utf-8") as words:
        both = {"stdout": words, "stderr": subprocess.STDOUT}
        subprocess.run(command, cwd=folder, env=environment(), check=True, **both)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = sum(getattr(after, each) - getattr(before, each) for each in ("ru_utime", "ru_stime"))
    return {"cpu_seconds": spent, "wall_seconds": time.perf_counter() - began}


class Side:
    """A process that computes when asked."""

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
        """One round. RuntimeError when the process died; its words stand on stderr."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its last words follow
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.name} ended: {self._process.wait()}")
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
        self._process.stdin.close()
        self._process.wait()


def interleave(ours: Side, peer: Side, rounds: int, **question: Any) -> list[tuple[Answer, Answer]]:
    """`rounds` pairs of answers, after one of each that is not counted."""
    ours.ask(**question)
    peer.ask(**question)
    return [(ours.ask(**question), peer.ask(**question)) for _ in range(rounds)]


def faster_attention(peer: Side, tries: int = 1, **question: Any) -> str:
    """Which of transformers' attention implementations the peer should run with.

    The one with the fastest of `tries` calls; the first call of each is nobody's measure.
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
    os.dup2(2, 1)  # whatever a library prints must not stand between the answers
    _set_up(settings)
    work: Worker = getattr(import_module(f"bench.{settings.claim}"), settings.side)(settings)
    for line in sys.stdin:
        print(json.dumps(work(json.loads(line))), file=answers, flush=True)


def _set_up(settings: Settings) -> None:
    """The same threads and the same treatment of tiny numbers for both sides."""
    if settings.allocator:
        from headway.machine import MachineConfig, prepare

        prepare(MachineConfig(device="cpu", threads=settings.threads))
        return
    import torch

    torch.set_num_threads(settings.threads)
    torch.set_flush_denormal(True)


if __name__ == "__main__":
    _serve(Settings(**json.loads(sys.argv[1])))
