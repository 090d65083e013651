"""Kernels, position encodings, models and tasks from other installed packages.

A package adds one with an entry point in its pyproject.toml:

    [project.entry-points."headway.kernels"]
    cosine = "cosine_kernel:Cosine"

The name can then be used like the names of Headway, and configurations save it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast

from headway.base.errors import HeadwayError, UsageError, is_out_of_memory
from headway.base.settings import Configuration, fields_of

R = TypeVar("R")
T = TypeVar("T")


class Extended(Mapping[str, T]):
    """A registry: a dictionary by name, extended by the entry points of installed packages.

    own: the entries of Headway. group: the group of entry points. kind: the class of the entries;
    None if they are functions. Names are listed without an import; an entry of another package is
    imported when it is looked up. UsageError if the import fails, if the entry is of another kind,
    or if several packages provide the name.
    """

    def __init__(self, own: Mapping[str, T], group: str, kind: type[object] | None = None) -> None:
        self.own, self.group, self.kind = own, group, kind

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
                hint="uninstall all packages but one, or rename the entry point in one of them",
            )
        try:
            loaded = self._entries[name][0].load()
        except Exception as error:  # the code of another package may raise anything
            raise UsageError(
                f"{self.group} {name!r} cannot be imported: {type(error).__name__}: {error}",
                self._entry_point(name),
                f"install {providers[0]} again, with its dependencies",
            ) from error
        if not (callable(loaded) if self.kind is None else isinstance(loaded, self.kind)):
            expected = "a function" if self.kind is None else f"an object of {self.kind.__name__}"
            raise self.fault(name, f"must be {expected}, found one of {type(loaded).__name__}")
        return cast(T, loaded)

    def call(
        self,
        name: str,
        function: Callable[..., R],
        kind: type[object],
        *arguments: object,
        **options: object,
    ) -> R:
        """Call a function that the entry `name` provides, and return its result of class `kind`.

        UsageError, with the package and the entry point, if the function of another package fails
        or returns something else.
        """
        if self.package(name) is None:
            return function(*arguments, **options)
        values = [*map(repr, arguments), *(f"{key}={value!r}" for key, value in options.items())]
        try:
            result = function(*arguments, **options)
        except Exception as error:  # the code of another package may raise anything
            if isinstance(error, HeadwayError) or is_out_of_memory(error):
                raise
            reason = f"{type(error).__name__}: {error}"
            raise self.fault(
                name, f"failed, called with ({', '.join(values)}): {reason}"
            ) from error
        if not isinstance(result, kind):
            raise self.fault(
                name,
                f"must return an object of {kind.__name__}, found one of {type(result).__name__}",
            )
        return result

    def fault(self, name: str, what: str) -> UsageError:
        """The error for an entry of another package that does not do what it must."""
        kind = self.group.removeprefix("headway.").removesuffix("s")
        return UsageError(
            f"{self.group} {name!r} {what}",
            self._entry_point(name),
            f"correct that package, or ask its authors: docs/howto/new_{kind}.md shows what an "
            "entry must be",
        )

    def _entry_point(self, name: str) -> str:
        """The package of an entry and the object that it names, for error messages."""
        entry = self._entries[name][0]
        return f"the package {_package_of(entry)}: {name} = {entry.value!r}"

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in self._entries if name not in self.own)

    def __len__(self) -> int:
        return len(list(iter(self)))

    @contextmanager
    def registered(self, name: str, value: T) -> Iterator[None]:
        """Register an entry for the duration of a block, without a package.

        UsageError if the name exists.
        """
        if name in self:
            raise UsageError(f"{self.group} {name!r} exists already", hint="choose another name")
        own, self.own = self.own, {**self.own, name: value}
        try:
            yield
        finally:
            self.own = own

    def forget(self) -> None:
        """Read the entry points of installed packages again at the next look-up."""
        vars(self).pop("_entries", None)

    def package(self, name: str) -> str | None:
        """The package that provides a name; None for the names of Headway."""
        return None if name in self.own else _package_of(self._entries[name][0])


@dataclass(frozen=True)
class Names(Collection[str]):
    """The names of a registry, and further names that a setting accepts."""

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
        """The package that provides a name; None for the names of Headway."""
        return None if name in self.also else self.registry.package(name)


def extension_packages(config: Configuration) -> list[str]:
    """The packages that provide the entries named by the settings of a configuration."""
    packages = []
    for field in fields_of(config).values():
        if isinstance(field.names, Extended | Names):
            packages.append(field.names.package(str(field.default)))
    return sorted({package for package in packages if package is not None})


def _package_of(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else entry.dist.name
