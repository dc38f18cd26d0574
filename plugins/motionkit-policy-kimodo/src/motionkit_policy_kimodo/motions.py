"""Kimodo's files of motions: its npz of SOMA, SMPL-X and the G1, and MuJoCo's qpos of the G1 as CSV.

Neither holds a frame rate; it is Kimodo's, 30, unless another is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats import Fit, WriteOptions
from motionkit.geometry import positions_from_bones
from motionkit.motion import HUMANML, Clip, Motion, ReadOptions
from motionkit.motion.motion import check_size
from motionkit.runs import write_arrays_atomic
from motionkit.weights import as_tensor, read_array
from motionkit_policy_kimodo import FPS, SHORTEST
from motionkit_policy_kimodo.qpos import from_qpos, projected, read_qpos, to_qpos, write_qpos
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.skeletons import Body, body, require_array, smplx_body, to_soma77

_BODIES = {30: "soma30", 77: "soma77", 34: "g1"}
_SAME = 0.005  # metres that bones may be off
_SEEN = 1e-4  # metres from which the way to hinges is said
_ROOT = ("root_positions", "smooth_root_pos", "global_root_heading")


def read_kimodo(path: Path, options: ReadOptions) -> Sequence[Clip]:
    """Read Kimodo's npz: one clip. The number of joints says the skeleton; bones of SMPL-X are those of the file.

    Contacts, smoothed path and heading become tracks of the motion, by their names in the file.
    """
    arrays = read_array(path)
    local = _array(arrays, "local_rot_mats", (-1, -1, 3, 3), path)
    frames, joints = local.shape[:2]
    posed = _array(arrays, "posed_joints", (frames, joints, 3), path)
    root = _array(arrays, "root_positions", (frames, 3), path)
    check_size(frames, joints)
    if joints not in (*_BODIES, len(HUMANML.parents)):
        raise MotionkitError(
            f"{path} has {joints} joints.",
            why="Kimodo's skeletons have 30 or 77 (SOMA), 34 (Unitree G1) and 22 (SMPL-X).",
        )
    if not float((local.mT @ local - torch.eye(3)).abs().max()) < 0.01:
        raise MotionkitError(f"{path}: local_rot_mats are not rotations.", fix="write it again.")
    made = body(_BODIES[joints]) if joints in _BODIES else _smplx(local, posed)
    off = float((made.joints(made.world(local), root) - posed).norm(dim=-1).max())
    if off > _SAME:
        raise MotionkitError(
            f"{path}: its joints are {100 * off:.1f} cm from where its rotations put those of {made.name}.",
            why="it is of another skeleton, or damaged.",
        )
    shapes = {"foot_contacts": (frames, -1), "smooth_root_pos": (frames, 3), "global_root_heading": (frames, 2)}
    tracks = {name: _array(arrays, name, shape, path) for name, shape in shapes.items() if name in arrays}
    if (contacts := tracks.get("foot_contacts")) is not None:
        if contacts.shape[1] != 4 and (contacts.shape[1] != 6 or made.name != "soma77"):
            raise MotionkitError(
                f"{path}: foot_contacts has {contacts.shape[1]} columns.", why="4 fit; 6 too, of SOMA's 77 joints."
            )
        tracks["foot_contacts"] = contacts > 0.5
    tracks["root_positions"] = root
    return (_clip(made.motion(local, root, options.fps or FPS, tracks), "Kimodo npz"),)


def _array(arrays: Any, name: str, shape: tuple[int, ...], path: Path) -> Tensor:
    """Return an array as float64; -1 in `shape` is any size above 0."""
    values = as_tensor(arrays.get(name)) if isinstance(arrays, Mapping) else None
    if values is None:
        raise MotionkitError(f"{path} has no {name}.", why="each npz of Kimodo has it.", fix="write it again.")
    return require_array(values, shape, f"{path}: {name}", "write it again.").double()


def _smplx(local: Tensor, posed: Tensor) -> Body:
    """Return the layout of SMPL-X's joints on the bones of a motion, their mean over its frames."""
    rest = smplx_body(torch.zeros(len(HUMANML.parents), 3))
    parents = list(rest.parents[1:])
    bones = rest.world(local)[:, parents].mT @ (posed[:, 1:] - posed[:, parents])[..., None]
    offsets = torch.cat([torch.zeros(1, 3).double(), bones.squeeze(-1).mean(0)])
    return smplx_body(positions_from_bones(offsets, rest.parents))


def _clip(motion: Motion, kind: str) -> Clip:
    return Clip(motion, notes={"format": kind, "unit": "m", "up": "y", "fps": f"{motion.fps:g}"})


def write_kimodo(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write Kimodo's npz of a motion of one of its skeletons; SOMA's 30 joints become 77, as in all of its files.

    Contacts are those of the motion; smoothed path and heading too, where its root is still where they were made.
    Others are found as Kimodo's features find them.
    """
    motion, made, local = of_kimodo(clips[0])
    tracks, root = motion.tracks, motion.translations[:, 0].float()
    contacts = tracks.get("foot_contacts")
    if made.name == "soma30":
        made, local = body("soma77"), to_soma77(local)
        contacts = None if contacts is None else contacts[:, [0, 1, 1, 2, 3, 3]]  # the end of a toe is as the toe
    local = local.float()
    rotations = made.world(local.double())
    joints = made.joints(rotations, root.double())
    representation = KimodoRepresentation(made, motion.fps)
    if contacts is None:
        contacts = representation.moving(joints)[1]
        contacts = contacts[:, [0, 1, 1, 3, 4, 4]] if made.name == "soma77" else contacts
    known = tracks.get(_ROOT[0])
    if known is not None and set(_ROOT) <= set(tracks) and float((known - root).abs().max()) < 1e-6:
        smooth, heading = tracks["smooth_root_pos"], tracks["global_root_heading"]
    else:
        features = representation.encode(rotations, root.double())
        smooth, heading = features[:, :3], features[:, 3:5]
    arrays = {
        "posed_joints": joints, "global_rot_mats": rotations, "local_rot_mats": local, "smooth_root_pos": smooth,
        "root_positions": root, "global_root_heading": heading,
    }  # fmt: skip
    numbers = {name: values.float().numpy() for name, values in arrays.items()}
    write_arrays_atomic(path, {"foot_contacts": contacts.numpy().astype(bool), **numbers})


def of_kimodo(clip: Clip, *, robot: bool = False) -> tuple[Motion, Body, Tensor]:
    """Return the motion of a clip, its skeleton, and its rotations from the parents, of the joints of the skeleton.

    Skeletons are known by the names of their joints; with `robot` it is the G1's, or the motion is refused.
    """
    motion, count = clip.motion, len(HUMANML.parents)
    known = ("g1",) if robot else _BODIES.values()
    found = next((one for one in map(body, known) if one.joint_names == motion.names), None)
    if not robot and isinstance(motion, Motion) and motion.names[:count] == HUMANML.joint_names:
        found = smplx_body(positions_from_bones(motion.offsets[:count], HUMANML.parents))
    if found is None or found.parents != motion.parents[: len(found)] or not isinstance(motion, Motion):
        raise MotionkitError(
            f"the motion has {len(motion.names)} joints, which by name are not those of "
            f"{'' if robot else 'SOMA, of the 22 of SMPL-X or of '}the Unitree G1.",
            fix="write another format: .bvh, .glb or .npz.",
        )
    if motion.frames < SHORTEST:
        raise MotionkitError(f"the motion has {motion.frames} frame.", why=f"{SHORTEST} are the fewest.")
    rotations, places = motion.rotations[:, : len(found)].double(), motion.translations[:, : len(found)].double()
    if not bool(rotations.isfinite().all() and places.isfinite().all()):
        raise MotionkitError("the motion has values that are no finite numbers.", fix="cut them off.")
    off = float((places[:, 1:] - found.offsets[1:]).abs().max())
    if off > _SAME:
        raise MotionkitError(
            f"bones of the motion are {100 * off:.1f} cm off those of {found.name}.",
            why="a file of Kimodo holds rotations alone.",
            fix="write another format: .bvh, .glb or .npz.",
        )
    return motion, found, rotations


def read_g1(path: Path, options: ReadOptions) -> Sequence[Clip]:
    """Read MuJoCo's qpos of the G1 as one clip."""
    local, root = from_qpos(read_qpos(path))
    return (_clip(body("g1").motion(local, root, options.fps or FPS), "G1 qpos"),)


def write_g1(path: Path, clips: Sequence[Clip], options: WriteOptions) -> Fit:
    """Write MuJoCo's qpos of a motion of the G1: each joint reduced to its hinge, and by how much that moved joints."""
    motion, made, local = of_kimodo(clips[0], robot=True)
    root = motion.translations[:, 0].double()
    write_qpos(path, to_qpos(local, root, exported=False))
    hinged, free = (made.joints(made.world(each), root) for each in (projected(local), local))
    off = (hinged - free).norm(dim=-1)
    mean, most = float(off.mean()), float(off.max())
    said = (
        f"on the robot's hinges its joints are up to {100 * most:.1f} cm from the motion's, "
        f"{100 * mean:.1f} cm on average: a joint of the motion turns freely, a hinge about one axis.",
    )
    return Fit({"hinges_mean": mean, "hinges_max": most}, warnings=said if most > _SEEN else ())
