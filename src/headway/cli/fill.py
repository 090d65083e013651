"""`headway fill`: words for hidden places."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from headway.cli.console import data, data_json
from headway.cli.flags import ON_THIS_MACHINE, Count, MachineFlags
from headway.cli.inputs import arguments_or_lines, chunks

if TYPE_CHECKING:
    from headway.bundle import Guess

BAR = 30  # cells of a word that is certain


def fill(
    run: str,
    /,
    *text: str,
    top: Count = 5,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Guess hidden words: headway fill RUN "Paris is the [MASK] of France."

    Texts are those given, or one a line from standard input. [MASK] may stand in one several times;
    each is guessed for itself. ## begins a guess that goes on with the word before it.

    Parameters
    ----------
    run
        A run folder or a model folder.
    text
        Texts with [MASK]; without any, standard input is read line by line.
    top
        So many words for each place, the likeliest first.
    json
        One JSON object a line.
    """
    from headway.bundle import EncoderBundle

    place = machine.prepare()
    bundle = place.load_as(EncoderBundle, run)
    number = 0
    for chunk in chunks(arguments_or_lines(text, "text"), from_input=not text):
        with place.precision():
            found = bundle.fill(chunk, top, first=number + 1)
        for line, places in zip(chunk, found, strict=True):
            number += 1
            if json:
                guesses = [[asdict(guess) for guess in each] for each in places]
                data_json({"line": number, "text": line, "guesses": guesses})
            else:
                data(line)
                data("\n\n".join(map(_bars, places)) + "\n")


def _bars(guesses: list[Guess]) -> str:
    """A line a word: what it is, how probable, and that as a bar."""
    width = max(len(guess.word) for guess in guesses)
    return "\n".join(
        f"  {guess.word:<{width}}  {guess.probability:.3f}  {'█' * round(BAR * guess.probability)}"
        for guess in guesses
    )
