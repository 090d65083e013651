"""Configurations as YAML files: read as dotted keys, written with the help of each setting."""

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from headway.base.errors import DataError, UsageError
from headway.base.files import read_bytes
from headway.base.settings import Configuration, flatten, is_section, plain

YAML_LIMIT = 2**20
RUN_FILE = "run.yaml"
"""The configuration of a run in its folder."""
RECIPE = "recipe"
"""The setting that names the recipe of a run."""


class _PlainLoader(yaml.SafeLoader):
    """A loader that refuses duplicate keys, whose first value would be lost, and aliases.

    A few lines of nested aliases expand to billions of values, and settings need none.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            alias: Any = self.peek_event()  # type: ignore[no-untyped-call]
            problem = "aliases (*name) are not supported"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=alias.start_mark)
        return super().compose_node(parent, index)


def _mapping(loader: _PlainLoader, node: yaml.MappingNode) -> dict[Hashable, object]:
    names = set()
    for key, _ in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else None
        if name in names or name is None:
            problem = f"the key {name!r} is set twice" if name else "a key must be a plain name"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        names.add(name)
    return loader.construct_mapping(node, deep=True)


_PlainLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path) -> dict[str, object]:
    """Read a YAML file of plain values as a dictionary from dotted keys to values.

    UsageError if the file does not exist. DataError names the file and, where the parser knows it,
    the line.
    """
    if not path.exists():
        raise UsageError("no such file", str(path), "check the path")
    text = read_bytes(path, YAML_LIMIT)
    try:
        loaded = _PlainLoader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DataError(f"not valid YAML: {error.problem}", f"{path}{line}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"not valid YAML: {error}", str(path)) from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise DataError("the file must contain names and values (key: value)", str(path))
    return flatten(loaded)


def read_run_file(folder: Path) -> dict[str, object]:
    """Read the run.yaml of a run folder, as `read_yaml` does.

    UsageError if the folder is not a run; DataError if the file names no recipe.
    """
    path = folder / RUN_FILE
    if not path.is_file():
        raise UsageError(
            f"{folder} is not a run folder: it has no {RUN_FILE}",
            hint="headway runs ls lists all runs",
        )
    values = read_yaml(path)
    if not isinstance(values.get(RECIPE), str):
        raise DataError(
            "this is not the configuration of a run: it names no recipe",
            str(path),
            "restore the file from a copy; or train again, with another --run NAME",
        )
    return values


def write_yaml(config: Configuration, history: Sequence[str] = ()) -> str:
    """A configuration as YAML, with the help of each setting as a comment; `history` on top."""
    head = "".join(f"# {' '.join(line.split())}\n" for line in history)
    return head + "\n".join(_yaml_lines(config, "")) + "\n"


def _yaml_lines(config: Configuration, indent: str) -> Iterator[str]:
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if is_section(value):
            yield f"{indent}{item.name}:"
            yield from _yaml_lines(value, indent + "  ")
        else:
            help = " ".join(item.metadata.get("help", "").split())
            line = _yaml_line(item.name, plain(value))
            yield f"{indent}{line}" + (f"  # {help}" if help else "")


_lines: dict[tuple[str, str], str] = {}
"""The name of a setting and its value -> its line: a run writes most of its settings twice."""


def _yaml_line(name: str, value: object) -> str:
    key = name, repr(value)
    if key not in _lines:
        _lines[key] = _dumped(name, value)
    return _lines[key]


def _dumped(name: str, value: object) -> str:
    """A setting on one line, since its comment follows on the same line."""
    width = 2**31 - 1
    for style in (None, '"'):  # YAML escapes line breaks only in double quotes
        text = yaml.safe_dump(
            {name: value},
            allow_unicode=style is None,
            default_flow_style=True,
            default_style=style,
            width=width,
        )
        if len(text.splitlines()) == 1:
            break
    return text.strip()[1:-1]
