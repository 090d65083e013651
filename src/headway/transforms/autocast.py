"""The dtype in which autocast multiplies, for code that converts its factors itself."""

import torch


def autocast_dtype(device_type: str) -> torch.dtype | None:
    """Return the dtype of autocast on this kind of device, or None if it is not enabled."""
    if not torch.is_autocast_enabled(device_type):
        return None
    return torch.get_autocast_dtype(device_type)
