"""Reading a GLB file: a motion of its skeleton for each of its animations, in metres and Y up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from motionkit.formats.glb.container import Container, Floats, open_glb
from motionkit.formats.glb.keys import DEFAULT_RATE, PATHS, channels_of, counted_rate, frames_of, labels, sample
from motionkit.formats.glb.tree import Tree, find_tree
from motionkit.geometry import bones_from_positions, matrix_from_quaternion, nearest_rotation
from motionkit.motion.clip import Clip, JointMap, ReadOptions, choose_part
from motionkit.motion.motion import Motion, check_size, finite_frames
from motionkit.rigs.detect import PERSON_LEG, UNITS, find_unit, in_metres, motion_leg, nearest_unit

_PLAIN = ReadOptions()


def read_glb(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip, ...]:
    """Read a GLB file: a clip for each animation that moves its skeleton.

    The skeleton consists of the joints of all skins and the nodes between them; without a skin, of the animated nodes
    if they are a body by their names. Nodes above the skeleton turn, move and scale it. The rest pose is given by the
    nodes in the file. VRM models and animations (``.vrm``, ``.vrma``), which say which node is which bone, and
    ``.gltf`` files with their data inside are read too; the content decides, not the name.

    Linear keys that are evenly spaced, ten a second or more, are the frames. Other keys (cubic splines, steps, few or
    uneven ones) draw a curve, which is sampled at the lowest of 24, 25, 30 and 60 frames a second that has a frame on
    every key, else at 30.

    Args:
        path: The file.
        options: Unit and direction of up, if the file does not follow glTF's metres and Y up; names of joints; which
            animation; ``fps`` of keys that are frames (`motionkit.formats.rate.at_rate`).

    Returns:
        The clips; `Clip.part` is the animation's name. A motion is in metres and Y up. Scaled joints keep their places,
        frame by frame; rotations have no scale.

    Example:
        >>> from motionkit.formats.glb import write_glb
        >>> from motionkit.motion import HUMANML, JointMotion
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> joints = torch.from_numpy(walk.joints)
        >>> write_glb(Path("walk.glb"), JointMotion(HUMANML.joint_names, HUMANML.parents, joints, walk.fps))
        >>> (clip,) = read_glb(Path("walk.glb"))
        >>> clip.motion.frames, clip.motion.fps
        (40, 20.0)
    """
    file = open_glb(path)
    tree = find_tree(file)
    rest = rest_poses(file, tree)
    animations = [
        (animation, channels)
        for animation in file.items("animations")
        if (channels := channels_of(file, animation, {*tree.nodes, *tree.above}))
    ]
    if not animations:
        raise file.error(
            "there is no animation of its skeleton in it",
            why="it is a model.",
            fix="export it with an animation, or give it with --rig to move it.",
        )
    names = labels([animation for animation, _ in animations])
    if options.clip:
        chosen = choose_part(names, options.clip, str(path))
        names, animations = names[chosen : chosen + 1], animations[chosen : chosen + 1]
    if options.fps and not all(counted_rate(animation, list(keys.values())) for animation, keys in animations):
        raise file.error(
            f"--source-fps {options.fps:g} does not act on it",
            why="its keys draw curves over seconds, and are not frames.",
            fix="leave it out for this file; --fps is the rate to write.",
        )
    plans = [frames_of(file, *animation) for animation in animations]
    check_size(sum(len(times) for times, _ in plans), len(tree.nodes))
    clips = []
    for name, (_, channels), (times, fps) in zip(names, animations, plans, strict=True):
        sampled = {place: sample(channel, times, place[1]) for place, channel in channels.items()}
        poses = _poses(file, tree, sampled, len(times))
        clips.append(_clip(file, tree, (rest, poses), fps, options, name))
    return tuple(clips)


def read_glb_pose(path: Path, options: ReadOptions = _PLAIN) -> Motion:
    """Read the skeleton and the first frame of the first animation, else the rest pose, in the file's unit and axes."""
    file = open_glb(path)
    tree = find_tree(file)
    rest = rest_poses(file, tree)
    poses = rest
    for animation in file.items("animations"):
        if channels := channels_of(file, animation, {*tree.nodes, *tree.above}):
            start = np.array([min(float(channel.times[0]) for channel in channels.values())])
            sampled = {place: sample(channel, start, place[1]) for place, channel in channels.items()}
            poses = _poses(file, tree, sampled, 1)
            break
    motion = to_motion(tree, rest, poses, DEFAULT_RATE, options.joint_map)
    return motion if bool(finite_frames(motion.positions()).all()) else to_motion(tree, rest, rest, DEFAULT_RATE, None)


def to_motion(tree: Tree, rest: Poses, poses: Poses, fps: float, table: JointMap | None) -> Motion:
    """Return the motion of joints in the world; in its rest pose all rotations are the identity."""
    world = poses.turns @ rest.turns.mT
    index = [max(parent, 0) for parent in tree.parents]
    above = world[:, index]
    bones = bones_from_positions(poses.places, tree.parents)
    root = torch.tensor([parent < 0 for parent in tree.parents])
    local = torch.where(root[:, None, None], world, above.mT @ world)
    translations = torch.where(root[:, None], bones, (above.mT @ bones[..., None])[..., 0])
    offsets = bones_from_positions(rest.places, tree.parents)[0]
    names = tree.names if table is None else table.apply(tree.names)
    return Motion(names, tree.parents, offsets, local, translations, fps)


def glb_unit(motion: Motion) -> tuple[str, str]:
    """Return the unit of a motion from a GLB file, and a warning or an empty text.

    The format's unit is the metre; files in another one are recognised by the length of their legs.
    """
    leg = motion_leg(motion)
    unit = nearest_unit(leg, PERSON_LEG) if leg > 0 else "m"
    if unit == "m":
        return "m", ""
    guess = find_unit(motion)[1]
    return unit, guess or (
        f"its legs are {leg:.3g} m long in metres, which GLB files are in: {UNITS[unit].words} were taken, "
        "--units m to keep metres"
    )


def _clip(file: Container, tree: Tree, poses: tuple[Poses, Poses], fps: float, options: ReadOptions, part: str) -> Clip:
    """Return one animation as a clip in metres, Y up."""
    motion = to_motion(tree, *poses, fps, options.joint_map)
    finite = finite_frames(motion.translations) & finite_frames(motion.rotations)
    if not bool(finite.any()):
        raise file.error("no frame of its animation is finite")
    motion, notes, more = in_metres(motion, finite, options, glb_unit)
    warnings = [*tree.warnings, *more]
    if odd := [name for name, bad in zip(motion.names, poses[1].uneven.tolist(), strict=True) if bad]:
        warnings.append(
            f"{', '.join(odd[:5])}: scaled unevenly, mirrored or to nothing, so rotations are the nearest ones"
        )
    return Clip(motion, part=part, notes={"format": "GLB", **notes}, warnings=tuple(warnings))


# Transforms of the nodes: as the file has them, and over the time of an animation.

_AT_ONCE = 2048
"""Frames whose matrices are multiplied at once."""

_UNIFORM = 1e-5
"""Relative difference of the squared lengths of a joint's axes above which the nearest rotation is computed."""

_UNEVEN = 1e-3
"""Relative difference above which a scale is reported as uneven: below, it is rounding of the program that wrote the
file."""


@dataclass(frozen=True)
class Poses:
    """Joints of a skeleton in the world, over F frames."""

    turns: Tensor  # ``[F, J, 3, 3]`` float64 rotations
    places: Tensor  # ``[F, J, 3]`` positions in the file's unit
    uneven: Tensor  # ``[J]`` bool: joints that are mirrored, scaled unevenly along their axes, or to nothing


def rest_poses(file: Container, tree: Tree) -> Poses:
    """Return the joints with the nodes' transforms in the file, in a single frame."""
    return _poses(file, tree, {}, 1)


class RestFrames(NamedTuple):
    """The frames of reference of animated nodes."""

    above_turn: Tensor  # ``[3, 3]`` rotation of the node above the root
    above_place: Tensor  # ``[3]`` its place
    above_scale: float  # Its scale
    scales: Tensor  # ``[J]`` scale of each joint in the world


def rest_frames(file: Container, tree: Tree) -> RestFrames:
    """Return the reference frames of the skeleton in the file; of an uneven scale, the geometric mean."""
    still = slice(0, 1)
    above = torch.eye(3, dtype=torch.float64)[None], torch.zeros(1, 3, dtype=torch.float64)
    for node in tree.above:
        above = _below(above, _local(file, node, {}, still))
    world: list[tuple[Tensor, Tensor]] = []
    for node, parent in zip(tree.nodes, tree.parents, strict=True):
        world.append(_below(world[parent] if parent >= 0 else above, _local(file, node, {}, still)))
    scales = torch.cat([torch.linalg.det(matrix).abs() ** (1 / 3) for matrix, _ in world])
    scale = float(torch.linalg.det(above[0]).abs() ** (1 / 3))
    if not (scale > 0 and bool((scales > 0).all())):
        raise file.error("a joint is scaled to nothing")
    return RestFrames(_rotations(above[0][:, None])[0][0, 0], above[1][0], scale, scales)


def _poses(file: Container, tree: Tree, sampled: Mapping[tuple[int, str], Floats], frames: int) -> Poses:
    """Multiply the nodes' matrices down the tree.

    Args:
        file: The file.
        tree: Its skeleton.
        sampled: ``[F, 3 or 4]`` values of the nodes that are animated, by node and path.
        frames: F.
    """
    turns, places = [], []
    uneven = torch.zeros(len(tree.nodes), dtype=torch.bool)
    for start in range(0, frames, _AT_ONCE):
        part = slice(start, min(start + _AT_ONCE, frames))
        count = part.stop - part.start
        above = torch.eye(3, dtype=torch.float64).expand(count, 3, 3), torch.zeros(count, 3, dtype=torch.float64)
        for node in tree.above:
            above = _below(above, _local(file, node, sampled, part))
        world: list[tuple[Tensor, Tensor]] = []
        for node, parent in zip(tree.nodes, tree.parents, strict=True):
            world.append(_below(world[parent] if parent >= 0 else above, _local(file, node, sampled, part)))
        rigid, bad = _rotations(torch.stack([matrix for matrix, _ in world], dim=1))
        uneven |= bad
        turns.append(rigid)
        places.append(torch.stack([place for _, place in world], dim=1))
    return Poses(torch.cat(turns), torch.cat(places), uneven)


def _below(above: tuple[Tensor, Tensor], local: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    matrix, place = above
    return matrix @ local[0], place + (matrix @ local[1][..., None])[..., 0]


def _local(file: Container, node: int, sampled: Mapping[tuple[int, str], Floats], part: slice) -> tuple[Tensor, Tensor]:
    """Return matrix ``[F, 3, 3]`` or ``[1, 3, 3]`` and place of a node relative to its parent."""
    entry = file.items("nodes")[node]
    if "matrix" in entry:
        transform = torch.tensor(file.numbers(entry["matrix"], 16, "matrix"), dtype=torch.float64).view(1, 4, 4).mT
        return transform[:, :3, :3], transform[:, :3, 3]

    def values(path: str, default: list[float]) -> Tensor:
        if (node, path) in sampled:
            return torch.from_numpy(sampled[node, path][part])
        numbers = file.numbers(entry[path], PATHS[path], path) if path in entry else default
        return torch.tensor([numbers], dtype=torch.float64)

    quaternion = values("rotation", [0.0, 0.0, 0.0, 1.0])
    matrix = _matrix(quaternion) * values("scale", [1.0, 1.0, 1.0])[:, None, :]
    return matrix, values("translation", [0.0, 0.0, 0.0])


def _matrix(xyzw: Tensor) -> Tensor:
    """Return matrices of quaternions of any length; length 0 gives the identity."""
    length = xyzw.norm(dim=-1, keepdim=True)
    unit = torch.where(length > 0, xyzw / length.clamp_min(1e-300), xyzw.new_tensor([0.0, 0.0, 0.0, 1.0]))
    return matrix_from_quaternion(torch.where(length.isfinite(), unit, torch.nan)[..., [3, 0, 1, 2]])


def _rotations(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rotations in ``[F, J, 3, 3]`` matrices, and ``[J]`` which joints have an uneven scale."""
    squares = matrices.mT @ matrices
    mean = squares.diagonal(dim1=-2, dim2=-1).mean(-1)
    off = (squares - mean[..., None, None] * torch.eye(3, dtype=matrices.dtype)).abs().amax((-2, -1))
    finite = matrices.isfinite().all(-1).all(-1)
    right = (mean > 0) & (torch.linalg.det(torch.where(finite[..., None, None], matrices, 0)) > 0)
    plain = right & (off <= _UNIFORM * mean)
    turns = matrices / mean.sqrt().clamp_min(1e-300)[..., None, None]
    odd = finite & ~plain
    if bool(odd.any()):
        # The nearest rotation, in the least-squares sense.
        turns[odd] = nearest_rotation(matrices[odd])
    uneven = finite & ~(right & (off <= _UNEVEN * mean))
    return torch.where(finite[..., None, None], turns, torch.nan), uneven.any(0)
