"""`headway quantize`: a model in int8, int4 or bfloat16."""

from pathlib import Path
from typing import Annotated, Literal

from headway.base.errors import DataError, UsageError
from headway.base.settings import setting
from headway.bundle import Bundle
from headway.bundle.files import WEIGHTS_FILE
from headway.cli.flags import OUTPUT, RUN, as_flags
from headway.data.formats.lines import read_lines
from headway.models.contracts import parameter_count
from headway.runs.card import write_card
from headway.tasks.opening import load
from headway.terminal.console import data_json, say
from headway.terminal.progress import progress
from headway.transforms.quantize import numbers_of
from headway.transforms.quantize import quantize as quantize_model

TEXTS = 128
"""Maximum number of calibration texts; more change the rounding little."""


@as_flags
class QuantizeFlags:
    to: Literal["int8", "int4", "bfloat16"] = setting("int8", "Dtype of the weights.")
    output: Annotated[Path | None, OUTPUT] = setting(
        None, "New folder for the small model. If unset, RUN/int8, RUN/int4 or RUN/bfloat16."
    )
    group: Literal[32, 64, 128] = setting(
        32,
        "Number of consecutive weights that share a scale in int4; fewer are more accurate and "
        "need more space.",
    )
    calibration: Path | None = setting(
        None,
        "File of typical texts, one per line, which make a model in int4 more accurate: the "
        "weights are rounded so that the outputs for these texts change least (GPTQ). The first "
        "128 lines are used. If unset, each weight is rounded to its nearest value.",
    )
    json: bool = setting(False, "Print folder and sizes as one JSON object.")


def quantize(run: Annotated[Path, RUN], /, *, flags: QuantizeFlags = QuantizeFlags()) -> None:
    """Save a model in small numbers; every command loads the result.

    headway quantize runs/NAME --to int8

    int8 is smaller by a factor of nearly 4 and on a CPU 1.3 to 3 times as fast, with nearly the
    same outputs. int4 is smaller by a factor of 6 and less accurate, for large language models.
    bfloat16 is smaller by a factor of 2. Afterwards, headway eval shows how accurate the small
    model is. The original model is not changed.
    """
    if flags.calibration is not None and flags.to != "int4":
        raise UsageError(f"--calibration applies to int4, not to {flags.to}", hint="leave it out")
    folder = _folder(run, flags.to, flags.output)
    bundle = _float32(run)
    texts = [] if flags.calibration is None else _texts(bundle, flags.calibration)
    float32_bytes = 4 * parameter_count(bundle.model)
    with progress(f"quantising to {flags.to}"):
        _quantize(bundle, run, flags.to, flags.group, texts)
    bundle.save(folder)
    write_card(bundle, run, folder)
    size = (folder / WEIGHTS_FILE).stat().st_size
    if flags.json:
        data_json({"folder": str(folder), "bytes": size, "float32_bytes": float32_bytes})
        return
    saved = f"{size / 1e6:,.1f} MB, {size / float32_bytes:.2f} of float32"
    say(f"written   {folder}: {bundle.kind} in {flags.to}, {saved}")
    say(f"next      headway eval {folder} ...   its accuracy")


def _folder(run: Path, to: str, output: Path | None) -> Path:
    """Return the folder for the small model. Raises UsageError if it is in use."""
    folder = output if output is not None else (run.parent if run.is_file() else run) / to
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists already", hint="remove it, or choose another: -o NEW")
    return folder


def _float32(run: Path) -> Bundle:
    """Load the model. Raises UsageError if it is quantised already."""
    bundle = load(run, "cpu", fast=False)
    if (numbers := numbers_of(bundle.model)) is not None:
        raise UsageError(
            f"{run} is quantised to {numbers} already", hint="name the run that it was made from"
        )
    return bundle


def _quantize(bundle: Bundle, run: Path, to: str, group: int, texts: list[str]) -> None:
    """Quantise the bundle's model, calibrated if there are texts."""
    calibrate = (lambda: _read(bundle, texts)) if texts else None
    try:
        quantize_model(bundle.model, to, group=group, calibrate=calibrate)
    except ValueError as error:
        raise UsageError(str(error), str(run)) from error


def _texts(bundle: Bundle, path: Path) -> list[str]:
    """Return the calibration texts of a file."""
    if bundle.inputs.modality != "text":
        raise UsageError(
            "--calibration is a file of texts, but this model's inputs are images",
            hint="leave it out",
        )
    texts = [line for line in read_lines(path) if line.strip()][:TEXTS]
    if not texts:
        raise DataError("the file has no text", str(path))
    return texts


def _read(bundle: Bundle, texts: list[str]) -> None:
    """Run the model on each text."""
    for text in texts:
        bundle.probe(text, written=0).reading.run()
