"""COMET: the quality of translations as a neural network judges it (Rei et al. 2020).

The package unbabel-comet computes it, from a checkpoint on this disk. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.evaluation.paired import Sums

COMET = "comet"
CHECKPOINT = Path("checkpoints", "model.ckpt")
SETTINGS = "hparams.yaml"
ROWS = 16
"""Number of sentences that are scored together."""


@dataclass(frozen=True)
class Comet:
    """A loaded COMET model. name: the folder of the checkpoint. model: that of the package."""

    name: str
    model: Any

    @classmethod
    def open(cls, folder: Path) -> Comet:
        """Load the checkpoint of a folder, which has `hparams.yaml` and `checkpoints/model.ckpt`.

        The checkpoint is a pickle, which can run code when it is loaded. Raises UsageError if the
        package is missing or too old, DataError for a folder that is not a checkpoint, and for one
        whose encoder is not on this disk.
        """
        load = _loader()
        for file in (folder / SETTINGS, folder / CHECKPOINT):
            if not file.is_file():
                raise DataError(
                    f"there is no {file.relative_to(folder)}; a COMET checkpoint is a folder with "
                    f"{SETTINGS} and {CHECKPOINT}",
                    str(folder),
                    "--comet FOLDER, the folder that contains both",
                )
        try:
            model = load(str(folder / CHECKPOINT), local_files_only=True)
        except Exception as error:  # the package raises Exception and those of its libraries
            raise DataError(
                f"COMET cannot load the checkpoint: {error}",
                str(folder),
                "its encoder must be in the cache of Hugging Face; nothing is downloaded",
            ) from error
        return cls(folder.resolve().name, model)

    @property
    def signature(self) -> str:
        """The versions behind the score."""
        try:
            version = metadata.version("unbabel-comet")
        except metadata.PackageNotFoundError:
            version = "unknown"
        return f"model:{self.name}|version:{version}"

    def score(
        self, sources: Sequence[str], outputs: Sequence[str], references: Sequence[str], gpus: int
    ) -> Sums:
        """Return the mean of the scores of the sentences; about 0 to 1, higher is better.

        gpus: the number of GPUs, 0 for the CPU. Raises HeadwayError for results that are not one
        finite number for each sentence.
        """
        rows = [
            {"src": source, "mt": output, "ref": reference}
            for source, output, reference in zip(sources, outputs, references, strict=True)
        ]
        predicted = self.model.predict(rows, batch_size=ROWS, gpus=gpus, progress_bar=False)
        scores = np.asarray(predicted.scores, dtype=np.float64)
        if scores.shape != (len(rows),) or not np.isfinite(scores).all():
            raise HeadwayError(
                f"COMET returned {scores.size:,} scores for {len(rows):,} sentences, and each must "
                "be a finite number",
                self.name,
            )
        terms = np.stack((scores, np.ones_like(scores)), axis=1)
        return Sums(terms, lambda sums: sums[0] / sums[1])


def _loader() -> Any:
    """Return `load_from_checkpoint` of the package. Raises UsageError without it."""
    try:
        load = import_module("comet").load_from_checkpoint
    except (ImportError, AttributeError) as error:
        raise UsageError(
            "--comet needs the package unbabel-comet, which is not installed",
            hint="pip install unbabel-comet, or leave out --comet",
        ) from error
    if "local_files_only" not in signature(load).parameters:
        raise UsageError(
            "this version of unbabel-comet cannot be kept from downloading the encoder",
            hint="pip install -U unbabel-comet",
        )
    return load
