"""Writing what the motion predictor trains on: an npz in Unreal's axes, the same byte by byte each time."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.mpl._conventions import UNREAL, Rot6d
from motionkit.formats.mpl._read_json import ACTIONS
from motionkit.formats.mpl._trajectory import SECONDS, angular_velocity, step_velocity, trajectory, unreal_yaw
from motionkit.motion._clip import Clip
from motionkit.motion._motion import END, Motion
from motionkit.rigs import find_feet, soft_contacts, soft_period
from motionkit.runs import write_bytes_atomic

SCHEMA = 1
"""Version of the layout; readers refuse a larger one."""

Arrays = dict[str, NDArray[np.generic]]


def mpl_arrays(clip: Clip, source_hash: str) -> Arrays:
    """Return the arrays of an MPL npz.

    Unreal's axes (x forward, y right, z up, left-handed), metres, radians, float32; N bones without end sites.

    * The guide's: ``rot6d [T, N, 6]`` (columns X and Y), ``angvel [T, N, 3]`` (rad/s in the parent's frame, from the
      frame before), ``root_yaw [T]``, ``root_vel [T, 2]`` (towards the next frame), ``soft_contacts [T, 2]``.
    * The skeleton: ``bone_names``, ``parents``, ``offsets [N, 3]``, ``FPS``, and ``root_pos [T, 3]``: root bone in the
      world = Rz(root_yaw) (rot6d of bone 0), at root_pos + Rz(root_yaw) offsets[0]. For a clip from Unreal yaw and
      place are the component's; for any other yaw is where the body faces, place is the root bone, and offsets[0] 0.
    * State and condition: ``X_flat [T, 6 + 9 N]`` = position 3 | velocity 2 | yaw 1 | rotations 6 N | angular
      velocities 3 N; ``x_in_features`` its first T - 1 rows; ``y_out_features [T - 1, 6 N]`` the next frame's
      rotations; ``cond_in [T - 1, 7]`` = action one-hot 4 (all 0: unknown) | direction of velocity 2 | speed 1.
    * Further: ``bone_pos``, ``bone_vel [T, N, 3]`` (seen from root position and yaw), ``heading [T]`` (where the body
      faces), ``traj_pos``, ``traj_dir [T, 2 K]`` (seen from the body, see `trajectory`), ``soft_period [T, 4]`` with
      ``soft_period_confidence [T, 2]`` (`soft_period`, edges), layouts and ``meta_json`` as JSON text,
      ``schema_version``, ``source_sha256``.
    * What else a motion can have, so that it comes back whole: ``track_*``, ``local_translations`` of moving joints,
      ``end_names``, ``end_parents``, ``end_offsets`` of end sites.

    Raises:
        MotionkitError: The motion has no rotations, no frames, or values that are not finite.
    """
    motion = clip.motion
    if not isinstance(motion, Motion):
        raise MotionkitError(
            "an MPL npz holds rotations, and this motion has joint positions only.",
            fix="find rotations first: motionkit.rigs.solve(motion).",
        )
    if not motion.frames or not (motion.rotations.isfinite().all() and motion.translations.isfinite().all()):
        raise MotionkitError("the motion has no frames, or values that are not finite.")
    bones = [joint for joint, name in enumerate(motion.names) if joint == 0 or not name.endswith(END)]
    place = {joint: bone for bone, joint in enumerate(bones)}
    names = [motion.names[joint] for joint in bones]
    parents = [place.get(motion.parents[joint], -1) for joint in bones]
    if -1 in parents[1:]:
        raise MotionkitError(f"bone {names[parents.index(-1, 1)]} hangs below an end site.")

    world = UNREAL.points_back(motion.positions())
    facing = unreal_yaw(motion)
    yaw = motion.tracks.get("root_yaw", facing).double()
    turn = UNREAL.yaw(yaw)
    # The root bone is stored relative to the component, which stands at `position` and is turned by `yaw`.
    local = UNREAL.turns_back(motion.rotations[:, bones])
    local[:, 0] = turn.transpose(-1, -2) @ local[:, 0]
    offsets = UNREAL.points_back(motion.offsets[bones])
    if "root_yaw" not in motion.tracks:
        offsets[0] = 0.0
    position = world[:, 0] - turn @ offsets[0]  # [T, 3]
    velocity = step_velocity(position[:, :2], motion.fps)
    velocity = motion.tracks.get("root_velocity", velocity).double()
    six, spin = Rot6d().numbers(local), angular_velocity(local, motion.fps)
    contacts, origin = _contacts(motion)
    period, confidence = soft_period(contacts)
    there, towards = trajectory(position[:, :2], velocity, facing, motion.fps)
    seen = (world[:, bones] - position[:, None]) @ turn  # row vectors: x R is R^T x
    moved = step_velocity(world[:, bones].flatten(1), motion.fps).unflatten(-1, (-1, 3)) @ turn
    state = torch.cat([position, velocity, yaw[:, None], six.flatten(1), spin.flatten(1)], dim=-1)
    tensors = {
        "rot6d": six,
        "angvel": spin,
        "root_yaw": yaw,
        "root_vel": velocity,
        "soft_contacts": contacts,
        "root_pos": position,
        "offsets": offsets,
        "heading": facing,
        "X_flat": state,
        "x_in_features": state[:-1],
        "y_out_features": six[1:].flatten(1),
        "cond_in": torch.cat([_action(motion), _command(velocity)], dim=-1)[:-1],
        "bone_pos": seen,
        "bone_vel": moved,
        "traj_pos": there.flatten(1),
        "traj_dir": towards.flatten(1),
        "soft_period": period,
        "soft_period_confidence": confidence,
        **_extras(motion, bones),
        **{f"track_{name}": values for name, values in motion.tracks.items() if name != "contacts"},
    }
    arrays: Arrays = {name: _stored(values) for name, values in tensors.items()}
    arrays["FPS"] = np.array(motion.fps)
    arrays["bone_names"] = np.array(names)
    arrays["parents"] = np.array(parents, dtype=np.int32)
    if ends := [joint for joint in range(len(motion.names)) if joint not in place]:
        arrays["end_names"] = np.array([motion.names[joint] for joint in ends])
        arrays["end_parents"] = np.array([place[motion.parents[joint]] for joint in ends], dtype=np.int32)
    sizes = {
        "RootPosition": 3,
        "RootVelocity": 2,
        "RootYaw": 1,
        "BoneRotations6D": 6 * len(bones),
        "BoneAngularVelocities": 3 * len(bones),
    }
    skeleton = {"bone_names": names, "parents": parents, "ref_local_offsets_m": arrays["offsets"].tolist()}
    texts = {
        "state_layout_json": _json(_layout(sizes)),
        "output_layout_json": _json(_layout({"BoneRotations6D": 6 * len(bones)})),
        "meta_json": _json({**_META, "skeleton": skeleton, "soft_contacts": origin, "clip": _about(clip)}),
        "source_sha256": source_hash,
    }
    arrays |= {name: np.array(text) for name, text in texts.items()}
    arrays["schema_version"] = np.array(SCHEMA, dtype=np.int32)
    return arrays


_META: Mapping[str, object] = {
    "version": f"motionkit-mpl/{SCHEMA}",
    "units": "meters",
    "handedness": "left",
    "axes": {"x": "forward", "y": "right", "z": "up"},
    "spaces": {
        "bone_rotations": "local_6d",
        "bone_angular_velocities": "local_rad_per_sec",
        "bone_positions": "root_position_and_yaw",
        "root_motion": "component",
        "root_velocity_axes": "xy",
        "trajectory": "character_facing",
    },
    "root_motion": {"root_yaw_units": "radians"},
    "rot6d_spec": {
        "columns": ["X", "Y"],
        "order": "A_then_B",
        "matrix_layout": "columns_are_axes",
        "handedness": "left",
    },
    "trajectory": {"seconds": list(SECONDS), "frame": "character_facing", "edge_policy": "squeeze_to_bounds"},
    "actions": list(ACTIONS),
}


def _contacts(motion: Motion) -> tuple[Tensor, str]:
    """Return contacts and their origin: ``clip`` (its own track), ``synthesised``, or ``unknown`` (0.5 everywhere)."""
    if "contacts" in motion.tracks:
        return motion.tracks["contacts"].double(), "clip"
    feet = find_feet(motion.names, motion.parents)
    positions = motion.positions()
    if feet is None or float((positions - positions[:, :1]).abs().max()) == 0.0:
        return torch.full((motion.frames, 2), 0.5, dtype=torch.float64), "unknown"
    return soft_contacts(positions, motion.fps, feet), "synthesised"


def _action(motion: Motion) -> Tensor:
    action = motion.tracks.get("action")
    if action is None or action.ndim != 2 or action.shape[1] != len(ACTIONS):
        return torch.zeros(motion.frames, len(ACTIONS), dtype=torch.float64)
    return action.double()


def _command(velocity: Tensor) -> Tensor:
    """Return direction (0 where nothing moves) and speed, ``[T, 3]``."""
    speed = velocity.norm(dim=-1, keepdim=True)
    return torch.cat([velocity / speed.clamp_min(1e-6), speed], dim=-1)


def _extras(motion: Motion, bones: list[int]) -> dict[str, Tensor]:
    """Return what few motions have: joints that move in their parents, end sites."""
    extras = {}
    moving = motion.translations[:, bones[1:]] - motion.offsets[bones[1:]]
    if moving.numel() and float(moving.abs().max()) > 1e-6:
        extras["local_translations"] = UNREAL.points_back(motion.translations[:, bones])
    if ends := sorted(set(range(len(motion.names))) - set(bones)):
        extras["end_offsets"] = UNREAL.points_back(motion.offsets[ends])
    return extras


def _stored(values: Tensor) -> NDArray[np.generic]:
    array = values.detach().cpu().numpy()
    if array.dtype.kind == "f":
        array = array.astype(np.float32)
    return np.ascontiguousarray(array)


def _layout(sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    layout, start = {}, 0
    for name, size in sizes.items():
        layout[name] = {"start": start, "size": size}
        start += size
    return layout


def _about(clip: Clip) -> dict[str, object]:
    """Return captions, split, group and notes of a clip, without empty ones."""
    timed = [[caption.text, caption.start, caption.end] for caption in clip.timed]
    about = {
        "captions": [caption.text for caption in clip.captions],
        "timed": timed,
        "split": clip.split,
        "group": clip.group,
        "notes": dict(clip.notes),
    }
    return {name: value for name, value in about.items() if value}


def _json(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))


def write_mpl_npz(path: Path, clip: Clip, *, source_hash: str) -> None:
    """Write a clip for the motion predictor.

    The file needs nothing else to be used: no pickle, no path, the skeleton inside; `mpl_arrays` lists what it holds.
    The same clip gives the same bytes. It appears under its name when it is complete.

    Args:
        path: The .npz file; an older one is replaced.
        clip: A clip whose motion is a `Motion`, from any format.
        source_hash: SHA-256 of what the clip was read from, for the record; may be empty.

    Raises:
        MotionkitError: The motion has joint positions only, or values that are not finite.
        OSError: The disk is full or refuses.

    Example:
        >>> from motionkit.motion import HUMANML, JointMotion
        >>> from motionkit.rigs import solve
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> motion = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> write_mpl_npz(Path("walk.npz"), Clip(solve(motion).motion), source_hash="")
        >>> with np.load(Path("walk.npz")) as arrays:
        ...     arrays["rot6d"].shape, arrays["soft_contacts"].shape
        ((40, 22, 6), (40, 2))
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in mpl_arrays(clip, source_hash).items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system, member.external_attr = 3, 0o644 << 16
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(member, content.getvalue())
    write_bytes_atomic(path, buffer.getvalue())
