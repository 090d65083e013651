"""`python -m bench.gpu_kernels`: which kernels a GPU runs in a step, and for how long.

For each of the sizes of `bench/gpu.py`, by torch's profiler: the time of a step without the
profiler, the sum of its kernels (more than the time, where one starts before another ends), their
number, and the kernels that take longest. Without a GPU the exit code is 2; `--dry-run` runs it on
the CPU, which has no kernels.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from bench.gpu_decoding import built_generator, searched
from bench.gpu_scale import DRY, PROMPT, Run, Scale, is_without_gpu
from bench.gpu_training import built_training

WAYS = {"": {}, " by graphs": {"by_graphs": True}, " compiled": {"compiled": True}}
LISTED = 20
"""Kernels of a report."""


def works(scale: Scale) -> Iterator[tuple[str, Callable[[], Run], int]]:
    """The name, what builds a run, and the number of steps of a run."""
    for size in ("gpt2-small", "gpt2-medium"):
        for way, options in WAYS.items():
            build = partial(built_training, scale, size, scale.rows, **options)
            yield f"training {size}{way}", build, scale.steps
    for size, batch in (("gpt2-small", 1), ("gpt2-small", scale.batches[-1]), ("gpt2-xl", 1)):
        name = f"decoding {size}, batch {batch}"
        build = partial(_generated, scale, size, batch)
        yield name, build, scale.written


def _generated(scale: Scale, size: str, batch: int) -> Run:
    config = scale.gpt(size)
    _, by_graphs = built_generator(scale, config)
    prompts = torch.randint(config.vocabulary, (batch, PROMPT), device=scale.device)
    return partial(searched, by_graphs, prompts, scale)


def report(name: str, run: Run, steps: int, scale: Scale) -> str:
    """Return the lines of one work."""
    for _ in range(2):
        run()
    scale.synchronise()
    started = time.perf_counter()
    run()
    scale.synchronise()
    seconds = (time.perf_counter() - started) / steps
    activities = [ProfilerActivity.CPU]
    if scale.device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, acc_events=True) as found:
        run()
        scale.synchronise()
    times: dict[str, list[float]] = defaultdict(list)
    for event in found.events() or ():
        is_kernel = "CUDA" in str(event.device_type) and "Optimizer.step#" not in event.name
        if is_kernel:
            times[event.name].append(event.time_range.elapsed_us())
    total, number = sum(map(sum, times.values())), sum(map(len, times.values()))
    lines = [
        f"{name}: {1e3 * seconds:.3f} ms a step; kernels {total / steps / 1e3:.3f} ms, "
        f"{number / steps:.0f} of them"
    ]
    for kernel, each in sorted(times.items(), key=lambda item: -sum(item[1]))[:LISTED]:
        share = f"{sum(each) / steps:9.1f} µs in {len(each) / steps:6.1f}"
        lines.append(f"  {share}  {kernel[:110]}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_kernels", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="PART", help="works whose names contain it")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the CPU; no kernels")
    options: Any = parser.parse_args(arguments)
    if not options.dry_run and is_without_gpu():
        return 2
    scale = DRY if options.dry_run else Scale()
    for name, build, steps in works(scale):
        if options.only is None or any(part in name for part in options.only):
            print(report(name, build(), steps, scale), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
