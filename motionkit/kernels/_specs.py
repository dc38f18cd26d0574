"""Which sources are compiled with which numbers: everything that is fixed before a kernel meets a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from motionkit.errors import MotionkitError

_SHARED_BYTES = 47 * 1024  # of the 48 KiB that every device gives a block without asking
_MOST_THREADS = 1024
_OLDEST = 75  # sm_75: 1024 threads fit a multiprocessor there, at least 1536 on everything newer
_LEAST_ROOM, _MOST_ROOM = 1024, 1536


@dataclass(frozen=True, eq=False)  # compared by identity, which costs nothing at every launch
class Spec:
    """One kernel source, specialised.

    Attributes:
        source: File name inside this package.
        defines: Macros that do not depend on the device.
        kernels: Names of its kernels.
        threads: Threads of a block, one number per kernel.
        bounds: Macro of each kernel's launch bounds, where the source asks for them.
        room: For each of these, how many threads a multiprocessor should hold at once, at least 1024.
    """

    source: str
    defines: tuple[tuple[str, str], ...]
    kernels: tuple[str, ...]
    threads: tuple[int, ...]
    bounds: tuple[str, ...] = ()
    room: tuple[int, ...] = ()

    def text(self) -> str:
        """Return the CUDA C++ source."""
        return (Path(__file__).parent / self.source).read_text(encoding="utf-8")

    def choices(self, arch: int) -> dict[str, list[str]]:
        """Return the launch bounds to try for each macro of `bounds`, the tightest first.

        Whoever compiles for compute capability `arch` takes the first without spills.
        """
        wanted = zip(self.bounds, self.threads, self.room, strict=False)
        return {name: launch_bounds(size, arch, room) for name, size, room in wanted}

    def macros(self, arch: int) -> dict[str, str]:
        """Return every macro for compute capability `arch` (75, 90, ...), with the tightest bounds."""
        return {**dict(self.defines), **{name: bounds[0] for name, bounds in self.choices(arch).items()}}


def launch_bounds(threads: int, arch: int, room: int = _LEAST_ROOM) -> list[str]:
    """Return ``"threads,blocks"`` for ``__launch_bounds__``, tightest first: at most 64 registers a thread everywhere.

    A multiprocessor has 65536 registers, so asking for room for at least 1024 threads is asking for at most 64. Blocks
    of an odd size make it less than 64; the last bounds leave all 64, by claiming a size that divides 1024.
    """
    whole = 1 << (threads - 1).bit_length()
    bounds = [(whole, _LEAST_ROOM // whole)]
    if arch > _OLDEST:
        for least in (_LEAST_ROOM, room):
            blocks = min(-(-least // threads), _MOST_ROOM // threads)
            if blocks * threads >= _LEAST_ROOM:  # fewer would be allowed more than 64 registers
                bounds.insert(0, (threads, blocks))
    return [f"{size},{blocks}" for size, blocks in dict.fromkeys(bounds)]


@lru_cache(maxsize=64)
def physics_spec(
    joints: int, feet: tuple[int, ...], tiles: tuple[int, int] = (52, 56), walks: tuple[int, int] = (4, 8)
) -> Spec:
    """Return the skate and jerk kernels for a body.

    Args:
        joints: Joints of the body.
        feet: Distinct foot joints, at least one.
        tiles: Frames per step wanted in the forward and backward kernel. 52 makes four steps of 196 frames with four
            blocks on a multiprocessor, 56 makes four with room for five. Larger bodies get shorter steps.
        walks: Frames that one thread walks. What it knows of the frame before, it need not compute again.

    Raises:
        MotionkitError: No foot, or a body too large for a block's shared memory.
    """
    if not feet:
        raise MotionkitError("the physics kernel needs at least one foot joint.")
    bodies = (lambda tile: (tile + 3) * 12 * joints, lambda tile: (2 * tile + 6) * 12 * joints)
    forward, backward = (_tile(*given, joints, len(feet)) for given in zip(tiles, walks, bodies, strict=True))
    sizes = tuple(
        _threads(tile // walk, joints, len(feet)) for tile, walk in zip((forward, backward), walks, strict=True)
    )
    defines: dict[str, int | str] = {
        "MK_JOINTS": joints,
        "MK_FEET": len(feet),
        "MK_FOOT_LIST": ",".join(str(foot) for foot in feet),
        "MK_FWD_WALK": walks[0],
        "MK_BWD_WALK": walks[1],
        "MK_FWD_TILE": forward,
        "MK_BWD_TILE": backward,
        "MK_FWD_THREADS": sizes[0],
        "MK_BWD_THREADS": sizes[1],
    }
    kernels, bounds = ("mk_physics_fwd", "mk_physics_bwd"), ("MK_FWD_BOUNDS", "MK_BWD_BOUNDS")
    # The forward kernel does little but wait for memory: the more threads wait at once, the better.
    return Spec("physics.cu", _frozen(defines), kernels, sizes, bounds, (1408, 1024))


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


def _tile(wanted: int, walk: int, shared: Callable[[int], int], joints: int, feet: int) -> int:
    for tile in range(wanted // walk * walk, 0, -walk):
        if _threads(tile // walk, joints, feet) <= _MOST_THREADS and shared(tile) + 512 <= _SHARED_BYTES:
            return tile
    raise MotionkitError(f"the physics kernel cannot hold a body of {joints} joints in a block's shared memory.")


def _threads(groups: int, joints: int, feet: int) -> int:
    """Return whole warps of joints, then whole warps of feet."""
    return sum(-(-groups * count // 32) * 32 for count in (joints, feet))


def _frozen(defines: Mapping[str, int | str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in defines.items())
