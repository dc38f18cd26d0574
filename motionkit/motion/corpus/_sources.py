"""Where clips for a conversion come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._clip import ReadOptions
from motionkit.motion._skeleton import HUMANML
from motionkit.motion.checks._glitches import jumps, starts_at_rest
from motionkit.motion.corpus._caption_table import plain_id
from motionkit.motion.formats.bvh import read_bvh
from motionkit.motion.rigs._bodymap import looks_lying, map_body


@dataclass(frozen=True)
class LoadedClip:
    """A motion on the 22-joint body.

    Attributes:
        joints: ``[T, 22, 3]`` metres, Y up, at `HUMANML.fps`.
        features: ``[T, 263]`` when the clip comes as features already; they are written as they are.
        captions: Texts that came with the clip.
        split: ``train``, ``val``, ``test`` or empty.
        group: Clips of one group never meet in two splits; empty for a group of its own.
        notes: Facts for the record: rig, unit, frames before.
        warnings: What a person should look at.
    """

    joints: Tensor
    features: Tensor | None = None
    captions: tuple[str, ...] = ()
    split: str = ""
    group: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class ClipSource(Protocol):
    """One clip that can be loaded.

    Attributes:
        key: Its id: no slash, no ``#``.
        origin: Where it comes from, for messages.
    """

    @property
    def key(self) -> str:
        """Return the clip's id."""
        ...

    @property
    def origin(self) -> str:
        """Return where the clip comes from."""
        ...

    def load(self) -> LoadedClip:
        """Load it.

        Raises:
            MotionkitError: The clip cannot be used; the others go on.
        """
        ...


@dataclass(frozen=True)
class BvhSource:
    """A BVH file.

    Attributes:
        path: The file.
        key: Clip id.
        up: Vertical axis of the file, ``y`` or ``z``.
    """

    path: Path
    key: str
    up: str = "y"

    @property
    def origin(self) -> str:
        """Return the path."""
        return str(self.path)

    def load(self) -> LoadedClip:
        """Read the file, drop a rest pose before the motion, resample, map to the 22-joint body."""
        (read,) = read_bvh(self.path, ReadOptions(up="z" if self.up == "z" else "y"))
        clip = read.motion
        positions = clip.positions()
        body = map_body(clip.names, clip.parents, positions)
        warnings = list(read.warnings)
        if starts_at_rest(positions, 1.0):
            warnings.append("its first frame is a rest pose and was left out.")
            clip, positions = clip.cut(1), positions[1:]
        if wild := jumps(positions, 1.0, clip.fps):
            shown = ", ".join(map(str, wild[:5])) + (", ..." if len(wild) > 5 else "")
            warnings.append(f"a joint jumps in {len(wild)} frame(s): {shown}")
        positions = clip.resample(HUMANML.fps).positions()
        joints = body.weights @ positions
        if looks_lying(joints):
            warnings.append("lies along Z for most of the clip: if its vertical is Z, pass --up z")
        return LoadedClip(joints, notes=read.notes, warnings=tuple(warnings))


def bvh_sources(paths: Iterable[Path], *, up: str = "y") -> Sequence[BvhSource]:
    """Find BVH files: each path is a file or a folder, searched with its sub-folders.

    Ids are file names without ending; where two files share one, their folders are put before it.

    Raises:
        MotionkitError: A path is missing, is no BVH file, or a folder holds none.
    """
    files: list[tuple[Path, Path]] = []
    for path in paths:
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.suffix.lower() == ".bvh" and file.is_file())
            if not found:
                raise MotionkitError(f"there is no .bvh file in {path} or below it.")
            files.extend((file, path) for file in found)
        elif path.suffix.lower() == ".bvh" and path.is_file():
            files.append((path, path.parent))
        elif path.exists():
            raise MotionkitError(
                f"{path} is not a .bvh file.", why="convert reads BVH files, folders of them, and starter."
            )
        else:
            raise MotionkitError(f"there is no {path}.", fix="give BVH files, folders of them, or the word starter.")
    unique: dict[Path, Path] = {}
    for file, base in files:
        unique.setdefault(file.resolve(), base.resolve())
    stems = [file.stem for file in unique]
    sources: list[BvhSource] = []
    taken: set[str] = set()
    for file, base in unique.items():
        key = plain_id(file.stem)
        if stems.count(file.stem) > 1:
            key = plain_id("_".join(file.relative_to(base).with_suffix("").parts))
        number = 2
        while key in taken:
            key, number = f"{plain_id(file.stem)}_{number}", number + 1
        taken.add(key)
        sources.append(BvhSource(file, key, up))
    return sources
