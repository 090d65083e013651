"""What a file of this package says of its kind of models, and moving tensors by what it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from headway.errors import DataError
from headway.interop.hf_config import Facts
from headway.shapes import Tensor


@dataclass(frozen=True)
class Part:
    """A tensor of theirs; ours are its rows, one after the other (the columns if `transposed`).

    shape: of theirs, where it has the same numbers as ours in the same order, in other dimensions.
    """

    theirs: str
    ours: tuple[str, ...]
    transposed: bool = False
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One class of a family: the model with a certain head, or bare.

    names: what config.json may call it; the first is written. kind: the class of our
    configuration. config: it, from config.json and the names of the file's tensors (which tell of
    heads that the name keeps quiet about). parts: all tensors, by bare names. tied: a tensor that
    may stand there as a copy of another -> that other. fits: whether a configuration of that kind
    is this class, and not one with other heads. bare: its keys have no prefix. unused: a pattern
    of keys that old files have and this class never reads.
    """

    names: tuple[str, ...]
    kind: type[Any]
    config: Callable[[Facts, Collection[str]], Any]
    parts: Callable[[Any], Iterator[Part]]
    tied: Callable[[Any], dict[str, str]] = lambda config: {}
    fits: Callable[[Any], bool] = lambda config: True
    bare: bool = False
    unused: str = ""


@dataclass(frozen=True, kw_only=True)
class Family:
    """One kind of Hugging Face folder.

    prefix: what stands before every key but the heads' where there is a head; heads: a pattern of
    those. ignored: keys with nothing to learn in them (old files hold their masks). renamed: ends
    of keys in old files -> what they are now. architectures: the first is meant where config.json
    names none. facts: our configuration -> config.json. lacks: why a model of ours cannot be one of
    these. generates: writes text, and has a file that says how. sees: reads pictures.
    """

    model_type: str
    prefix: str
    heads: str
    ignored: str
    architectures: tuple[Architecture, ...]
    facts: Callable[[Any], dict[str, Any]]
    lacks: Callable[[Any], list[str]]
    renamed: Mapping[str, str] = field(default_factory=dict)
    generates: bool = False
    sees: bool = False

    def kinds(self) -> set[type[Any]]:
        """The configurations of ours that this family has classes for."""
        return {architecture.kind for architecture in self.architectures}

    def architecture(self, config: Any) -> Architecture:
        """The class for a model that this family lacks nothing of."""
        kind = [each for each in self.architectures if each.kind is type(config)]
        return next(each for each in kind if each.fits(config))

    def full_name(self, key: str, architecture: Architecture) -> str:
        """As it stands in the files of this class."""
        own = architecture.bare or re.fullmatch(self.heads, key)
        return key if own else self.prefix + key

    def named(self, tensors: Mapping[str, Tensor], unused: str, where: str) -> dict[str, Tensor]:
        """The tensors by their bare names of today, without what is ignored or unused."""
        found: dict[str, Tensor] = {}
        for key, tensor in tensors.items():
            name = key.removeprefix(self.prefix)
            if re.fullmatch(self.ignored, name) or re.fullmatch(unused, name):
                continue
            old = next((end for end in self.renamed if name.endswith(end)), "")
            name = name.removesuffix(old) + self.renamed.get(old, "")
            if name in found:
                raise DataError(
                    f"{name} stands there with and without {self.prefix!r}, or by two names", where
                )
            if not tensor.is_floating_point():
                raise DataError(f"{key} holds {tensor.dtype}, not floating-point numbers", where)
            found[name] = tensor
        return found


def layers(table: Mapping[str, str]) -> Iterable[Part]:
    """Weight and bias of each layer, theirs -> ours; a norm's are our gain and shift."""
    for theirs, ours in table.items():
        kinds = ("gain", "shift") if ours.endswith("norm") else ("weight", "bias")
        for kind, own in zip(("weight", "bias"), kinds, strict=True):
            yield Part(f"{theirs}.{kind}", (f"{ours}.{own}",))


def needs(config: Any, wanted: Mapping[str, Sequence[Any]]) -> list[str]:
    """What of a configuration is not as it must be, in words."""
    return [
        f"{key}={getattr(config, key)} (must be {' or '.join(map(str, allowed))})"
        for key, allowed in wanted.items()
        if getattr(config, key) not in allowed
    ]


def join_copies(
    tied: Mapping[str, str], tensors: dict[str, Tensor], where: str, hint: str | None = None
) -> None:
    """Take away each copy of a tied tensor; what stands there only by its copy's name is it."""
    for copy, original in tied.items():
        if copy not in tensors:
            continue
        tensor = tensors.pop(copy)
        first = tensors.setdefault(original, tensor)
        if first.dtype != tensor.dtype or not torch.equal(first, tensor):
            raise DataError(
                f"{copy} differs from {original}, and tie_word_embeddings says they are one",
                where,
                hint,
            )


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
        whole = wanted
        wanted = wanted[::-1] if part.transposed else list(part.shape) or wanted
        tensor = tensors[part.theirs]
        if list(tensor.shape) != wanted:
            raise DataError(
                f"{part.theirs} has shape {tuple(tensor.shape)}, config.json says {tuple(wanted)}",
                where,
            )
        rows = tensor.T if part.transposed else tensor.reshape(whole)
        pieces = torch.split(rows, [size[0] for size in sizes])
        result |= {name: x.contiguous() for name, x in zip(part.ours, pieces, strict=True)}
    return result


def to_theirs(parts: Iterable[Part], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The way back: their tensors from ours, by bare names."""
    result = {}
    for part in parts:
        rows = torch.cat([tensors[name] for name in part.ours])
        rows = rows.reshape(part.shape) if part.shape else rows
        result[part.theirs] = rows.T.contiguous() if part.transposed else rows
    return result
