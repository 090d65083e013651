"""COMET of the translations of an evaluation, if it is requested."""

from __future__ import annotations

from collections.abc import Sequence

from headway.evaluation.paired import Sums
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.comet import Comet
from headway.tasks.translation.config import TranslationScoring

COMET = "comet"


def opened(options: TranslationScoring) -> Comet | None:
    """Load the model before anything is translated; None if it is not requested."""
    return None if options.comet is None else Comet.open(options.comet)


def comet_sums(
    comet: Comet | None,
    bundle: TranslatorBundle,
    sources: Sequence[str],
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
) -> dict[str, Sums]:
    """Return the score by its name; {} without a model.

    The tags of target languages are not part of the sources. The first reference counts.
    """
    if comet is None:
        return {}
    texts = [bundle.target_languages.split_tag(source)[1] for source in sources]
    gpus = int(bundle.device.type == "cuda")
    return {COMET: comet.score(texts, outputs, [first for first, *_ in references], gpus)}


def comet_details(comet: Comet | None) -> dict[str, str]:
    """Return the signature for the details of the scores; {} without a model."""
    return {} if comet is None else {f"{COMET}_signature": comet.signature}
