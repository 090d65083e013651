"""Tables of weight names of a model family, and the conversion of tensors by these tables."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch

from headway.base.errors import DataError
from headway.base.shapes import Tensor
from headway.interop.hf_config import HFConfig

C = TypeVar("C")
"""A configuration of ours, or a union of those that a family can represent."""

WEIGHTS = ("weight", "bias")
Table = Mapping[str, str | tuple[str, ...]]
"""Layers, theirs -> ours; several of ours are one matrix of theirs."""


@dataclass(frozen=True)
class Part:
    """One tensor of the other library, and the tensors of ours that it is split into.

    Ours are consecutive rows of theirs; consecutive columns if `transposed`. shape: the shape of
    theirs, if it has the same values as ours in the same order but other dimensions (() is that of
    a single number). groups: the
    number of groups of their rows; each group has consecutive rows of all of ours (queries, keys
    and values of one head, then those of the next). unused: the number of rows of theirs before
    ours that no model reads, as in the tables of positions of BART and TrOCR.
    """

    theirs: str
    ours: tuple[str, ...]
    transposed: bool = False
    shape: tuple[int, ...] | None = None
    groups: int = 1
    unused: int = 0


def as_stored(stored: Mapping[str, Tensor], where: str) -> Mapping[str, Tensor]:
    """Return the tensors of a file as they are."""
    return stored


def none_absent(hf_config: HFConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return no tensors: the file has all."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Architecture(Generic[C]):
    """One class of a model family: the model with certain heads, or without heads.

    names: the class names in config.json; the first is written. kind: the class of our
    configuration. config: returns our configuration for config.json and the names of the tensors
    in the file (which show heads that the class name does not). parts: yields all tensors, by names
    without prefix. tied: a tensor that may be stored as a copy of another -> that other. fits:
    whether a configuration of this kind belongs to this class, and not to one with other heads.
    bare: whether its keys have no prefix. unused: a pattern of keys of old files that this class
    does not use. computed: tensors of its files, by names without prefix, that are no parameters of
    ours, such as a table of sines. absent: returns tensors that the file need not have, by names
    without prefix, for config.json and those that it has. unpacked, packed: tensors of a file ->
    those of `parts`, and the inverse; arguments: the tensors and where they are from.
    """

    names: tuple[str, ...]
    kind: type[C]
    config: Callable[[HFConfig, Collection[str]], C]
    parts: Callable[[C], Iterator[Part]]
    tied: Callable[[C], dict[str, str]] = lambda config: {}
    fits: Callable[[C], bool] = lambda config: True
    bare: bool = False
    unused: str = ""
    computed: Callable[[C], dict[str, Tensor]] = lambda config: {}
    absent: Callable[[HFConfig, Mapping[str, Tensor]], dict[str, Tensor]] = none_absent
    unpacked: Callable[[Mapping[str, Tensor], str], Mapping[str, Tensor]] = as_stored
    packed: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda tensors: tensors


AnyArchitecture = Architecture[Any]


@dataclass(frozen=True, kw_only=True)
class Family(Generic[C]):
    """One model family of Hugging Face folders.

    model_type: its name in config.json. prefix: prefix of all keys of a model with a head, except
    the keys of the head. heads: a pattern of the keys of heads. ignored: a pattern of keys without
    parameters (old files contain masks). architectures: the classes; the first is the default if
    config.json names none. to_hf_config: returns the contents of config.json for our
    configuration. lacks: returns the reasons why a configuration of ours cannot be represented.
    renamed: suffixes of keys in old files -> their current names. generates: whether the models
    generate text and have a generation_config.json. sees: whether the inputs are images.
    """

    model_type: str
    prefix: str
    heads: str
    ignored: str
    architectures: tuple[AnyArchitecture, ...]
    to_hf_config: Callable[[C], dict[str, Any]]
    lacks: Callable[[C], list[str]]
    renamed: Mapping[str, str] = field(default_factory=dict)
    generates: bool = False
    sees: bool = False

    def kinds(self) -> set[type[object]]:
        """Return the classes of our configurations that this family can represent."""
        return {architecture.kind for architecture in self.architectures}

    def architecture(self, config: object) -> AnyArchitecture:
        """Return the class for a configuration that this family can represent."""
        candidates = [
            candidate for candidate in self.architectures if candidate.kind is type(config)
        ]
        return next(candidate for candidate in candidates if candidate.fits(config))

    def full_name(self, key: str, architecture: AnyArchitecture) -> str:
        """Return the key of a tensor in the files of this class."""
        unprefixed = architecture.bare or re.fullmatch(self.heads, key)
        return key if unprefixed else self.prefix + key

    def named(self, tensors: Mapping[str, Tensor], unused: str, where: str) -> dict[str, Tensor]:
        """Return the tensors by their current names without prefix, except ignored and unused ones.

        Raises DataError for a duplicate name and for a dtype that is not floating-point.
        """
        named: dict[str, Tensor] = {}
        for key, tensor in tensors.items():
            name = key.removeprefix(self.prefix)
            if re.fullmatch(self.ignored, name) or re.fullmatch(unused, name):
                continue
            old = next((end for end in self.renamed if name.endswith(end)), "")
            name = name.removesuffix(old) + self.renamed.get(old, "")
            if name in named:
                raise DataError(
                    f"{name} occurs twice: with and without the prefix {self.prefix!r}, or under "
                    "its old and its current name",
                    where,
                )
            if not tensor.is_floating_point():
                raise DataError(
                    f"{key} has dtype {tensor.dtype}; weights must be floating-point numbers", where
                )
            named[name] = tensor
        return named


AnyFamily = Family[Any]


def layers(
    table: Table,
    theirs: str = "",
    ours: str = "",
    *,
    biases: bool = True,
    transposed: bool = False,
    groups: int = 1,
) -> Iterator[Part]:
    """Yield weight and bias of each layer, theirs -> ours; for a norm ours are gain and shift.

    Several names of ours are one matrix of theirs. theirs, ours: prefixes of all names. biases:
    whether the layers have biases. transposed: whether the matrices are. groups: see `Part`.
    """
    for key, value in table.items():
        names = (value,) if isinstance(value, str) else value
        is_norm = names[0].endswith("norm")
        kinds = {"weight": "gain", "bias": "shift"} if is_norm else {k: k for k in WEIGHTS}
        for kind in WEIGHTS if biases else WEIGHTS[:1]:
            yield Part(
                f"{theirs}{key}.{kind}",
                tuple(f"{ours}{name}.{kinds[kind]}" for name in names),
                transposed and kind == "weight" and not is_norm,
                groups=groups,
            )


def prefixed(parts: Iterable[Part], theirs: str = "", ours: str = "") -> Iterator[Part]:
    """Yield the same tensors as parts of a larger model."""
    for part in parts:
        names = tuple(f"{ours}{name}" for name in part.ours)
        yield replace(part, theirs=f"{theirs}{part.theirs}", ours=names)


def needs(config: object, required: Mapping[str, Sequence[object]]) -> list[str]:
    """Return, as texts, the settings of a configuration that do not have an allowed value."""
    return [
        f"{key}={getattr(config, key)} (must be {' or '.join(map(str, allowed))})"
        for key, allowed in required.items()
        if getattr(config, key) not in allowed
    ]


def join_copies(
    tied: Mapping[str, str], tensors: dict[str, Tensor], where: str, hint: str | None = None
) -> None:
    """Remove the copies of tied tensors; if only the copy is present, store it as the original.

    Raises DataError if copy and original differ.
    """
    for copy, original in tied.items():
        if copy not in tensors:
            continue
        tensor = tensors.pop(copy)
        stored = tensors.setdefault(original, tensor)
        if stored.dtype != tensor.dtype or not torch.equal(stored, tensor):
            raise DataError(
                f"{copy} differs from {original}, but by tie_word_embeddings they are tied",
                where,
                hint,
            )


def check_present(parts: Iterable[Part], tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise DataError with the name of the first missing or the first unexpected tensor.

    parts: may be a generator, so that a file that claims a billion layers fails at the first.
    """
    known = set()
    for part in parts:
        if part.theirs not in tensors:
            raise DataError(f"the file lacks {part.theirs}, which config.json requires", where)
        known.add(part.theirs)
    for key in sorted(tensors.keys() - known):
        raise DataError(
            f"the file has {key}, which a model with this config.json does not have", where
        )


def to_ours(
    parts: Iterable[Part],
    tensors: Mapping[str, Tensor],
    shapes: Mapping[str, torch.Size],
    where: str,
) -> dict[str, Tensor]:
    """Return our tensors for theirs, which must all be present.

    shapes: of ours. Raises DataError with the name of a tensor of the wrong shape.
    """
    result: dict[str, Tensor] = {}
    for part in parts:
        sizes = [shapes[name] for name in part.ours]
        joined = [sum(size[0] for size in sizes), *sizes[0][1:]]
        expected = [joined[0] + part.unused, *joined[1:]]
        if part.transposed:
            expected = expected[::-1]
        elif part.shape is not None:
            expected = list(part.shape)
        tensor = tensors[part.theirs]
        if list(tensor.shape) != expected:
            raise DataError(
                f"{part.theirs} has shape {tuple(tensor.shape)}, but config.json requires "
                f"{tuple(expected)}",
                where,
            )
        if part.unused:
            tensor = tensor[part.unused :]
        rows = tensor.T if part.transposed else tensor.reshape(joined)
        grouped = rows.reshape(part.groups, -1, *rows.shape[1:])
        split = torch.split(grouped, [size[0] // part.groups for size in sizes], dim=1)
        pairs = zip(part.ours, split, strict=True)
        result |= {name: x.flatten(0, 1).contiguous() for name, x in pairs}
    return result


def to_theirs(parts: Iterable[Part], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return their tensors for ours, by names without prefix: the inverse of `to_ours`."""
    result = {}
    for part in parts:
        ours = [tensors[name] for name in part.ours]
        grouped = [x.reshape(part.groups, -1, *x.shape[1:]) for x in ours]
        rows = torch.cat(grouped, dim=1).flatten(0, 1)
        rows = rows if part.shape is None else rows.reshape(part.shape)
        if part.unused:
            rows = torch.cat((rows.new_zeros(part.unused, *rows.shape[1:]), rows))
        result[part.theirs] = rows.T.contiguous() if part.transposed else rows
    return result
