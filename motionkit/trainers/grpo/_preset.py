"""What ``--preset`` means: sizes that fit what a run computes on. Imports torch only where there is a GPU's driver.

The defaults are for a CPU. An algorithm's options hold in `gpu` what takes their place on a CUDA device, where a batch
below a hundred samples leaves the device waiting for the host.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from motionkit.config import Preset
from motionkit.errors import MotionkitError


def find_preset(given: Mapping[str, Any], options: Mapping[str, Sequence[type[BaseModel]]]) -> Preset | None:
    """Return the values of ``gpu`` when it is asked for, or for ``auto`` on a CUDA device; see `Settings.preset_of`.

    Raises:
        MotionkitError: ``gpu`` is asked for and the device is another one.
    """
    asked, device = (str(given.get(name, "auto")).strip().lower() for name in ("preset", "device"))
    if asked not in ("auto", "gpu"):
        return None
    found = _device(device)
    if found != "cuda" and asked == "gpu":
        raise MotionkitError(
            "--preset gpu needs a CUDA device.",
            why=f"the run would be on {found}." if found else f"--device {device} is not on this machine.",
            fix="--preset cpu, or --preset auto, which takes what is there",
        )
    values = {key: value for model in options.get("algorithm", ()) for key, value in getattr(model, "gpu", {}).items()}
    note = "--preset cpu keeps the small sizes" if asked == "auto" else "sizes that were given win"
    return Preset("preset gpu", values, note) if found == "cuda" else None


def _device(name: str) -> str:
    """Return the type of a device, or nothing when it is not on this machine, which is reported where it is opened."""
    if name in ("cpu", "mps"):
        return name
    if name == "auto" and not _has_driver():  # what torch would say, without importing it
        return "cpu"
    from motionkit.policies.device import resolve_device

    try:
        return resolve_device(name).type
    except MotionkitError:
        return ""


def _has_driver() -> bool:
    """Return whether an NVIDIA driver left its marks: on Linux, in WSL or on Windows. Nothing is loaded."""
    windows = Path(os.environ.get("SYSTEMROOT", "C:/Windows")) / "System32" / "nvcuda.dll"
    marks = [windows] if os.name == "nt" else [Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg")]
    return any(mark.exists() for mark in marks)
