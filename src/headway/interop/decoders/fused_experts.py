"""The experts of gpt-oss: one tensor for all E experts of a layer, perhaps in MXFP4.

| tensor in `mlp.experts.` | shape | |
|---|---|---|
| `gate_up_proj`, with `_bias` | E D 2F, E 2F | column 2i is gate i, column 2i + 1 expansion i |
| `down_proj`, with `_bias` | E F D, E D | |
| `*_blocks` and `*_scales` | E R G 16, E R G | a matrix with R rows of 32 G numbers, transposed |

MXFP4 (Open Compute Project 2023, section 5.4): 32 numbers share a power of two; each has 4 bits.
Both are read into the tensors that other families have, `experts.N.gate_proj.weight` and so on.
"""

import re
from collections.abc import Mapping

import torch

from headway.base.errors import DataError
from headway.base.shapes import Float, Tensor, UInt8

_FOUR_BITS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
_FUSED = re.compile(r"(.*mlp\.experts\.)(gate_up|down)_proj(_bias)?")
_ONE = re.compile(r"(.*mlp\.experts\.)(\d+)\.(gate|up|down)_proj\.(weight|bias)")
_BLOCKS, _SCALES = "_blocks", "_scales"


def from_mxfp4(
    blocks: UInt8[Tensor, "*B G 16"], scales: UInt8[Tensor, "*B G"]
) -> Float[Tensor, "*B N"]:
    """Return the N = 32 G numbers 2^(scale - 127) v of each row, exactly, in bfloat16.

    v: the lower four bits of each byte, then the upper ones: a sign, and the number of a value.
    """
    values = torch.cat((_FOUR_BITS, -_FOUR_BITS))
    halves = torch.stack((blocks & 15, blocks >> 4), dim=-1).flatten(-2)
    powers = scales.to(torch.int32).unsqueeze(-1) - 127
    return torch.ldexp(values[halves.long()], powers).flatten(-2).to(torch.bfloat16)


def unpacked(stored: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Return the tensors of a file with those of each expert by itself.

    Raises DataError for a tensor of experts that is incomplete or has other dimensions.
    """
    tensors = dict(stored)
    for key in [key for key in stored if key.endswith(_BLOCKS)]:
        name = key.removesuffix(_BLOCKS)
        blocks, scales = tensors.pop(key), tensors.pop(f"{name}{_SCALES}", None)
        if scales is None:
            raise DataError(f"the file has {key}, but no {name}{_SCALES}", where)
        is_bytes = blocks.dtype == scales.dtype == torch.uint8
        if not is_bytes or blocks.ndim != 4 or blocks.shape != (*scales.shape, 16):
            raise DataError(
                f"{key} and {name}{_SCALES} have shapes {tuple(blocks.shape)} and "
                f"{tuple(scales.shape)}; MXFP4 has bytes of the shapes E R G 16 and E R G",
                where,
            )
        tensors[name] = from_mxfp4(blocks, scales).mT
    for key, found in [(key, found) for key in tensors if (found := _FUSED.fullmatch(key))]:
        prefix, layer, is_bias = found.groups()
        whole = tensors.pop(key)
        expected = 2 if is_bias else 3
        if whole.ndim != expected:
            raise DataError(f"{key} has {whole.ndim} dimensions, not {expected}", where)
        rows = whole if is_bias else whole.mT
        parts = {"gate": rows[:, ::2], "up": rows[:, 1::2]} if layer == "gate_up" else {layer: rows}
        kind = "bias" if is_bias else "weight"
        tensors |= {
            f"{prefix}{expert}.{name}_proj.{kind}": rows
            for name, of_all in parts.items()
            for expert, rows in enumerate(of_all)
        }
    return tensors


def packed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a file for those of each expert: the inverse of `unpacked`, without
    MXFP4."""
    result: dict[str, Tensor] = {}
    experts: dict[tuple[str, str, str], list[Tensor]] = {}
    for key, tensor in tensors.items():
        found = _ONE.fullmatch(key)
        if found is None:
            result[key] = tensor
        else:
            prefix, _, name, kind = found.groups()
            experts.setdefault((prefix, name, kind), []).append(tensor)
    for (prefix, name, kind), of_all in experts.items():
        if name == "up":
            continue  # with the gate
        rows, end = torch.stack(of_all), "_bias" if kind == "bias" else ""
        if name == "gate":
            expansions = torch.stack(experts[prefix, "up", kind])
            rows, name = torch.stack((rows, expansions), dim=2).flatten(1, 2), "gate_up"
        fused = rows if kind == "bias" else rows.mT.contiguous()
        result[f"{prefix}{name}_proj{end}"] = fused
    return result
