"""Reading a GLB file: the skeleton among its nodes, and a motion for each of its animations, in metres and Y up."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from motionkit.formats.glb.container import Container, Floats, open_glb
from motionkit.geometry import bones_from_positions
from motionkit.motion.clip import Clip, JointMap, ReadOptions
from motionkit.motion.motion import END, RATES, Motion, check_size, finite_frames, is_fps, numbered
from motionkit.rigs.detect import PERSON_LEG, UNITS, find_unit, in_metres, motion_leg, nearest_unit
from motionkit.rigs.roles import find_roles

MAX_JOINTS = 1000
"""As in BVH files: rigs with faces and clothes have hundreds."""

MAX_DEPTH = 200
"""Most nodes above a joint."""

_DEFAULT_RATE = 30.0
_PLAIN = ReadOptions()


def read_glb(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip, ...]:
    """Read a GLB file: a clip for each animation that moves its skeleton.

    The skeleton consists of the joints of all skins and the nodes between them; without a skin, of the animated nodes
    if they are a body by their names. Nodes above the skeleton turn, move and scale it. Keys may be interpolated
    linearly, by steps or by cubic splines. The rest pose is given by the nodes in the file.

    Args:
        path: The file.
        options: Unit and direction of up, if the file does not follow glTF's metres and Y up; names of joints.

    Returns:
        The clips; `Clip.part` is the animation's name if there are several. A motion is in metres and Y up, at the
        rate of the densest keys. Scaled joints keep their places, frame by frame; rotations have no scale.

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
        if (channels := _channels(file, animation, {*tree.nodes, *tree.above}))
    ]
    if not animations:
        raise file.error(
            "there is no animation of its skeleton in it", why="it is a model.", fix="export it with an animation."
        )
    plans = [_frames(file, *animation) for animation in animations]
    check_size(sum(len(times) for times, _ in plans), len(tree.nodes))
    labels = _labels([animation for animation, _ in animations])
    clips = []
    for label, (_, channels), (times, fps) in zip(labels, animations, plans, strict=True):
        sampled = {place: _sample(channel, times, place[1]) for place, channel in channels.items()}
        poses = _poses(file, tree, sampled, len(times))
        clips.append(_clip(file, tree, (rest, poses), fps, options, label if len(animations) > 1 else ""))
    return tuple(clips)


def read_glb_pose(path: Path, options: ReadOptions = _PLAIN) -> Motion:
    """Read the skeleton and the first frame of the first animation, else the rest pose, in the file's unit and axes."""
    file = open_glb(path)
    tree = find_tree(file)
    rest = rest_poses(file, tree)
    poses = rest
    for animation in file.items("animations"):
        if channels := _channels(file, animation, {*tree.nodes, *tree.above}):
            start = np.array([min(float(channel.times[0]) for channel in channels.values())])
            sampled = {place: _sample(channel, start, place[1]) for place, channel in channels.items()}
            poses = _poses(file, tree, sampled, 1)
            break
    motion = to_motion(tree, rest, poses, _DEFAULT_RATE, options.joint_map)
    return motion if bool(finite_frames(motion.positions()).all()) else to_motion(tree, rest, rest, _DEFAULT_RATE, None)


def _frames(
    file: Container, animation: Mapping[str, Any], channels: Mapping[tuple[int, str], _Channel]
) -> tuple[Floats, float]:
    """Return the times of the frames and their rate."""
    fps = _rate(animation, channels)
    start = min(float(channel.times[0]) for channel in channels.values())
    stop = max(float(channel.times[-1]) for channel in channels.values())
    count = round_frames((stop - start) * fps)
    check_size(count, 1)
    return start + np.arange(count) / fps, fps


def round_frames(steps: float) -> int:
    """Return the number of frames of so many steps, with a tolerance for rounding."""
    return int(min(steps, 1e12) + 1e-3) + 1


def _labels(animations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return names of the animations, unique."""
    names: list[str] = []
    for number, animation in enumerate(animations):
        name = animation.get("name")
        plain = " ".join(name.split())[:60] if isinstance(name, str) else ""
        unique = plain or f"animation {number}"
        names.append(f"{unique} {number}" if unique in names else unique)
    return names


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


# Which nodes are the skeleton.

_BODY = ("left hip", "right hip", "left knee", "right knee")
"""Roles that the nodes of a file without a skin must have to be a body."""


@dataclass(frozen=True)
class Tree:
    """The nodes of a skeleton."""

    nodes: tuple[int, ...]  # Numbers of the J joints' nodes, each parent before its children
    parents: tuple[int, ...]  # Index of each joint's parent in `nodes`, -1 for the root
    names: tuple[str, ...]  # Names, unique
    above: tuple[int, ...]  # The nodes above the root, the outermost first
    warnings: tuple[str, ...]  # What was changed to make the names usable


def find_tree(file: Container) -> Tree:
    """Find the skeleton: joints of the skins and the nodes between them, or animated nodes that are a body by name."""
    parents, nodes = file.parents, file.items("nodes")
    skins = file.items("skins")
    groups = [file.indices(skin.get("joints"), len(nodes), "nodes") for skin in skins]
    if any(not group for group in groups):
        raise file.error("a skin has no joints")
    joints = {node for group in groups for node in group} if groups else _animated(file)
    if not joints:
        raise file.error(
            "there is no skeleton in it", why="it has no skin, and no node is animated.", fix="export the armature too."
        )
    if len(joints) > MAX_JOINTS:
        raise file.error(f"its skeleton has {len(joints)} joints; at most {MAX_JOINTS} are read")
    roots = {_common(parents, group) for group in groups} if groups else {_common(parents, sorted(joints))}
    tops = [root for root in roots if not any(top != root and _is_below(parents, root, top) for top in roots)]
    if len(tops) > 1 or tops[0] < 0:
        labels = ", ".join(_label(nodes, top) for top in sorted(tops) if top >= 0)
        several = f"it has {len(tops)} skeletons ({labels})" if len(tops) > 1 else "its joints have no root in common"
        raise file.error(several, why="one motion has one root.", fix="export one character for each file.")
    kept = _with_nodes_between(parents, joints, tops[0])
    if not skins:
        kept |= {node for node in _all_below(nodes, tops[0]) if not {"mesh", "camera"} & nodes[node].keys()}
    if len(kept) > MAX_JOINTS:
        raise file.error(f"its skeleton has {len(kept)} joints; at most {MAX_JOINTS} are read")
    order = _in_order(nodes, kept, tops[0])
    place = {node: number for number, node in enumerate(order)}
    own_parents = tuple(place.get(parents[node], -1) for node in order)
    names, warnings = _names([nodes[node].get("name") for node in order], own_parents)
    above = _above(parents, tops[0])
    if len(above) + _depth(own_parents) > MAX_DEPTH:
        raise file.error(f"its joints are nested deeper than {MAX_DEPTH}")
    if not skins and not all(role in find_roles(names, own_parents) for role in _BODY):
        raise file.error(
            "there is no skin in it, and its animated nodes are not a body by their names",
            why=f"they are {', '.join(names[:20])}.",
            fix="export the armature with a mesh that is bound to it.",
        )
    return Tree(tuple(order), own_parents, names, above, warnings)


def _animated(file: Container) -> set[int]:
    """Return the nodes with an animated transform."""
    return {node for animation in file.items("animations") for _, node, path in _targets(file, animation)}


def _above(parents: Sequence[int], node: int) -> tuple[int, ...]:
    above: list[int] = []
    while (node := parents[node]) >= 0:
        above.append(node)
    return tuple(above[::-1])


def _depth(parents: Sequence[int]) -> int:
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 1)
    return max(depths)


def _common(parents: Sequence[int], group: Sequence[int]) -> int:
    """Return the lowest common ancestor of a group (possibly one of them); -1 for none."""
    counts: dict[int, int] = {}
    way = (*_above(parents, group[0]), group[0])
    shared = set(way)
    for node in group:
        while node not in shared and node >= 0:  # up to the path of the first node
            node = parents[node]
        counts[node] = counts.get(node, 0) + 1
    met = 0
    for node in reversed(way):
        met += counts.get(node, 0)
        if met == len(group):
            return node
    return -1


def _is_below(parents: Sequence[int], node: int, top: int) -> bool:
    while node >= 0 and node != top:
        node = parents[node]
    return node >= 0 and node == top


def _with_nodes_between(parents: Sequence[int], joints: set[int], top: int) -> set[int]:
    kept = {top}
    for node in joints:
        while node not in kept:
            kept.add(node)
            node = parents[node]
    return kept


def _all_below(nodes: Sequence[Mapping[str, Any]], top: int) -> Iterator[int]:
    waiting = [top]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += nodes[node].get("children", [])


def _in_order(nodes: Sequence[Mapping[str, Any]], kept: set[int], top: int) -> list[int]:
    """Return the nodes, parents first, else in the order of the file."""
    waiting, order = [top], []
    while waiting:
        node = heapq.heappop(waiting)
        order.append(node)
        for child in nodes[node].get("children", []):
            if child in kept:
                heapq.heappush(waiting, child)
    return order


def _label(nodes: Sequence[Mapping[str, Any]], node: int) -> str:
    name = nodes[node].get("name")
    return name if isinstance(name, str) and name else f"node {node}"


def _names(labels: Sequence[object], parents: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return unique names, and warnings; an end site is a joint without children that is named after its parent."""
    names: list[str] = []
    warnings: list[str] = []
    doubles: dict[str, int] = {}
    used: set[str] = set()
    for joint, name in enumerate(labels):
        plain = " ".join(name.split()) if isinstance(name, str) else ""
        if plain.endswith(END) and (joint in parents or names[parents[joint]] + END != plain):
            plain = f"{plain.removesuffix(END)}_End"
        if not plain:
            plain = f"joint {joint}"
            warnings.append(f"joint {joint} has no name; it is called {plain!r}.")
        unique, number = plain, 2
        while unique in used:
            unique, number = f"{plain} {number}", number + 1
        if unique != plain:
            doubles[plain] = doubles.get(plain, 1) + 1
        used.add(unique)
        names.append(unique)
    return tuple(names), (*warnings, *([numbered(doubles)] if doubles else []))


# Transforms of the nodes: as the file has them, and over the time of an animation.

_PATHS = {"translation": 3, "rotation": 4, "scale": 3}

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
        numbers = file.numbers(entry[path], _PATHS[path], path) if path in entry else default
        return torch.tensor([numbers], dtype=torch.float64)

    quaternion = values("rotation", [0.0, 0.0, 0.0, 1.0])
    matrix = _matrix(quaternion) * values("scale", [1.0, 1.0, 1.0])[:, None, :]
    return matrix, values("translation", [0.0, 0.0, 0.0])


def _matrix(xyzw: Tensor) -> Tensor:
    """Return matrices of quaternions of any length; length 0 gives the identity."""
    import roma

    length = xyzw.norm(dim=-1, keepdim=True)
    unit = torch.where(length > 0, xyzw / length.clamp_min(1e-300), xyzw.new_tensor([0.0, 0.0, 0.0, 1.0]))
    matrix: Tensor = roma.unitquat_to_rotmat(torch.where(length.isfinite(), unit, torch.nan))
    return matrix


def _rotations(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rotations in ``[F, J, 3, 3]`` matrices, and ``[J]`` which joints have an uneven scale."""
    import roma

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
        turns[odd] = roma.special_procrustes(matrices[odd])
    uneven = finite & ~(right & (off <= _UNEVEN * mean))
    return torch.where(finite[..., None, None], turns, torch.nan), uneven.any(0)


# Keys of an animation, and their rate.

_ON_KEY = 1e-3
"""A sample is snapped to a key within this part of an interval: times are stored in single precision."""

_USUAL_RATES = (24, 25, 30, 60, 12, 15, 20, 48, 50, 72, 75, 90, 100, 120, 144, 180, 200, 240)
"""Frame rates that are tried for keys with gaps, the commonest first."""


def _targets(file: Container, animation: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], int, str]]:
    """Yield each channel of a node's transform with its node and path."""
    count = len(file.items("nodes"))
    for channel in _tables(file, animation, "channels"):
        target = channel.get("target")
        if not isinstance(target, dict):
            raise file.error("a channel of an animation has no target")
        path = target.get("path")
        if "node" in target and isinstance(path, str) and path in _PATHS:
            yield channel, file.index(target["node"], count, "nodes"), path


def _tables(file: Container, animation: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    entries = animation.get(name)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise file.error(f"the {name} of an animation are not a list of tables")
    return entries


@dataclass(frozen=True)
class _Channel:
    """Keys of one node."""

    times: Floats  # ``[K]`` seconds, rising
    keys: Floats  # ``[K, 3 or 4]``, or three times as many rows with tangents
    interpolation: str


def _channels(file: Container, animation: Mapping[str, Any], joints: set[int]) -> dict[tuple[int, str], _Channel]:
    """Return the channels that move the given nodes; the last one of a node and path counts."""
    samplers = _tables(file, animation, "samplers")
    chosen: dict[tuple[int, str], int] = {}
    for channel, node, path in _targets(file, animation):
        if node in joints:
            chosen[node, path] = file.index(channel.get("sampler"), len(samplers), "samplers")
    checked: dict[int, Floats] = {}
    by_target = {}
    for (node, path), number in chosen.items():
        sampler = samplers[number]
        times = file.array(sampler.get("input"), 1)[:, 0]
        if number not in checked:
            if not (np.isfinite(times).all() and (np.diff(times) > 0).all()):
                raise file.error("the times of an animation do not rise")
            checked[number] = times
        keys = file.array(sampler.get("output"), _PATHS[path])
        interpolation = sampler.get("interpolation", "LINEAR")
        if interpolation not in ("LINEAR", "STEP", "CUBICSPLINE"):
            raise file.error(f"keys are joined by {str(interpolation)[:40]!r}, which glTF does not have")
        rows = 3 * len(times) if interpolation == "CUBICSPLINE" else len(times)
        if len(keys) != rows:
            raise file.error(f"an animation has {len(times)} times and {len(keys)} keys, {rows} are needed")
        if "matrix" in file.items("nodes")[node]:
            raise file.error(f"node {node} is animated and has a matrix")
        by_target[node, path] = _Channel(times, keys, interpolation)
    return by_target


def _sample(channel: _Channel, times: Floats, path: str) -> Floats:
    """Return the values of a channel ``[F, 3 or 4]`` at times; outside of its keys it holds the first or last."""
    count = len(channel.times)
    after = np.clip(np.searchsorted(channel.times, times, side="right"), 1, max(count - 1, 1))
    before = after - 1
    after = np.minimum(after, count - 1)
    step = channel.times[after] - channel.times[before]
    part = np.where(step > 0, (times - channel.times[before]) / np.where(step > 0, step, 1.0), 0.0).clip(0.0, 1.0)
    part = np.where(part < _ON_KEY, 0.0, np.where(part > 1 - _ON_KEY, 1.0, part))[:, None]
    keys = channel.keys
    if channel.interpolation == "CUBICSPLINE":
        values = keys[1::3]
        leaving, arriving = keys[2::3][before] * step[:, None], keys[0::3][after] * step[:, None]
        square, cube = part**2, part**3
        start, end = 2 * cube - 3 * square + 1, 3 * square - 2 * cube
        joined: Floats = (
            start * values[before] + (cube - 2 * square + part) * leaving + end * values[after]
            + (cube - square) * arriving
        )  # fmt: skip
        return joined
    if channel.interpolation == "STEP":
        return np.where(part < 1.0, keys[before], keys[after])
    if path == "rotation":
        return _slerp(keys[before], keys[after], part)
    # A key that is not finite must not reach the frames on the other one.
    return np.where(
        part <= 0.0, keys[before], np.where(part >= 1.0, keys[after], (1 - part) * keys[before] + part * keys[after])
    )


def _slerp(start: Floats, end: Floats, part: Floats) -> Floats:
    """Interpolate quaternions along the shorter arc."""
    dot = (start * end).sum(-1, keepdims=True)
    end = np.where(dot < 0, -end, end)
    angle = np.arccos(np.abs(dot).clip(0.0, 1.0))
    sine = np.sin(angle)
    near = ~(sine > 1e-6)
    safe = np.where(near, 1.0, sine)
    first = np.where(near, 1 - part, np.sin((1 - part) * angle) / safe)
    second = np.where(near, part, np.sin(part * angle) / safe)
    return np.where(part <= 0.0, start, np.where(part >= 1.0, end, first * start + second * end))


def _rate(animation: Mapping[str, Any], channels: Mapping[tuple[int, str], _Channel]) -> float:
    """Return frames per second: the file's, else the rate of the keys, else 30."""
    extras = animation.get("extras")
    stated = extras.get("fps") if isinstance(extras, dict) else None
    if isinstance(stated, (int, float)) and not isinstance(stated, bool) and is_fps(float(stated)):
        return float(stated)
    fullest = max(channels.values(), key=lambda channel: len(channel.times)).times
    if len(fullest) < 2:
        return _DEFAULT_RATE
    span = float(fullest[-1] - fullest[0])
    rate = (len(fullest) - 1) / span
    even = fullest[0] + np.arange(len(fullest)) / rate
    if RATES[0] <= rate <= RATES[1] and float(np.abs(fullest - even).max()) * rate < 0.05:
        rounded = float(round(rate))
        return rounded if rounded and abs(rate - rounded) < 5e-4 * rate else rate
    for usual in _USUAL_RATES:
        places = (fullest - fullest[0]) * usual
        if float(np.abs(places - places.round()).max()) < 0.05:
            return float(usual)
    return _DEFAULT_RATE
