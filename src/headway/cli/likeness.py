"""`headway eval` of an encoder: do its cosines say how alike texts are?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.console import data, data_json
from headway.errors import DataError, UsageError

if TYPE_CHECKING:
    from headway.bundle import EncoderBundle
    from headway.machine import Machine
    from headway.shapes import Tensor

MOST = 5000  # pairs without scores, of which each is held against all


def judges_likeness(run: Path, path: Path | None) -> bool:
    """Whether an encoder is asked about pairs, not about its surprise: by the file's ending, or by
    what the run learned."""
    from headway.data.formats import TABLES, ending
    from headway.recipes import saved
    from headway.recipes.embed_config import EmbedRunConfig

    if path is not None:
        return ending(path) in TABLES
    return (run / "run.yaml").is_file() and isinstance(saved(run), EmbedRunConfig)


def show_likeness(
    bundle: EncoderBundle, places: tuple[Path, Path | None], machine: Machine, json: bool
) -> None:
    """Correlations of cosines with scores; where there are none, how often a text finds its
    partner. places: a run or model folder, and a file of pairs or None for what the run held out.
    """
    from headway.recipes import saved
    from headway.recipes.embed import likeness, vectors_of
    from headway.recipes.embed_config import EmbedDataConfig, EmbedRunConfig
    from headway.recipes.embed_data import encoded, read_texts, similar_texts

    run, path = places
    config = saved(run) if (run / "run.yaml").is_file() else None
    names = config.data if isinstance(config, EmbedRunConfig) else EmbedDataConfig()
    if path is not None:
        pairs = read_texts([str(path)], names)
    elif isinstance(config, EmbedRunConfig):
        pairs = similar_texts(names)[1]
    else:
        raise UsageError(f"{run} does not say what it was trained on", hint="name a file of pairs")
    if len(pairs) < 2:
        raise DataError(f"{len(pairs)} pairs are too few to evaluate on", str(path))
    length = min(names.max_length, bundle.config.max_length)
    rows = encoded(pairs, bundle.tokenizer, length)

    def encode(texts: Sequence[Sequence[int]]) -> Tensor:
        return vectors_of(bundle, texts, machine)

    most = MOST if rows.scores is None else len(rows)
    found = {**likeness(rows, most, encode), "pairs": min(most, len(rows))}
    if json:
        data_json(found)
    else:
        numbers = "   ".join(
            f"{name} {value:.4f}" for name, value in found.items() if name != "pairs"
        )
        data(f"{numbers}   {found['pairs']:,} pairs")
