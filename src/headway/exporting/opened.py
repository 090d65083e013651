"""Opens an exported model as a bundle whose network is its real runtime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headway.base.config_files import RUN_FILE
from headway.base.errors import UsageError
from headway.bundle import Bundle
from headway.exporting import llama_cpp
from headway.exporting.onnx.export import (
    FIRST,
    GRAPHS_FOLDER,
    dtype_of,
    folder_of,
    is_export,
    open_export,
)
from headway.exporting.onnx.running import RUNTIMES
from headway.exporting.pt2 import PT2, open_pt2
from headway.exporting.pt2 import runtime as pt2_version
from headway.interop.gguf_reader import SUFFIX

AUTO, HEADWAY, LLAMA_CPP, AOTINDUCTOR = "auto", "headway", "llama.cpp", "aotinductor"


@dataclass(frozen=True, kw_only=True)
class OpenedExport:
    """An exported model. dtype: of its matrices. size: of the files of the network, in bytes.
    runtime: name and version of the program that computes it."""

    bundle: Bundle
    dtype: str
    size: int
    runtime: str

    def measured(self, examples: int, seconds: float) -> dict[str, object]:
        """Return what was run, and how fast it was."""
        return {
            "runtime": self.runtime,
            "dtype": self.dtype,
            "megabytes": round(self.size / 1e6, 3),
            "examples_per_second": round(examples / seconds, 2),
        }


@contextmanager
def opened_export(path: Path, runtime: str = AUTO) -> Iterator[OpenedExport | None]:
    """Yield an exported model: a folder or graph of `headway export --to onnx`, a folder of
    `--to pt2`, or a GGUF file.

    runtime: a key of `RUNTIMES`, aotinductor, llama.cpp, or headway, which computes a GGUF file by
    itself; auto is onnxruntime, aotinductor or llama.cpp. Yields None for any other path, and for
    headway. Raises UsageError for a runtime that cannot run the file.
    """
    graph, gguf, compiled = is_export(path), path.suffix == SUFFIX, PT2.weights(path)
    possible = [*RUNTIMES] if graph else [LLAMA_CPP, HEADWAY] if gguf else [HEADWAY]
    possible = [AOTINDUCTOR] if compiled else possible
    if runtime not in (AUTO, *possible):
        raise UsageError(
            f"--runtime {runtime} cannot run {path}", hint=f"--runtime {' or '.join(possible)}"
        )
    if graph:
        folder, name = folder_of(path), FIRST if runtime == AUTO else runtime
        yield OpenedExport(
            bundle=open_export(folder, name),
            dtype=dtype_of(folder),
            size=sum(file.stat().st_size for file in (folder / GRAPHS_FOLDER).glob("*.onnx")),
            runtime=RUNTIMES[name].version,
        )
    elif compiled:
        yield OpenedExport(
            bundle=open_pt2(path),
            dtype="float32",
            size=sum(file.stat().st_size for file in compiled),
            runtime=pt2_version(),
        )
    elif gguf and runtime != HEADWAY:
        with llama_cpp.opened_gguf(path) as bundle:
            yield OpenedExport(
                bundle=bundle,
                dtype=llama_cpp.dtype_of_gguf(path),
                size=path.stat().st_size,
                runtime=llama_cpp.runtime(),
            )
    else:
        yield None


def run_of(path: Path) -> Path:
    """Return the folder of the run whose held-out data an exported model is evaluated on: the
    folder itself, or the one that it is in, if that is a run."""
    folder = path.parent if path.suffix == SUFFIX else folder_of(path)
    return folder.parent if (folder.resolve().parent / RUN_FILE).is_file() else folder
