"""Runs ONNX files: by onnxruntime, and by OpenVINO where it is installed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.shapes import Tensor
from headway.exporting.without_weights import Session


def _onnxruntime(package: Any, path: Path, threads: int) -> Session:
    options = package.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3  # errors only
    session = package.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    expected = {one.name for one in session.get_inputs()}
    names = [one.name for one in session.get_outputs()]

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        feeds = {name: x.numpy() for name, x in inputs.items() if name in expected}
        return dict(zip(names, map(torch.from_numpy, session.run(None, feeds)), strict=True))

    return run


def _openvino(package: Any, path: Path, threads: int) -> Session:
    # by itself it computes in bfloat16 on some processors
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    core = package.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", settings)
    expected = {one.get_any_name() for one in compiled.inputs}
    names = [one.get_any_name() for one in compiled.outputs]

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        feeds = {name: x.numpy() for name, x in inputs.items() if name in expected}
        results = compiled(feeds, share_inputs=False, share_outputs=False)
        return {name: torch.tensor(results[name]) for name in names}

    return run


@dataclass(frozen=True)
class Runtime:
    """A program that runs ONNX files. package: of Python. load: returns the session of a file, for
    the package, the path and the number of threads."""

    package: str
    load: Callable[[Any, Path, int], Session]

    @property
    def is_installed(self) -> bool:
        return find_spec(self.package) is not None

    @property
    def version(self) -> str:
        """The name and the version of the package."""
        return f"{self.package} {version(self.package)}"

    def session(self, path: Path) -> Session:
        """Load a file, with as many threads as torch has. UsageError if the package is not
        installed, DataError for a file that it refuses."""
        try:
            package = import_module(self.package)
        except ImportError as error:
            raise missing(self.package) from error
        try:
            session = self.load(package, path, torch.get_num_threads())
        except Exception as error:  # each package has errors of its own
            what = f"{self.package} cannot load the file: {_reason(error)}"
            raise DataError(what, str(path)) from error

        def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
            try:
                return session(inputs)
            except Exception as error:
                what = f"{self.package} cannot compute the graph: {_reason(error)}"
                raise HeadwayError(what, str(path)) from error

        return run


RUNTIMES = {
    "onnxruntime": Runtime("onnxruntime", _onnxruntime),
    "openvino": Runtime("openvino", _openvino),
}
"""Name -> the programs that run ONNX files; an export needs the first."""


def _reason(error: Exception) -> str:
    """Return the last lines of an error of a runtime, which name the operation."""
    return " ".join(str(error).split())[-300:]


def missing(package: str) -> UsageError:
    """Return the error for a package that is not installed."""
    return UsageError(
        f"ONNX needs the package {package}, which is not installed",
        hint="pip install 'headway[onnx]'",
    )
