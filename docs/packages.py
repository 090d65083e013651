"""The packages that the site needs, checked before anything is built."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

BUILDING: Mapping[str, str] = {
    "furo": "furo",
    "latex2mathml": "latex2mathml",
    "myst_nb": "myst-nb",
}
"""Module -> package that every build needs."""
RUNNING: Mapping[str, str] = {
    "anywidget": "anywidget",
    "emoji": "emoji",
    "ipykernel": "notebook",
    "matplotlib": "matplotlib",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
}
"""Module -> package that the notebooks need to run."""


def problem(packages: Mapping[str, str], purpose: str) -> str:
    """Return what is not installed and how to install it, or "" if nothing is missing."""
    missing = [package for module, package in packages.items() if find_spec(module) is None]
    if not missing:
        return ""
    return (
        f"{purpose} needs {', '.join(missing)}, not installed here. "
        "To install all that the site needs: pip install -e '.[docs]'"
    )
