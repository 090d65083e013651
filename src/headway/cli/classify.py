"""`headway classify`: texts in, what they are out."""

from __future__ import annotations

import sys
from itertools import islice

from headway.cli.console import data, data_json, talk
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags
from headway.cli.translate import standard_input
from headway.errors import UsageError

CHUNK = 512  # lines classified together; enough to sort by length, few enough to answer soon


def classify(
    run: str,
    /,
    *text: str,
    top: int = 1,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Say what texts are: those given, or one a line from standard input.

    A line each: label and probability, as many as --top asks for, tabs between them.

    Parameters
    ----------
    run
        A run folder or a model folder.
    text
        Texts; without any, standard input is read line by line.
    top
        So many labels of each text, the likeliest first.
    json
        One JSON object a line, with the probabilities of the labels that --top asks for.
    """
    from headway.bundle import ClassifierBundle, load_as

    if top < 1:
        raise UsageError(f"--top {top}: must be at least 1")
    place = machine.prepare()
    bundle = load_as(ClassifierBundle, run, place.device)
    if not text and sys.stdin.isatty():
        talk.print("one text a line; Ctrl-D ends")
    number, lines = 0, iter(text) if text else standard_input()
    size = 1 if sys.stdin.isatty() else CHUNK
    while chunk := list(islice(lines, size)):
        with place.precision():
            found = bundle.classify(chunk)
        for line, each in zip(chunk, found, strict=True):
            number += 1
            best = dict(islice(each.probabilities.items(), top))
            if json:
                row = {"line": number, "text": line, "label": each.label, "probabilities": best}
                data_json(row)
            else:
                data("\t".join(f"{label}\t{share:.3f}" for label, share in best.items()))
