"""One decision on unit and direction of up for all files of a skeleton (BVH, GLB), from joints and first frames."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from motionkit.clips.faults import HEIGHT_RANGE, is_plausible
from motionkit.clips.sources import FileSource
from motionkit.clips.walk import one_thread
from motionkit.errors import MotionkitError
from motionkit.formats.format import Reader
from motionkit.formats.glb.read import glb_unit
from motionkit.formats.table import FORMATS
from motionkit.motion.clip import BODY, MAPPED, Axis, Unit, joint_map_text
from motionkit.motion.motion import END, Motion
from motionkit.page.wording import count
from motionkit.rigs import body_height
from motionkit.rigs.detect import UNITS, find_unit, motion_leg, rest_extent, rest_up
from motionkit.rigs.roles import find_roles
from motionkit.rigs.upright import AXES, axis_of, in_words, trunk_of
from motionkit.runs import write_bytes_atomic

_PEOPLE = 2.0
"""Ratio of two successive sorted sizes above which they differ in unit: a child and an adult stay below, an inch is
2.54 cm."""

_LOOKS = 3
"""Files of a skeleton that are read completely to find its direction of up, if it may not be Y."""

_BESIDE = 64
"""Most other files in the same folders, by name, that vote on a doubtful unit."""

_ADULT, _NEAREST = 1.7, 3
"""An adult's height in metres, and the number of units that are suggested if the chosen one gives no adults."""

_FAR_OFF = 0.5
"""Log of the ratio, 1.65, by which a body's height must be nearer to an adult's in another unit than the legs'."""

Pose = tuple[FileSource, Motion]


@dataclass(frozen=True)
class Body:
    """How the files of one skeleton are read."""

    skeleton: str  # Number of joints and the name of the root
    names: tuple[str, ...]  # Joint names
    parents: tuple[int, ...]  # Parent of each joint
    example: str  # One of the files
    files: int  # Number of files
    unit: str  # Their unit, a key of `UNITS`
    up: Axis  # The direction of up in them
    # Height of the smallest and of the tallest body, upright; None without legs known by name.
    height_m: tuple[float, float] | None
    doubt: str = ""  # Why the unit is doubtful; empty if it is not
    given: bool = False  # Whether the unit was given and not guessed
    beside: int = 0  # Number of other files in the same folders that voted on the unit
    why: str = ""  # Why that direction was taken, in brackets; empty if it is usual or was given

    @property
    def plausible(self) -> bool:
        """Whether the bodies are as tall as people; True if the height is unknown and the unit was given."""
        return not self.doubt and (self.height_m is None or all(map(is_plausible, self.height_m)))

    @property
    def sentence(self) -> str:
        """How the files are read, and the resulting height of the bodies."""
        how = f"read as {UNITS[self.unit].words}{' (--units)' if self.given else ''}, {in_words(self.up)}{self.why}"
        if self.beside:
            how += f", as the {count(self.beside, 'file')} of this skeleton beside"
        if self.height_m is None:
            return f"{how}: {self.doubt or 'no legs are known by name, so the height of the bodies is not known'}"
        tall = f"{how}: bodies are {_span(self.height_m)} tall"
        if self.plausible:
            return f"{tall}; --units to change"
        low, high = HEIGHT_RANGE
        units = ", ".join(f"{unit} {_span(heights)}" for unit, heights in self._other_units(self.height_m))
        return f"{tall} (adults: {low:.2f} to {high:.2f} m). Choose with --units: {units}"

    def _other_units(self, heights: tuple[float, float]) -> list[tuple[str, tuple[float, float]]]:
        """Return the other units with the heights that they give, those nearest to an adult's first."""
        low, high = heights
        scales = {name: unit.metres / UNITS[self.unit].metres for name, unit in UNITS.items() if name != self.unit}
        near = sorted(scales, key=lambda name: abs(math.log(scales[name] * math.sqrt(low * high) / _ADULT)))
        return [(name, (scales[name] * low, scales[name] * high)) for name in near[:_NEAREST]]

    def document(self) -> dict[str, object]:
        """Return it for JSON, lengths to the centimetre."""
        height = None if self.height_m is None else [round(metres, 2) for metres in self.height_m]
        rest = {name: value for name, value in vars(self).items() if name not in ("names", "parents", "example")}
        return {**rest, "height_m": height}


@one_thread()
def vote(sources: Sequence[FileSource]) -> tuple[tuple[FileSource, ...], tuple[Body, ...]]:
    """Decide unit and direction of up once for all BVH or GLB files of a skeleton; options that were given stay.

    Files are of one skeleton if they have the same format, the same names and parents of joints, rest poses along the
    same axis, and sizes within one unit (`_PEOPLE`). The unit follows from the median length of their legs, the axis
    from `_up`: neither depends on the order of the files. Files that cannot be read are skipped. If the bodies are not
    adults in that unit, the other files of the skeleton in their folders vote too (at most `_BESIDE`), so that a single
    file is read like its folder.

    Returns:
        The sources in their order, with the unit and the axis as options, and the skeletons, the most used first.
    """
    chosen: dict[str, FileSource] = {}
    bodies: list[Body] = []
    for poses in _skeletons(sources):
        reading = poses[0][0].options
        up = reading.up if reading.up != "auto" else _up(poses)
        body = _body(poses, up or "y")
        if reading.up == "auto" and up not in (None, "y", "z"):
            body = replace(body, why=f" (the trunk points along {up.upper()}; --up to change)")
        in_doubt = not _reader(poses[0][0]).prepare and reading.unit == "auto" and not body.plausible
        if in_doubt and (neighbours := _neighbours(poses, sources)):
            body = replace(_body(poses, up or "y", neighbours), why=body.why)
        bodies.append(body)
        options = replace(reading, unit=cast("Unit", body.unit), up=up or reading.up)
        chosen |= {source.key: replace(source, options=options) for source, _ in poses}
    table = sources[0].options.joint_map if sources else None
    if table is not None and bodies and not any(name.startswith(MAPPED) for body in bodies for name in body.names):
        raise MotionkitError(
            f"{table} names no joint of these files.",
            why=f"they have {', '.join(name for name in bodies[0].names if not name.endswith(END))}.",
        )
    bodies.sort(key=lambda body: (-body.files, body.example))
    return tuple(chosen.get(source.key, source) for source in sources), tuple(bodies)


def _body(poses: Sequence[Pose], up: Axis, neighbours: Sequence[Pose] = ()) -> Body:
    """Return how files of one skeleton are read; `neighbours` vote on the unit."""
    motions = [motion for _, motion in poses]
    first, options = motions[0], poses[0][0].options
    voters = sorted((motion for _, motion in (*poses, *neighbours)), key=_size)
    middle = voters[(len(voters) - 1) // 2]
    guess = (glb_unit(middle)[0], "") if _reader(poses[0][0]).metres else find_unit(middle)
    unit, doubt = (options.unit, "") if options.unit != "auto" else guess
    sizes = [body_height(pose.names, pose.parents, pose.positions()[0]) for pose in motions]
    if options.unit == "auto" and min(sizes) > 0:
        unit = _nearer(unit, math.sqrt(min(sizes) * max(sizes)))
    scale = UNITS[unit].metres
    heights = [scale * size for size in sizes]
    tall = (min(heights), max(heights)) if min(heights) > 0 else None
    joints = sum(not name.endswith(END) for name in first.names)
    rig = (
        f"{joints} joints from {first.names[0]}",
        first.names,
        first.parents,
        min(source.origin for source, _ in poses),
    )
    return Body(*rig, len(poses), unit, up, tall, doubt, options.unit != "auto", len(neighbours))


def _nearer(unit: str, size: float) -> str:
    """Return the unit by the legs, or the one that makes a body of `size` an adult if the legs' is far from that.

    The legs of an animal are short for its length.
    """

    def off(name: str) -> float:
        return abs(math.log(size * UNITS[name].metres / _ADULT))

    best = min(UNITS, key=off)
    return best if off(best) < off(unit) - _FAR_OFF else unit


def _neighbours(poses: Sequence[Pose], sources: Sequence[FileSource]) -> list[Pose]:
    """Return other files of the same skeleton and unit in the same folders."""
    known_paths = {source.path.resolve() for source in sources}
    paths: list[Path] = []
    for folder in sorted({source.path.parent for source, _ in poses}):
        with suppress(OSError):
            suffixes = FORMATS[poses[0][0].format].suffixes
            names = sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes and path.is_file())
            paths += [path for path in names if path.resolve() not in known_paths]
    neighbours = [replace(poses[0][0], path=path, key=str(path)) for path in paths[:_BESIDE]]
    keys = {source.key for source, _ in poses}
    for group in _skeletons([*(source for source, _ in poses), *neighbours]):
        if keys.intersection(source.key for source, _ in group):
            return [pose for pose in group if pose[0].key not in keys]
    return []


def skeleton_mark(names: Sequence[str], parents: Sequence[int]) -> str:
    """Return the id of a skeleton: number of joints and a hash of their names and parents, without end sites.

    Example:
        >>> skeleton_mark(["Hips", "Head", "Head End"], [-1, 0, 1]) == skeleton_mark(["Hips", "Head"], [-1, 0])
        True
    """
    above = [names[parent] if parent >= 0 else "" for parent in parents]
    joints = [pair for pair in zip(names, above, strict=True) if not pair[0].endswith(END)]
    return f"{len(joints)} #{hashlib.sha256(repr(joints).encode()).hexdigest()[:16]}"


def write_joint_map(path: Path, bodies: Sequence[Body]) -> str:
    """Write a table of joint names to fill in, for the most used skeleton with gaps, else for the most used one.

    Returns:
        A message for the user.

    Raises:
        MotionkitError: There is no skeleton, or the file cannot be written (exit code 1).
    """
    if not bodies:
        raise MotionkitError(
            "there is no skeleton to write a table of names for.", why="tables are for BVH and GLB files."
        )
    matches = [(body, find_roles(body.names, body.parents)) for body in bodies]
    body, roles = next((match for match in matches if _gaps(match[1])), matches[0])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(path, joint_map_text(body.names, roles, body.example).encode())
    except OSError as error:
        raise MotionkitError(f"{path} cannot be written: {error.strerror or error}.", code=1) from error
    gaps = _gaps(roles)
    left = f"fill in {', '.join(gaps)}" if gaps else "every joint was found by its name"
    return f"wrote {path} for the {body.skeleton} of {body.example}: {left}; then --joint-map {path}"


def _gaps(roles: Mapping[str, int]) -> list[str]:
    """Return the joints that were not found by name; the joint below an ankle is a toe."""
    return [joint for role, joint in BODY.items() if role not in roles and not role.endswith("toe")]


def _skeletons(sources: Iterable[FileSource]) -> Iterator[list[Pose]]:
    """Yield the files of each skeleton in the order of their sizes, with their first poses."""
    groups: dict[tuple[str, str, Axis], list[Pose]] = {}
    for source in sources:
        if not _reader(source).pose:
            continue
        try:
            motion = FORMATS[source.format].pose(source.path, source.options)
        except MotionkitError:
            continue  # its reader raises the same error
        key = source.format, skeleton_mark(motion.names, motion.parents), _stands(motion)
        groups.setdefault(key, []).append((source, motion))
    for poses in groups.values():
        yield from _of_one_unit(poses)


def _reader(source: FileSource) -> Reader:
    reader = FORMATS[source.format].reader
    assert reader is not None, "files of other formats are not found"
    return reader


def _of_one_unit(poses: list[Pose]) -> Iterator[list[Pose]]:
    """Yield the files in groups whose sizes differ by a unit."""
    sizes = {source.key: _size(motion) for source, motion in poses}
    poses.sort(key=lambda pose: (sizes[pose[0].key], pose[0].origin))
    start = 0
    for place in range(1, len(poses) + 1):
        if place == len(poses) or sizes[poses[place][0].key] > _PEOPLE * sizes[poses[place - 1][0].key]:
            yield poses[start:place]
            start = place


def _size(motion: Motion) -> float:
    return motion_leg(motion) or rest_extent(motion)


def _span(heights: tuple[float, float]) -> str:
    low, high = (f"{height:.2f}" for height in heights)
    return f"{low} m" if low == high else f"{low} to {high} m"


def _up(poses: Sequence[Pose]) -> Axis | None:
    """Return the axis of most files; None leaves each file to its reader.

    It is asked where the rest poses stand along Z, or where every first frame stands along one axis that is not Y: then
    `_LOOKS` files, spread over the group, are read completely. Else the readers take Y, and warn of a lying body.
    """
    along_z = _stands(poses[0][1]) == "z"
    first = {_first_up(motion) for _, motion in poses}
    if not along_z and (len(first) > 1 or first <= {"y", None}):
        return None
    sources = sorted((source for source, _ in poses), key=lambda source: source.origin)
    axes: Counter[str] = Counter()
    for source in sources[:: -(-len(sources) // _LOOKS)]:
        with suppress(MotionkitError):
            clips = FORMATS[source.format].read(source.path, replace(source.options, unit="m"))
            axes[clips[0].notes["up"]] += 1
    most = max(AXES, key=lambda axis: (axes[axis], axis == ("z" if along_z else "y")))
    return None if most == "y" and not along_z else most


def _stands(motion: Motion) -> Axis:
    """Return Z if the rest pose stands along it, another axis if the first frame does so too, else Y."""
    rest = rest_up(motion)
    return rest if rest is not None and rest in ("z", _first_up(motion)) else "y"


def _first_up(motion: Motion) -> Axis | None:
    """Return the axis along which the trunk points in the first frame."""
    trunk = trunk_of(motion.positions()[:1], motion.names, motion.parents)
    return None if trunk is None else axis_of(trunk[0])
