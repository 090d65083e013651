"""What a file of this package says of its kind of models, and moving tensors by what it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from headway.errors import DataError
from headway.interop.facts import Facts
from headway.models import GPTConfig
from headway.shapes import Tensor

HEAD = "lm_head.weight"


@dataclass(frozen=True)
class Part:
    """A tensor of theirs; ours are its rows, one after the other (the columns if `transposed`)."""

    theirs: str
    ours: tuple[str, ...]
    transposed: bool = False


@dataclass(frozen=True)
class Family:
    """One kind of Hugging Face folder.

    prefix: what stands before every key but the head's when the head is there. embedding: the key
    of the token embedding, the head's too where they are tied. ignored: keys with nothing to learn
    in them (old files hold their masks). settings: config.json -> fields of ours; facts: the way
    back. parts: all tensors. lacks: why a model of ours cannot be one of these.
    """

    model_type: str
    architecture: str
    bare: str
    prefix: str
    embedding: str
    ignored: str
    settings: Callable[[Facts], dict[str, Any]]
    facts: Callable[[GPTConfig], dict[str, Any]]
    parts: Callable[[GPTConfig], Iterator[Part]]
    lacks: Callable[[GPTConfig], list[str]]

    def all_parts(self, config: GPTConfig) -> Iterator[Part]:
        """With the head, where it is a matrix of its own."""
        yield from self.parts(config)
        if not config.tie_output:
            yield Part(HEAD, ("output.weight",))

    def full_name(self, key: str) -> str:
        """As it stands in the file of a model with its head."""
        return key if key == HEAD else self.prefix + key

    def named(self, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
        """The tensors by their bare names, without what is ignored."""
        found: dict[str, Tensor] = {}
        for key, tensor in tensors.items():
            name = key.removeprefix(self.prefix)
            if re.fullmatch(self.ignored, name):
                continue
            if name in found:
                raise DataError(f"{name} stands there with and without {self.prefix!r}", where)
            if not tensor.is_floating_point():
                raise DataError(f"{key} holds {tensor.dtype}, not floating-point numbers", where)
            found[name] = tensor
        return found


def needs(config: GPTConfig, wanted: Mapping[str, Sequence[Any]]) -> list[str]:
    """What of a configuration is not as it must be, in words."""
    return [
        f"{key}={getattr(config, key)} (must be {' or '.join(map(str, allowed))})"
        for key, allowed in wanted.items()
        if getattr(config, key) not in allowed
    ]


def check_present(parts: Iterable[Part], tensors: Mapping[str, Tensor], where: str) -> None:
    """DataError names the first tensor that is missing, and the first that nobody asked for.

    `parts` may be made as they are read: a file that claims a billion layers ends at the first.
    """
    known = set()
    for part in parts:
        if part.theirs not in tensors:
            raise DataError(f"the file lacks {part.theirs}, which config.json asks for", where)
        known.add(part.theirs)
    for key in sorted(tensors.keys() - known):
        raise DataError(f"the file has {key}, for which config.json has no place", where)


def to_ours(
    parts: Iterable[Part],
    tensors: Mapping[str, Tensor],
    shapes: Mapping[str, torch.Size],
    where: str,
) -> dict[str, Tensor]:
    """Our tensors from theirs, which are all there. DataError names one of the wrong shape."""
    result: dict[str, Tensor] = {}
    for part in parts:
        sizes = [shapes[name] for name in part.ours]
        wanted = [sum(size[0] for size in sizes), *sizes[0][1:]]
        wanted = wanted[::-1] if part.transposed else wanted
        tensor = tensors[part.theirs]
        if list(tensor.shape) != wanted:
            raise DataError(
                f"{part.theirs} has shape {tuple(tensor.shape)}, config.json says {tuple(wanted)}",
                where,
            )
        rows = tensor.T if part.transposed else tensor
        pieces = torch.split(rows, [size[0] for size in sizes])
        result |= {name: x.contiguous() for name, x in zip(part.ours, pieces, strict=True)}
    return result


def to_theirs(parts: Iterable[Part], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The way back: their tensors from ours, by bare names."""
    result = {}
    for part in parts:
        rows = torch.cat([tensors[name] for name in part.ours])
        result[part.theirs] = rows.T.contiguous() if part.transposed else rows
    return result
