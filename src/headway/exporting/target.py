"""An export: written into a new folder, run there by its real runtime, and only then named.

Every format is a `Target`. What a target writes is opened as a bundle whose network the runtime
computes, and compared with the model by `verified`.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.errors import UsageError
from headway.base.files import check_new
from headway.base.folders import new_folder
from headway.bundle import Bundle
from headway.exporting.inputs import RealTexts
from headway.exporting.verified import (
    TOLERANCE,
    Comparison,
    Measured,
    check_scores,
    compare_models,
    measure,
    with_network,
)
from headway.tasks.classification.model import ClassifierBundle
from headway.transforms.quantize import float32_copy

KEEP = "keep it as a Headway model, or train one with other settings"
Progress = Callable[[float], None]
"""Called with the fraction that is done."""


@dataclass(frozen=True)
class Running:
    """A runtime that has loaded an exported folder. version: its name and version."""

    version: str
    bundle: Bundle


Runtimes = Generator[Running, None, None]
"""Each runtime is loaded until the next one is asked for, or until the generator is closed."""


def _no_further(bundle: Bundle, folder: Path, where: str, tolerance: float | None) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A format of another program.

    name: in errors. dtypes: numbers of the matrices; the first one is float32. lacks: returns why
    the format cannot represent a model, for the bundle and the name of a family; empty if it can.
    hint: what to do with such a model, if there is a better way than the caller's. write: writes a
    bundle into an empty folder in float32, as the named family there, and returns what the model is
    there. run: yields the folder as each runtime that is installed computes it; the first one
    computes the scores. network: returns the model whose outputs those of the runtimes must be.
    compare_files: compares the files beside the weights with the bundle, for it, the first of
    `run`'s, the folder and its final name; it returns the number of texts that have the same ids.
    convert: replaces the weights by those of another dtype. finish: writes what is made from the
    final weights, compares it to a tolerance (None: measures only), and returns the result in
    words. weights: returns the files of the network. call: returns the code that loads a folder,
    for the folder and what `write` returned. tolerance: returns that of outputs in float32.
    real_texts: which inputs the runtime can read; None: random ones. has_scores: whether a runtime
    is fast enough to compute the scores.
    """

    name: str
    dtypes: Sequence[str] = ("float32",)
    lacks: Callable[[Bundle, str | None], list[str]]
    hint: str | None = None
    write: Callable[[Bundle, Path, str | None, Progress], str]
    run: Callable[[Bundle, Path], Runtimes]
    network: Callable[[Any], Any] = lambda bundle: bundle.model
    compare_files: Callable[[Bundle, Bundle, Path, str], int]
    convert: Callable[[Bundle, Path, str], None] = lambda bundle, folder, dtype: None
    finish: Callable[[Bundle, Path, str, float | None], str] = _no_further
    weights: Callable[[Path], list[Path]]
    call: Callable[[Path, str], str]
    tolerance: Callable[[Bundle], float] = lambda bundle: TOLERANCE
    real_texts: Callable[[Bundle], RealTexts | None] = lambda bundle: None
    has_scores: bool = True


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The result of an export.

    folder: where it is. files: of the network. dtype: the numbers of the matrices. size: of the
    files of the network, in bytes. architecture: what the model is there. difference: name and
    version of each runtime -> maximum absolute difference of the outputs in float32. rounding: the
    same for the numbers that were written, in the first runtime. tokens: number of greedy tokens
    that were compared. texts: number of texts with equal ids. here, there: the scores of the model,
    and of the exported one in the first runtime. further: what the target itself compared, in
    words.
    """

    folder: Path
    files: Sequence[str]
    dtype: str
    size: int
    architecture: str
    difference: Mapping[str, float]
    rounding: float
    tokens: int
    texts: int
    here: Measured
    there: Measured
    further: str = ""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What a reader of the model card wants to know of the files, by name."""
        rows = [("dtype", self.dtype), ("size", f"{self.size / 1e6:,.1f} MB")]
        runtime = next(iter(self.difference))
        for name, one in (("Headway", self.here), (runtime, self.there)):
            for score, value in one.scores.items():
                low, high = one.intervals.get(score, (None, None))
                between = "" if low is None else f" (95 % between {low:.4g} and {high:.4g})"
                rows.append((f"{score}, by {name}", f"{value:.4g}{between}"))
            if one.per_second:
                speed = f"{one.per_second:,.1f} {one.unit} per second on this machine"
                rows.append((f"speed, by {name}", speed))
        return rows

    @property
    def checked(self) -> str:
        """How the folder was compared with the model, in words."""
        by_runtime = [f"{name} by {value:.1e}" for name, value in self.difference.items()]
        parts = [f"outputs differ at most in {', in '.join(by_runtime)} (float32)"]
        if self.dtype != "float32":
            parts.append(f"in {self.dtype} by {self.rounding:.2g}")
        if self.tokens:
            parts.append(f"{self.tokens} greedy tokens are the same")
        if self.texts:
            parts.append(f"{self.texts} texts have the same token ids")
        here, there = self.here.scores, self.there.scores
        parts += [
            f"{name} {there[name]:.4g}, of the run {value:.4g}" for name, value in here.items()
        ]
        parts += [self.further] if self.further else []
        return "; ".join(parts)


def export(
    bundle: Bundle,
    folder: str | Path,
    target: Target,
    dtype: str = "float32",
    family: str | None = None,
    run: Path | None = None,
    progress: Progress = lambda fraction: None,
    hint: str = KEEP,
) -> Exported:
    """Write a model for another program into a new folder, and verify it there; on any error no
    folder is left.

    The model is first written in float32. In each runtime, outputs for sizes of many kinds and
    tokens that are written greedily must be those of the model; the files beside the weights must
    give texts the same ids; and the score on the held-out data of `run` must be the same. dtype:
    one of `target.dtypes`; what it changes is measured. hint: what to do with a model that cannot
    be represented. UsageError for such a model, with the reasons, for a folder that exists and if a
    package is not installed; HeadwayError if the verification fails.
    """
    folder = Path(folder)
    if dtype not in target.dtypes:
        raise UsageError(
            f"dtype {dtype} cannot be represented {target.name}",
            hint=f"one of: {', '.join(target.dtypes)}",
        )
    if reasons := target.lacks(bundle, family):
        what = f"this model cannot be represented {target.name}: {', '.join(reasons)}"
        raise UsageError(what, hint=target.hint or hint)
    check_new(folder)
    if isinstance(bundle, ClassifierBundle):
        bundle = bundle.with_label_scale()
    here = measure(bundle, run) if target.has_scores else Measured()
    data = run if here.scores else None
    model = evaluated(float32_copy(target.network(bundle)))
    where, texts, tolerance = str(folder), target.real_texts(bundle), target.tolerance(bundle)

    def scores_of(one: Running) -> Measured:
        return measure(with_network(bundle, one.bundle.model), data)

    found: dict[str, Comparison] = {}
    with new_folder(folder) as temporary:
        architecture = target.write(bundle, temporary, family, progress)
        with closing(target.run(bundle, temporary)) as runtimes:
            for one in runtimes:
                there = one.bundle.model
                found[one.version] = compare_models(model, there, where, tolerance, texts)
                if len(found) == 1:
                    same_ids = target.compare_files(bundle, one.bundle, temporary, where)
                    scores = scores_of(one)
                    check_scores(here.scores, scores.scores, where)
        first = next(iter(found.values()))
        rounding = first.difference
        if dtype != "float32":
            target.convert(bundle, temporary, dtype)
            with closing(target.run(bundle, temporary)) as runtimes:
                one = next(runtimes)
                rounding = compare_models(model, one.bundle.model, where, None, texts).difference
                scores = scores_of(one)
        compared = tolerance if dtype == "float32" else None
        further = target.finish(bundle, temporary, where, compared)
        files = target.weights(temporary)
        names, size = [file.name for file in files], sum(file.stat().st_size for file in files)
    return Exported(
        folder=folder,
        files=names,
        dtype=dtype,
        size=size,
        architecture=architecture,
        difference={name: one.difference for name, one in found.items()},
        rounding=rounding,
        tokens=first.tokens,
        texts=same_ids,
        here=here,
        there=scores,
        further=further,
    )


def evaluated(model: Any) -> Any:
    """Return the model on the CPU in evaluation mode; a copy if it is not."""
    is_ready = not model.training and next(model.parameters()).device.type == "cpu"
    return model if is_ready else deepcopy(model).to("cpu").eval()
