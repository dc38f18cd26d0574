"""Chooses the implementation: the CUDA kernels or plain torch."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from motionkit.errors import MotionkitError
from motionkit.kernels._compile import choose_arch, compiler_version, cubin_folder, physics_spec, recover_spec
from motionkit.kernels._driver import CudaDriver, Driver, NotNowError

BACKENDS = ("auto", "cuda", "torch")
VARIABLE = "MOTIONKIT_KERNELS"

_log = logging.getLogger("motionkit.kernels")
_drivers: dict[str, Driver] = {"cuda": CudaDriver()}
_failed: set[tuple[object, ...]] = set()
_told: set[str] = set()
_ready: set[tuple[object, ...]] = set()


def driver_of(device: torch.device) -> Driver:
    """Return the driver that launches kernels on `device`."""
    if device.type not in _drivers:
        raise MotionkitError(
            f"the cuda backend got a tensor on {device}.",
            why="it runs on CUDA devices only.",
            fix="move the tensors to a CUDA device, or choose the backend auto or torch.",
        )
    return _drivers[device.type]


@contextmanager
def use_driver(device_type: str, driver: Driver) -> Iterator[None]:
    """Run kernels for tensors on `device_type` through another driver, for as long as the context lasts."""
    before, failures = dict(_drivers), set(_failed)
    _drivers[device_type] = driver
    for known in (_failed, _told, _ready):
        known.clear()
    try:
        yield
    finally:
        _drivers.clear()
        _drivers.update(before)
        for known in (_failed, _told, _ready):
            known.clear()
        _failed.update(failures)


def requested(backend: str = "auto") -> str:
    """Return `backend`, or the value of ``$MOTIONKIT_KERNELS`` when it is ``auto``."""
    value, origin = backend, "backend"
    if backend == "auto" and (given := os.environ.get(VARIABLE)):
        value, origin = given, VARIABLE
    if value not in BACKENDS:
        raise MotionkitError(f"{origin} must be one of {', '.join(BACKENDS)}, got {value!r}.")
    return value


def use_kernel(
    kind: str, backend: str, device: torch.device, double: bool, joints: int, feet: tuple[int, ...] | None = None
) -> bool:
    """Decide whether a kernel runs, and make it ready if so.

    `auto` takes the kernel on a CUDA device when it can be loaded; when it cannot, one log line gives the reason.
    The failure is remembered for this body only.

    Args:
        kind: ``physics`` or ``recover``.
        backend: ``auto``, ``cuda`` or ``torch``.
        device: Device of the tensors.
        double: Whether they are float64, which only plain torch computes.
        joints: Joints of the body.
        feet: Foot joints, for ``physics``.
    """
    asked = requested(backend)
    key = (kind, asked, device, double, joints, feet)
    if key in _ready:
        return True
    if asked == "torch" or (asked == "auto" and (device.type not in _drivers or double)):
        return False
    if double:
        raise MotionkitError(
            "the cuda backend got float64.", why="the kernels compute in float32.", fix="choose the backend torch."
        )
    driver = driver_of(device)
    # Kept per body: a body that is too large for a kernel does not rule out smaller ones.
    if asked == "auto" and (kind, device, joints, feet) in _failed:
        return False
    try:
        spec = physics_spec(joints, feet or ()) if kind == "physics" else recover_spec(joints)
        driver.load(spec, device)
    except MotionkitError as error:
        if asked == "cuda":
            raise
        if not isinstance(error, NotNowError):
            _failed.add((kind, device, joints, feet))
        line = f"plain torch instead of the {kind} kernel on {device}: {error.message} {error.why}".rstrip()
        if line not in _told:
            _log.warning("%s", line)
        _told.add(line)
        return False
    _ready.add(key)
    return True


# torch.compile calls it once while it traces, with the values it has then. `torch.compiler.assume_constant_result` sets
# the same mark, but imports torch._dynamo, which takes as long as torch itself.
use_kernel._dynamo_marked_constant = True  # type: ignore[attr-defined]


def backend_report() -> tuple[str, str]:
    """Return ``ok``, ``warn`` or ``fail``, and one line: what runs here and why.

    ``warn``: a CUDA device runs plain torch. ``fail``: the backend in ``$MOTIONKIT_KERNELS`` cannot run.
    """
    try:
        asked = requested()
    except MotionkitError as error:
        return "fail", error.message
    if asked == "torch":
        return "ok", f"torch, as {VARIABLE} says"
    missing = "fail" if asked == "cuda" else "warn"
    if not torch.cuda.is_available():
        return "ok" if asked == "auto" else "fail", "torch: there is no CUDA device"
    device = torch.device("cuda", torch.cuda.current_device())
    try:
        driver_of(device).load(physics_spec(22, (7, 10, 8, 11)), device)
        arch = choose_arch(torch.cuda.get_device_capability(device))
        version = ".".join(str(part) for part in compiler_version())
    except MotionkitError as error:
        return missing, f"torch: {error.message} {error.why}".rstrip()
    folder = cubin_folder()
    place = "not kept: there is no home folder" if folder is None else f"kept in {folder}"
    return "ok", f"cuda: sm_{arch} by NVRTC {version}, {place}"
