"""Specialised kernel sources: the macros, threads and launch bounds that each is compiled with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from motionkit.errors import MotionkitError

_SHARED_BYTES = 47 * 1024  # bytes of shared memory; every device gives a block 48 KiB by default
_MOST_THREADS = 1024
_OLDEST = 75  # sm_75: 1024 threads fit a multiprocessor there, at least 1536 on newer architectures
_ROOM = 1024
_WALK = 8  # frames per thread of the physics kernels; values of one frame are reused for the next


@dataclass(frozen=True, eq=False)  # compared by identity, which is free at every launch
class Spec:
    """One kernel source, specialised.

    Attributes:
        source: File name inside this package.
        defines: Macros that do not depend on the device.
        kernels: Names of its kernels.
        threads: Threads of a block, one number per kernel.
        bounds: Macro of each kernel's launch bounds, for sources that use them.
    """

    source: str
    defines: tuple[tuple[str, str], ...]
    kernels: tuple[str, ...]
    threads: tuple[int, ...]
    bounds: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the CUDA C++ source."""
        return (Path(__file__).parent / self.source).read_text(encoding="utf-8")

    def choices(self, arch: int) -> dict[str, list[str]]:
        """Return the launch bounds to try for each macro of `bounds`, the tightest first.

        The compiler takes the first of them without spills for compute capability `arch`.
        """
        return {name: launch_bounds(size, arch) for name, size in zip(self.bounds, self.threads, strict=False)}

    def macros(self, arch: int) -> dict[str, str]:
        """Return every macro for compute capability `arch` (75, 90, ...), with the tightest bounds."""
        return {**dict(self.defines), **{name: bounds[0] for name, bounds in self.choices(arch).items()}}


def launch_bounds(threads: int, arch: int) -> list[str]:
    """Return ``"threads,blocks"`` for ``__launch_bounds__``, tightest first: at most 64 registers a thread everywhere.

    A multiprocessor has 65536 registers, so room for at least 1024 threads means at most 64 registers a thread. Blocks
    of an odd size make it less than 64; the last bounds leave all 64, by claiming a size that divides 1024.
    """
    whole = 1 << (threads - 1).bit_length()
    bounds = [f"{whole},{_ROOM // whole}"]
    if arch > _OLDEST and threads < whole <= _ROOM // 2:
        bounds.insert(0, f"{threads},{-(-_ROOM // threads)}")
    return bounds


@lru_cache(maxsize=64)
def physics_spec(joints: int, feet: tuple[int, ...], tiles: tuple[int, int] = (56, 56)) -> Spec:
    """Return the skate and jerk kernels for a body.

    Args:
        joints: Joints of the body.
        feet: Distinct foot joints, at least one.
        tiles: Frames per step wanted in the forward and backward kernel. 56 makes four steps of 196 frames, small
            enough for five blocks and more on a multiprocessor. Larger bodies get shorter steps.

    Raises:
        MotionkitError: No foot, or a body too large for a block's shared memory.
    """
    if not feet:
        raise MotionkitError("the physics kernel needs at least one foot joint.")
    forward = _tile(tiles[0], joints, len(feet), lambda tile: (tile + 3) * 12 * joints)
    backward = _tile(tiles[1], joints, len(feet), lambda tile: (2 * tile + 6) * 12 * joints)
    sizes = tuple(_threads(tile, joints, len(feet)) for tile in (forward, backward))
    defines: dict[str, int | str] = {
        "MK_JOINTS": joints,
        "MK_FEET": len(feet),
        "MK_FOOT_LIST": ",".join(str(foot) for foot in feet),
        "MK_WALK": _WALK,
        "MK_FWD_TILE": forward,
        "MK_BWD_TILE": backward,
        "MK_FWD_THREADS": sizes[0],
        "MK_BWD_THREADS": sizes[1],
    }
    return Spec(
        "physics.cu", _frozen(defines), ("mk_physics_fwd", "mk_physics_bwd"), sizes, ("MK_FWD_BOUNDS", "MK_BWD_BOUNDS")
    )


@lru_cache(maxsize=64)
def recover_spec(joints: int, threads: int = 256) -> Spec:
    """Return the joint recovery kernels for a body of `joints` joints.

    Raises:
        MotionkitError: A body too large for a block's shared memory.
    """
    if joints < 2 or 32 * (6 * joints + 12) * 4 > _SHARED_BYTES:
        raise MotionkitError(f"the joint recovery kernel takes 2 to 60 joints, not {joints}.")
    defines = {"MK_JOINTS": joints, "MK_RECOVER_THREADS": threads}
    return Spec("recover.cu", _frozen(defines), ("mk_recover_fwd", "mk_recover_bwd"), (threads, threads))


def tile_of(spec: Spec, macro: str) -> int:
    """Return a number that `spec` defines."""
    return int(dict(spec.defines)[macro])


def _tile(wanted: int, joints: int, feet: int, shared: Callable[[int], int]) -> int:
    for tile in range(wanted // _WALK * _WALK, 0, -_WALK):
        if _threads(tile, joints, feet) <= _MOST_THREADS and shared(tile) + 512 <= _SHARED_BYTES:
            return tile
    raise MotionkitError(f"the physics kernel cannot hold a body of {joints} joints in a block's shared memory.")


def _threads(tile: int, joints: int, feet: int) -> int:
    """Return whole warps of joints, then whole warps of feet."""
    return sum(-(-tile // _WALK * count // 32) * 32 for count in (joints, feet))


def _frozen(defines: Mapping[str, int | str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in defines.items())
