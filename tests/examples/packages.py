"""The packages in `examples/`, installed for a while as a user would install them."""

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headway.extensions import Extended
from headway.models.choices import KERNELS, POSITIONS
from headway.models.registry import MODELS
from headway.recipes import RECIPES
from headway.tasks.registry import forget, task, tasks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
REGISTRIES: tuple[Extended, ...] = (KERNELS, POSITIONS, MODELS)
OWN = dict(RECIPES)
_places: dict[str, str] = {}


@contextmanager
def installed(name: str, folder: Path) -> Iterator[None]:
    """Install the package of `examples/NAME` with pip into a folder that Python searches."""
    source, place = folder / "source", folder / "site"
    shutil.copytree(EXAMPLES / name, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(place)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sys.path.append(str(place))
    _places[name] = str(place)
    _forget()
    try:
        yield
    finally:
        sys.path.remove(_places.pop(name))
        for module in [each for each in sys.modules if each.split(".")[0] == name]:
            del sys.modules[module]
        _forget()


@contextmanager
def uninstalled(name: str) -> Iterator[None]:
    """Python does not find the installed package in the block."""
    sys.path.remove(_places[name])
    _forget()
    try:
        yield
    finally:
        sys.path.append(_places[name])
        _forget()


def _forget() -> None:
    """Look for packages again: a process looks once."""
    importlib.invalidate_caches()
    for registry in REGISTRIES:
        registry.forget()
    forget()
    RECIPES.clear()
    RECIPES.update(OWN)
    for name in tasks():
        RECIPES.update(task(name).recipes)
