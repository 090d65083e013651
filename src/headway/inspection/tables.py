"""Tables of a readable size for the steps of a walkthrough, and the source line of each step."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.shapes import Tensor
from headway.inspection.document import Numbers, Step


@dataclass(frozen=True)
class Axis:
    """The names along an axis of a table, and the index that must be shown."""

    names: Sequence[str] = ()
    keep: int = 0


_SIGNS = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"})


def quoted(token: str) -> str:
    """Return a token in quotes, as sentences name it; the space that begins a word is left out.

    A token of whitespace alone is shown by the signs that the page has for it.
    """
    return f"“{token.strip() or token.translate(_SIGNS)}”"


@dataclass(frozen=True)
class Tables:
    """Cuts tables to a maximum number of rows and columns."""

    rows: int = 12
    columns: int = 16

    def table(self, name: str, values: Tensor, rows: Axis, columns: Axis) -> Numbers:
        """Return a matrix (or a vector as one row), cut around the indices that must be shown."""
        matrix = values.detach().float().cpu()
        matrix = matrix[None] if matrix.ndim == 1 else matrix
        down = _window(matrix.shape[0], self.rows, rows.keep)
        across = _window(matrix.shape[1], self.columns, columns.keep)
        return Numbers(
            name=name,
            values=matrix[down, across].clone(),
            shape=tuple(values.shape),
            rows=_names(rows, matrix.shape[0], down),
            columns=_names(columns, matrix.shape[1], across),
        )


def _window(size: int, room: int, keep: int) -> slice:
    """Return `room` consecutive indices: the first ones if `keep` is among them, else up to it."""
    end = max(room, keep + 1)
    return slice(max(0, min(size, end) - room), min(size, end))


def _names(axis: Axis, size: int, window: slice) -> list[str]:
    if not axis.names:
        return [str(i) for i in range(size)][window]
    return list(axis.names)[window]


def source_of(function: Callable[..., object]) -> str:
    """Return file and line of a function: "src/headway/...py:LINE", or "PACKAGE/...py:LINE" for a
    function of another package, for example of a task that is installed separately."""
    plain = inspect.unwrap(function)
    file = inspect.getsourcefile(plain)
    assert file is not None
    path, home = Path(file).resolve(), Path(__file__).resolve().parents[1]
    shown = f"{plain.__module__.replace('.', '/')}.py"
    if path.is_relative_to(home):
        shown = f"src/headway/{path.relative_to(home).as_posix()}"
    return f"{shown}:{inspect.getsourcelines(plain)[1]}"


def step(
    title: str, text: str, equation: str, function: Callable[..., object], *arrays: Numbers
) -> Step:
    """Return a step that `function` computes."""
    return Step(
        title=title, text=text, equation=equation, source=source_of(function), arrays=arrays
    )
