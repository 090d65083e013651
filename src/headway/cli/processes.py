"""The processes of `headway train --processes N`: they are started, watched, and started again.

The command starts itself N times with the variables of torchrun (`base.ranks`). If the system kills
one of them, all end, and all start again from the last checkpoint.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Literal

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from headway.base.errors import UsageError
from headway.base.ranks import ANOTHER_FAILED, LAUNCHED, size_of_world
from headway.terminal.console import program, say
from headway.training.signals import stops_handled

RESTARTS = 3
"""Maximum number of restarts, each of which follows on less than `WELL` seconds of work."""

WELL = 600.0

GRACE = 10.0
"""Seconds in which the other processes end by themselves after one has failed."""

PERIOD = 0.1
"""Seconds between two looks at the processes."""

Processes = int | Literal["auto"] | None


def number_of_processes(requested: Processes) -> int:
    """Return the number of processes that this command must start; 1 if it trains by itself.

    requested: the value of --processes; auto is the number of GPUs, or 1 without any. UsageError if
    torchrun has started another number.
    """
    world = size_of_world()
    if world is None:
        return max(1, torch.cuda.device_count()) if requested == "auto" else requested or 1
    if requested not in (None, "auto", world):
        raise UsageError(
            f"--processes {requested}: torchrun has started {world} processes",
            hint="leave out --processes",
        )
    return 1


def launch(size: int) -> int:
    """Run this command in `size` processes, and return its exit code.

    A signal to this process is forwarded to all of them. A group of which the system has killed a
    process is started again.
    """
    restarts = 0
    while True:
        begun = time.monotonic()
        with _started(size) as children, _forwarded(children) as stops:
            codes = _ended(children)
        killed = [(rank, -code) for rank, code in enumerate(codes) if code < 0]
        if stops or not killed:
            failures = [code for code in codes if code]
            own = [code for code in failures if code != ANOTHER_FAILED]
            return next(iter(own or failures), 0)
        rank, number = killed[0]
        if time.monotonic() - begun >= WELL:
            restarts = 0
        name = signal.Signals(number).name
        if restarts == RESTARTS:
            say(f"error: process {rank} of {size} was ended by {name}, as in {restarts} restarts")
            return 1
        restarts += 1
        say(
            f"          ! process {rank} of {size} was ended by {name}; all start again, from the "
            f"last checkpoint if there is one (restart {restarts} of {RESTARTS})"
        )


@contextmanager
def _started(size: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start the processes, which are ended with the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    # the store of the group: its connections end with this process, and then the group ends
    store = TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listening.detach(),
    )
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    group = {
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # which this process holds
        "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", loopback),
        "TORCH_CPP_LOG_LEVEL": os.environ.get("TORCH_CPP_LOG_LEVEL", "ERROR"),  # no stack traces
        LAUNCHED: program(),
    }
    children: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(size):
            number = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            children.append(
                subprocess.Popen(
                    [sys.executable, "-m", "headway", *sys.argv[1:]],
                    env={**os.environ, **group, **number},
                    stdin=subprocess.DEVNULL,
                    process_group=0,  # Ctrl-C reaches them through this process, once
                )
            )
        yield children
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
            child.wait()
        del store


@contextmanager
def _forwarded(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    """Forward the signals that end a run, and yield the list of those that have come."""
    stops: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        stops.append(number)
        for child in children:
            child.send_signal(number)

    with stops_handled(forward):
        yield stops


def _ended(
    children: Sequence[subprocess.Popen[bytes]], clock: Callable[[], float] = time.monotonic
) -> list[int]:
    """Wait for the processes, and return their exit codes; the negative number of a signal that
    ended one, and `ANOTHER_FAILED` for those that had to be killed after another had failed."""
    end, late = float("inf"), set[int]()
    while any(child.poll() is None for child in children):
        if end == float("inf") and any(child.poll() for child in children):
            end = clock() + GRACE
        if clock() > end:
            late = {rank for rank, child in enumerate(children) if child.poll() is None}
            for rank in late:
                children[rank].kill()
            break
        time.sleep(PERIOD)
    codes = [child.wait() for child in children]
    return [ANOTHER_FAILED if rank in late else code for rank, code in enumerate(codes)]
