"""`headway doctor` and `headway --version`: versions and devices."""

from __future__ import annotations

from platform import python_version

from headway.cli.console import data, data_json


def doctor(*, json: bool = False) -> None:
    """Show versions, devices, optional packages and disk, for bug reports.

    Parameters
    ----------
    json
        Print one JSON object instead of a table.
    """
    from headway.machine import describe

    properties = describe()
    packages = properties.pop("packages")
    properties = {**properties, **_small_numbers(), "packages": packages}
    if json:
        data_json(properties)
        return
    for name, value in properties.items():
        if name == "packages":
            for package, installed in value.items():
                data(f"  {package:<14} {installed or 'not installed'}")
        elif name == "cuda":
            devices = ", ".join(value["devices"]) or "no device"
            data(f"{name:<16} {value['version'] or 'not in this build'} ({devices})")
        elif name == "free_disk_bytes":
            data(f"{'free disk':<16} {value / 1e9:.1f} GB")
        else:
            data(f"{name:<16} {value}")


def _small_numbers() -> dict[str, str]:
    """Return the implementations of products in int8, int4 and float8 that this machine uses, and
    whether it has kernels of Headway's own."""
    import torch

    from headway.float8_gpus import float8_obstacle
    from headway.transforms.fast.int4 import int4_product_exists
    from headway.transforms.fast.int8 import int8_kernel, kernel_of_many_rows
    from headway.transforms.kernels import obstacle as kernel_obstacle

    kernel = int8_kernel()
    of_many_rows = kernel_of_many_rows() or kernel
    device = "cuda" if torch.cuda.is_available() else "cpu"
    obstacle = float8_obstacle(device)
    of_kernels = kernel_obstacle(torch.device(device))
    plain = "plain (dequantise and multiply)"
    return {
        "int8 products": plain if kernel is None else kernel.name,
        "int8, many rows": plain if of_many_rows is None else of_many_rows.name,
        "int4 products": "int4pack_mm" if int4_product_exists() else plain,
        "float8 products": "scaled_mm, in training" if obstacle is None else f"none: {obstacle}",
        "kernels": "by Triton" if of_kernels is None else f"torch's alone: {of_kernels}",
    }


def version() -> str:
    """The line of `headway --version`, which imports no torch."""
    from headway import __version__
    from headway.machine import version_of

    return f"headway {__version__} · torch {version_of('torch')} · Python {python_version()}"
