"""Alternating rounds of several sides on a GPU: the rows and the failures of `bench/gpu.py`."""

from __future__ import annotations

import itertools
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from bench.gpu_scale import Run, Scale
from bench.report import Row, row

BESIDE_TRANSFORMERS = 1.3


class Measurement:
    """The rows of a run, the failures of its sides, and the time that is left."""

    def __init__(self, scale: Scale, seconds: float) -> None:
        self.scale = scale
        self.rows: list[Row] = []
        self.failures: dict[str, str] = {}
        self._end = time.perf_counter() + seconds
        self.device = torch.cuda.get_device_name() if scale.device == "cuda" else "cpu (dry run)"

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self._end

    @contextmanager
    def kept_going(self, name: str) -> Iterator[None]:
        """Record an error inside the block as the failure of `name`."""
        try:
            yield
        except Exception as error:
            self.failures[name] = "".join(traceback.format_exception(error)[-4:])
            print(f"{name} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            if self.scale.device == "cuda":
                torch.cuda.empty_cache()

    def compare(
        self,
        name: str,
        sides: dict[str, Callable[[], Run]],
        work: int,
        unit: str,
        most: tuple[float, float | None],
    ) -> None:
        """Measure sides in alternating rounds; those of Headway have names that begin so.

        work: units of a round. most: units per second that the device allows, and the share of them
        that is the goal. The first two rounds of each side warm it up (and compile it).
        """
        runs: dict[str, Run] = {}
        for side, build in sides.items():
            if self.is_over:
                self.failures[f"{name}, {side}"] = "not measured: the time was over"
                continue
            with self.kept_going(f"{name}, {side}"):
                started = time.perf_counter()
                run = build()
                for _ in range(2):
                    run()
                self.scale.synchronise()
                print(
                    f"{name}, {side}: ready after {time.perf_counter() - started:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
                runs[side] = run
        answers: dict[str, list[dict[str, Any]]] = {side: [] for side in runs}
        for _ in range(self.scale.rounds):
            for side in list(runs):
                with self.kept_going(f"{name}, {side}"):
                    answers[side].append({"work": work, "seconds": self._seconds(runs[side])})
        self._report(name, answers, unit, most)

    def _seconds(self, run: Run) -> float:
        self.scale.synchronise()
        started = time.perf_counter()
        run()
        self.scale.synchronise()
        return time.perf_counter() - started

    def _report(
        self,
        name: str,
        answers: dict[str, list[dict[str, Any]]],
        unit: str,
        most: tuple[float, float | None],
    ) -> None:
        rate, goal = most
        allowed = {"work": rate, "seconds": 1.0}
        complete = {s: found for s, found in answers.items() if len(found) == self.scale.rounds}
        for side, found in complete.items():
            pairs = [(answer, allowed) for answer in found]
            needed = goal if side.startswith("Headway") else None
            title = f"{name}, {side}"
            self.rows.append(row(title, pairs, unit, "the device", self.device, goal=needed))
        for ours, other in itertools.product(complete, complete):
            if not ours.startswith("Headway") or other.startswith("Headway"):
                continue
            needed = BESIDE_TRANSFORMERS if other.startswith("transformers") else None
            pairs = list(zip(complete[ours], complete[other], strict=True))
            title = f"{name}, {ours}"
            self.rows.append(row(title, pairs, unit, other, self.device, goal=needed))
