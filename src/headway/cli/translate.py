"""`headway translate`: text in, text out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headway.cli.console import data, data_json
from headway.cli.flags import (
    ON_THIS_MACHINE,
    BeamWidth,
    Count,
    LengthPenalty,
    MachineFlags,
)
from headway.cli.inputs import arguments_or_lines, chunks
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.bundle import Translation, TranslatorBundle


def translate(
    run: str,
    /,
    *text: str,
    beam: BeamWidth = 4,
    nbest: Count = 1,
    length_penalty: LengthPenalty = 1.0,
    scores: bool = False,
    align: bool = False,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Translate sentences: those given, or one a line from standard input.

    Parameters
    ----------
    run
        A run folder or a model folder.
    text
        Sentences; without any, standard input is read line by line.
    nbest
        So many translations of each sentence, best first: line number, score, text.
    scores
        The score before each translation.
    align
        Draw which source words each translated word looks at.
    json
        One JSON object a line.
    """
    from headway.bundle import TranslatorBundle

    place = machine.prepare()
    bundle = place.load_as(TranslatorBundle, run)
    if align:
        from headway.inspection import check_aligns

        check_aligns(bundle)
    if not 1 <= nbest <= beam:
        raise UsageError(f"--nbest {nbest}: must be between 1 and the beam width, {beam}")
    number = 0
    for chunk in chunks(arguments_or_lines(text, "sentence"), from_input=not text):
        with place.precision():
            found = bundle.search(
                chunk,
                beam=beam,
                num_best=nbest,
                length_penalty=length_penalty,
                first=number + 1,
            )
        for line, translations in zip(chunk, found, strict=True):
            number += 1
            show = _as_json if json else _as_text
            show(bundle, line, number, translations, (nbest, scores, align))


def _as_json(
    bundle: TranslatorBundle,
    line: str,
    number: int,
    found: list[Translation],
    how: tuple[int, bool, bool],
) -> None:
    best = [
        {
            "text": t.text,
            "score": t.score,
            "log_probability": t.log_probability,
            "finished": t.finished,
        }
        for t in found
    ]
    row: dict[str, Any] = {"line": number, "source": line, "translations": best}
    if how[2] and found[0].text:
        from headway.inspection import align

        row["alignment"] = align(bundle, line, found[0].text).as_dict()
    data_json(row)


def _as_text(
    bundle: TranslatorBundle,
    line: str,
    number: int,
    found: list[Translation],
    how: tuple[int, bool, bool],
) -> None:
    nbest, scores, wants_alignment = how
    for translation in found:
        # One line in, one line out, whatever the model wrote.
        flat = " ".join(translation.text.split("\n"))
        prefix = f"{number}\t" if nbest > 1 else ""
        score = f"{translation.score:.4f}\t" if scores or nbest > 1 else ""
        data(f"{prefix}{score}{flat}")
    if wants_alignment and found[0].text:
        from headway.inspection import align, heat_map

        aligned = align(bundle, line, found[0].text)
        data("\n" + heat_map(aligned.target, aligned.source, aligned.weights.tolist()) + "\n")
