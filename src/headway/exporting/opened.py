"""Opens an exported model as a bundle whose network is its real runtime."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.config_files import RUN_FILE
from headway.base.errors import UsageError
from headway.bundle import Bundle
from headway.exporting import ctranslate2, llama_cpp
from headway.exporting.described import OURS
from headway.exporting.onnx.export import dtype_of, folder_of, graph_files, is_export, open_export
from headway.exporting.onnx.running import RUNTIMES
from headway.exporting.pt2 import PT2, open_pt2
from headway.exporting.pt2 import runtime as pt2_version
from headway.interop.ctranslate2 import MODEL_FILE
from headway.interop.gguf_reader import SUFFIX, gguf_file
from headway.runs.evaluation import ModelScores

AUTO, HEADWAY = "auto", "headway"
LLAMA_CPP, AOTINDUCTOR, CTRANSLATE2 = "llama.cpp", "aotinductor", "ctranslate2"


@dataclass(frozen=True, kw_only=True)
class OpenedExport:
    """An exported model. dtype: of its matrices. size: of the files of the network, in bytes.
    runtime: name and version of the program that computes it."""

    bundle: Bundle
    dtype: str
    size: int
    runtime: str

    def measured(self, evaluated: ModelScores, seconds: float) -> dict[str, object]:
        """Return what was run, and how fast it was."""
        return {
            "runtime": self.runtime,
            "dtype": self.dtype,
            "megabytes": round(self.size / 1e6, 3),
            f"{evaluated.unit}_per_second": round(evaluated.examples / seconds, 2),
        }


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of exported models.

    holds: whether a path is one. runtimes: what computes it, the first one by default. open: yields
    the bundle whose network a runtime computes, for the path and the name of the runtime. dtype:
    returns that of the matrices, for the path and the bundle. weights: returns the files of the
    network. version: returns name and version of a runtime.
    """

    holds: Callable[[Path], bool]
    runtimes: Sequence[str]
    open: Callable[[Path, str], AbstractContextManager[Bundle]]
    dtype: Callable[[Path, Bundle], str]
    weights: Callable[[Path], list[Path]]
    version: Callable[[str], str]


def _compute_type(path: Path, bundle: Any) -> str:
    return str(bundle.model.dtype())


KINDS = (
    Kind(
        holds=is_export,
        runtimes=(*RUNTIMES,),
        open=lambda path, runtime: nullcontext(open_export(path, runtime)),
        dtype=lambda path, bundle: dtype_of(folder_of(path)),
        weights=lambda path: graph_files(folder_of(path)),
        version=lambda runtime: RUNTIMES[runtime].version,
    ),
    Kind(
        holds=lambda path: gguf_file(path).suffix == SUFFIX,
        runtimes=(LLAMA_CPP, HEADWAY),
        open=lambda path, runtime: llama_cpp.opened_gguf(gguf_file(path)),
        dtype=lambda path, bundle: llama_cpp.dtype_of_gguf(gguf_file(path)),
        weights=lambda path: [gguf_file(path)],
        version=lambda runtime: llama_cpp.runtime(),
    ),
    Kind(
        holds=lambda path: bool(PT2.weights(path)),
        runtimes=(AOTINDUCTOR,),
        open=lambda path, runtime: nullcontext(open_pt2(path)),
        dtype=lambda path, bundle: "float32",
        weights=PT2.weights,
        version=lambda runtime: pt2_version(),
    ),
    Kind(
        holds=lambda path: (path / OURS).is_dir() and (path / MODEL_FILE).is_file(),
        runtimes=(CTRANSLATE2,),
        open=lambda path, runtime: nullcontext(ctranslate2.open_ctranslate2(path)),
        dtype=_compute_type,
        weights=ctranslate2.CTRANSLATE2.weights,
        version=lambda runtime: ctranslate2.runtime(),
    ),
)


@contextmanager
def opened_export(path: Path, runtime: str = AUTO) -> Iterator[OpenedExport | None]:
    """Yield an exported model: a folder or graph of `headway export --to onnx` or web, a folder of
    `--to pt2`, gguf or ctranslate2, or a GGUF file.

    runtime: of its kind, or headway, which computes a GGUF file by itself; auto is the first of its
    kind. Yields None for any other path, and for headway. Raises UsageError for a runtime that
    cannot run the file.
    """
    kind = next((kind for kind in KINDS if kind.holds(path)), None)
    possible = (HEADWAY,) if kind is None else kind.runtimes
    if runtime not in (AUTO, *possible):
        raise UsageError(
            f"--runtime {runtime} cannot run {path}", hint=f"--runtime {' or '.join(possible)}"
        )
    chosen = possible[0] if runtime == AUTO else runtime
    if kind is None or chosen == HEADWAY:
        yield None
        return
    with kind.open(path, chosen) as bundle:
        yield OpenedExport(
            bundle=bundle,
            dtype=kind.dtype(path, bundle),
            size=sum(file.stat().st_size for file in kind.weights(path)),
            runtime=kind.version(chosen),
        )


def run_of(path: Path) -> Path:
    """Return the folder of the run whose held-out data an exported model is evaluated on: the
    folder itself, or the one that it is in, if that is a run."""
    folder = path.parent if path.suffix == SUFFIX else folder_of(path)
    return folder.parent if (folder.resolve().parent / RUN_FILE).is_file() else folder
