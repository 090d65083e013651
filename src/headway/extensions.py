"""Kernels, position encodings, models and tasks from other installed packages.

A package adds one by an entry point in its pyproject.toml:

    [project.entry-points."headway.kernels"]
    cosine = "cosine_kernel:Cosine"

Its name is then known wherever Headway's own names are, and configurations save the name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast

from headway.errors import UsageError
from headway.settings import fields_of

T = TypeVar("T")


class Extended(Mapping[str, T]):
    """A dictionary by name, together with what installed packages add to it.

    own: Headway's. group: of the entry points. The names are known without an import; what another
    package provides is imported when it is looked up. UsageError if that fails, or for a name that
    two of them have.
    """

    def __init__(self, own: Mapping[str, T], group: str) -> None:
        self.own, self.group = own, group

    @cached_property
    def _entries(self) -> dict[str, list[EntryPoint]]:
        entries: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=self.group):
            entries.setdefault(entry.name, []).append(entry)
        return entries

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            return self.own[name]
        providers = [_package_of(entry) for entry in self._entries[name]]
        if name in self.own:
            providers.append("headway")
        if len(providers) > 1:
            raise UsageError(
                f"{self.group} {name!r} is provided by {' and by '.join(providers)}",
                hint="uninstall all packages but one, or rename it in one of them",
            )
        try:
            return cast(T, self._entries[name][0].load())
        except Exception as error:  # whatever the code of another package raises
            raise UsageError(
                f"{self.group} {name!r} cannot be imported: {type(error).__name__}: {error}",
                providers[0],
                f"install {providers[0]} again, with all that it needs",
            ) from error

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in self._entries if name not in self.own)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def forget(self) -> None:
        """Look for installed packages again at the next look-up."""
        vars(self).pop("_entries", None)

    def package(self, name: str) -> str | None:
        """The package that provides a name; None for Headway's own."""
        return None if name in self.own else _package_of(self._entries[name][0])


@dataclass(frozen=True)
class Names(Collection[str]):
    """The names of a registry, and a few more that a setting may have."""

    registry: Extended[Any]
    also: tuple[str, ...]

    def __iter__(self) -> Iterator[str]:
        yield from self.registry
        yield from self.also

    def __len__(self) -> int:
        return len(self.registry) + len(self.also)

    def __contains__(self, name: object) -> bool:
        return name in self.also or name in self.registry

    def package(self, name: str) -> str | None:
        """The package that provides a name; None for Headway's own."""
        return None if name in self.also else self.registry.package(name)


def packages_of(config: Any) -> list[str]:
    """The packages that provide what the settings of a configuration name, each once."""
    packages = []
    for field in fields_of(config).values():
        if isinstance(field.names, Extended | Names):
            packages.append(field.names.package(field.default))
    return sorted({package for package in packages if package is not None})


def _package_of(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else entry.dist.name
