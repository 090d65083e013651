"""The prepared data in a run folder belong to the settings in its run.yaml."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from headway.base.config_files import write_yaml
from headway.base.errors import UsageError
from headway.base.files import remove_unfinished_files, write_file
from headway.runs.data_files import NAME as DATA_FILES
from headway.runs.data_files import changed_files, remember_files
from headway.runs.recipes import AnyRunConfig, changes_of, is_trained, saved

PREPARED = ("data", "*.json", "metrics.jsonl", "glimpses", "report.html")
"""What a run has in its folder before its first checkpoint, besides run.yaml."""
READ_WHILE_TRAINING = frozenset(
    {
        "data.weights",
        "data.temperature",
        "data.bpe_dropout",
        "data.unigram_alpha",
        "data.noise_drop",
        "data.noise_mask",
        "data.noise_shuffle",
        "data.corruption_length",
        "data.test",
    }
)
"""Settings of the data on which prepared data do not depend."""


def begin(folder: Path, config: AnyRunConfig, history: Sequence[str]) -> str | None:
    """Make a run folder ready for data of these settings; return a note on what was removed, or on
    files of the data that have changed.

    Data of a run that has saved neither a checkpoint nor a model are removed if any setting or file
    has changed, and the new settings are written. UsageError if a trained run would get other data.
    """
    for path in (folder, folder / "data"):
        if path.is_dir():
            remove_unfinished_files(path)  # of a killed process
    before = saved(folder) if (folder / "run.yaml").is_file() else None
    is_comparable = type(before) is type(config)
    if is_trained(folder):
        if is_comparable:
            _check_same_data(folder, before, config)
        if changed := changed_files(folder, config):
            return (
                f"{', '.join(changed)}: changed since this run began; start another run to train "
                "with it from the beginning (--run NAME)"
            )
        return None
    is_same = is_comparable and not changes_of(before, config) and not changed_files(folder, config)
    removed = [] if is_same else [path for name in PREPARED for path in folder.glob(name)]
    for path in removed:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    write_file(folder / "run.yaml", write_yaml(config, history).encode())
    if not (folder / DATA_FILES).is_file():
        remember_files(folder, config)
    return "removed the data that an unfinished run had prepared" if removed else None


def _check_same_data(folder: Path, before: AnyRunConfig, config: AnyRunConfig) -> None:
    """The position in the data is part of a checkpoint, and its tokenizer of the model."""
    changes = changes_of(before, config, prefix="data.", ignored=READ_WHILE_TRAINING)
    if changes:
        raise UsageError(
            f"the data of a trained run cannot be changed: {changes}",
            str(folder),
            "start another run with --run NAME; for most recipes from this model, with --from "
            f"{folder}",
        )
