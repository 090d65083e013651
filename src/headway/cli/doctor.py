"""What this machine has."""

from __future__ import annotations

from headway.cli.console import data, data_json


def doctor(*, json: bool = False) -> None:
    """Show versions, devices, optional packages and disk, for bug reports.

    Parameters
    ----------
    json
        One JSON object instead of a table.
    """
    from headway.machine import describe

    facts = describe()
    if json:
        data_json(facts)
        return
    for name, value in facts.items():
        if name == "packages":
            for package, found in value.items():
                data(f"  {package:<14} {found or 'not installed'}")
        elif name == "cuda":
            devices = ", ".join(value["devices"]) or "no device"
            data(f"{name:<16} {value['version'] or 'not in this build'} ({devices})")
        elif name == "free_disk_bytes":
            data(f"{'free disk':<16} {value / 1e9:.1f} GB")
        else:
            data(f"{name:<16} {value}")


def version() -> str:
    """For `headway --version`."""
    from headway.machine import describe

    facts = describe()
    device = ", ".join(facts["cuda"]["devices"]) or f"cpu ({facts['cpus']} cores)"
    return f"headway {facts['headway']} · torch {facts['torch']} · {device}"
