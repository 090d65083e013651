"""`headway --version`: versions of packages, without importing them."""

import platform
from importlib import metadata, util

from headway import __version__


def version() -> str:
    """The line of `headway --version`, which imports no torch."""
    return (
        f"headway {__version__} · torch {version_of('torch')} · Python {platform.python_version()}"
    )


def version_of(package: str) -> str | None:
    """Return the version of an installed package without importing it; None if there is none."""
    if util.find_spec(package) is None:
        return None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # a source tree that is only on the search path
        return "unknown"
