"""A process that ends at any system call that makes things durable, and what it left."""

from __future__ import annotations

import os
import warnings


def in_child(action):
    """Run `action` in a forked child; its exit status. Nothing of the child's is cleaned up."""
    with warnings.catch_warnings():
        # Python 3.12 warns that torch's threads are missing in the child, which needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            action()
        except BaseException:
            os._exit(99)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(stage):
    """Let the process end at the stage-th call of the system's that makes things durable."""
    calls = 0

    def wrap(original):
        def wrapped(*arguments):
            nonlocal calls
            if calls == stage:
                os._exit(42)
            calls += 1
            return original(*arguments)

        return wrapped

    for name in ("fsync", "rename", "replace"):
        setattr(os, name, wrap(getattr(os, name)))


def names(folder):
    return sorted(p.name for p in folder.iterdir())
