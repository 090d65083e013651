"""Configurations as YAML files: read as dotted keys, written with what each value means."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from headway.errors import DataError
from headway.files import read_bytes
from headway.settings import flatten, plain

YAML_LIMIT = 2**20


class _PlainLoader(yaml.SafeLoader):
    """Refuses a key that stands twice (the first would be lost silently) and every alias.

    A few lines of aliases of aliases make billions of values, and settings need none.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            alias: Any = self.peek_event()  # type: ignore[no-untyped-call]
            problem = "aliases (*name) are not used here"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=alias.start_mark)
        return super().compose_node(parent, index)


def _mapping(loader: _PlainLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen = set()
    for key, _ in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else None
        if name in seen or name is None:
            problem = f"the key {name!r} stands twice" if name else "a key must be a plain name"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        seen.add(name)
    return loader.construct_mapping(node, deep=True)


_PlainLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file as dotted keys. Only plain values: nothing in it can run.

    DataError names the file and, where the parser knows it, the line.
    """
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
        raise DataError("must be names and values (key: value)", str(path))
    return flatten(loaded)


def write_yaml(config: Any, history: Sequence[str] = ()) -> str:
    """The configuration as YAML, each value beside what it means; `history` on top."""
    head = "".join(f"# {' '.join(line.split())}\n" for line in history)
    return head + "\n".join(_yaml_lines(config, "")) + "\n"


def _yaml_lines(config: Any, indent: str) -> Iterator[str]:
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            yield f"{indent}{item.name}:"
            yield from _yaml_lines(value, indent + "  ")
        else:
            help = " ".join(item.metadata.get("help", "").split())
            line = _yaml_line(item.name, plain(value))
            yield f"{indent}{line}" + (f"  # {help}" if help else "")


def _yaml_line(name: str, value: Any) -> str:
    """On one line, whatever the value: the comment stands beside it."""
    width = 2**31 - 1
    for style in (None, '"'):  # only in double quotes are line breaks written as escapes
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
