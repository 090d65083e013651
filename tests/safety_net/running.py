"""Runs cases through the command line, in this process, and returns their records."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open

from tests.safety_net.cases import CASES, data_files, with_prerequisites
from tests.safety_net.tiny_data import write_all

ROOT = Path(__file__).resolve().parents[2]

TIMINGS = {"time", "seconds", "took", "targets_per_second"}
"""Numbers that differ from run to run, and are not recorded."""

REPRODUCIBLE = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "HEADWAY_LOOPS": "no",  # which not every machine has; tests/transforms compares them
}
"""Environment in which x86 processors of several makes compute the same bits. Read by torch and
its libraries when they are loaded."""


def run_all(names: Sequence[str], folder: Path) -> dict[str, dict[str, Any]]:
    """Run these cases, and all that they start from, in an empty folder; return their records."""
    data = write_all(folder)
    records = {}
    with contextlib.chdir(folder):
        for name in with_prerequisites(names):
            used = {entry: data[entry] for entry in sorted(data_files(name) & data.keys())}
            records[name] = {"machine": machine(), "data": used, **run_case(name)}
    return records


def run_case(name: str) -> dict[str, Any]:
    """Train, evaluate and predict in the current folder; return the record."""
    case, run = CASES[name], Path("runs", name)
    for command in case.before:
        headway(*command)
    train = ["train", case.recipe, *case.train, "--run", name, "--quiet"]
    headway(*train)
    record: dict[str, Any] = {"train": " ".join(train), **logged(run / "metrics.jsonl")}
    if case.evaluation is not None:
        evaluate = ["eval", str(run), *case.evaluation, "--json"]
        record["eval"] = {"command": " ".join(evaluate), "output": json_lines(headway(*evaluate))}
    predict = [word.replace("{run}", str(run)) for word in case.prediction]
    record["predict"] = {"command": " ".join(predict), "output": json_lines(headway(*predict))}
    record["weights"] = tensor_digests(run / "model")
    newest = max((run / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    record["checkpoint"] = total_digest(tensor_digests(newest))
    return record


def headway(*arguments: str) -> str:
    """Return the standard output of `headway ARGUMENTS`, run in this process."""
    output, errors = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["headway", *arguments]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            runpy.run_module("headway", run_name="__main__")
    except SystemExit as leaving:
        if leaving.code not in (0, None):
            command = " ".join(arguments)
            raise RuntimeError(f"headway {command}\n{errors.getvalue()}") from None
    finally:
        sys.argv = before
    return output.getvalue()


def logged(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of training losses and validation scores, without timings."""
    logs: dict[str, list[dict[str, Any]]] = {"losses": [], "validation": []}
    sections = {"train": "losses", "valid": "validation"}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if section := sections.get(row.pop("kind")):
            logs[section].append({k: v for k, v in row.items() if k not in TIMINGS})
    return logs


def json_lines(text: str) -> list[Any]:
    """Return one value per line, long lists of numbers by their digest and first values."""
    return [_shortened(json.loads(line)) for line in text.splitlines()]


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > 8 and all(isinstance(item, float) for item in value):
        return {"numbers": len(value), "sha256": _digest(repr(value).encode()), "first": value[:4]}
    return [_shortened(item) for item in value]


def tensor_digests(folder: Path) -> dict[str, str]:
    """Return {name of a tensor: shape, dtype and digest of its bytes} of all files of a folder."""
    digests = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            for name in sorted(file.keys()):
                array = file.get_tensor(name)
                shape = "x".join(map(str, array.shape)) or "scalar"
                digests[name] = f"{shape} {array.dtype} {_digest(array.tobytes())}"
    return dict(sorted(digests.items()))


def total_digest(tensors: dict[str, str]) -> str:
    """Return one digest of a checkpoint's tensors: weights, averages, moments, random state."""
    return f"{len(tensors)} tensors {_digest(json.dumps(tensors).encode())}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def machine() -> dict[str, str]:
    """Return the properties of the machine that bits depend on."""
    import torch

    return {
        "torch": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "matrix products": os.environ.get("MKL_CBWR", "any"),
        "processor": _processor(),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def run_in_new_process(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the records of these cases, and of all that they start from, from a new process with
    the environment `REPRODUCIBLE` and without $HEADWAY_DATA, where some recipes find data."""
    environment = {**os.environ, **REPRODUCIBLE}
    environment.pop("HEADWAY_DATA", None)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "records.json")
        command = [sys.executable, "-m", "tests.safety_net.running", str(output), *names]
        process = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if process.returncode:
            raise RuntimeError(process.stderr)
        records: dict[str, dict[str, Any]] = json.loads(output.read_text(encoding="utf-8"))
    return records


if __name__ == "__main__":
    path, *chosen = sys.argv[1:]
    measured = run_all(chosen, Path(path).parent / "data")
    Path(path).write_text(json.dumps(measured), encoding="utf-8")
