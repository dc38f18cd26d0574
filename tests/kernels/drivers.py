"""Kernels through another driver than the device's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from motionkit.kernels import _backend


@contextmanager
def use_driver(device_type: str, driver: Any) -> Iterator[None]:
    """Run kernels for tensors on `device_type` through another driver, for as long as the context lasts."""
    before, failures = dict(_backend._drivers), set(_backend._failed)
    _backend._drivers[device_type] = driver
    for known in (_backend._failed, _backend._logged, _backend._ready):
        known.clear()
    try:
        yield
    finally:
        _backend._drivers.clear()
        _backend._drivers.update(before)
        for known in (_backend._failed, _backend._logged, _backend._ready):
            known.clear()
        _backend._failed.update(failures)
