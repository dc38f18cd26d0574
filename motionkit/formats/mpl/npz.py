"""The motion predictor's npz, written and read; the guide's five arrays and the original's files are read as well."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit import weights
from motionkit.documents import parse_json
from motionkit.errors import MotionkitError
from motionkit.formats.mpl.build import build
from motionkit.formats.mpl.conventions import UNREAL, Rot6d
from motionkit.formats.mpl.fields import Fields
from motionkit.formats.mpl.read_json import ACTIONS
from motionkit.geometry import matrix_to_rotvec, unwrap
from motionkit.motion.clip import Clip, ReadOptions
from motionkit.motion.corpus.captions import Caption
from motionkit.motion.corpus.ids import read_split
from motionkit.motion.motion import END, Motion, check_size, finite_warning, mark_missing
from motionkit.page.wording import count
from motionkit.rigs import body_yaw, find_feet, soft_contacts, soft_period
from motionkit.runs import write_bytes_atomic
from motionkit.weights import read_array

SCHEMA = 1
"""Version of the layout; readers refuse a larger one."""

LIMIT = 2 << 30
"""Bytes that the known arrays of an npz may unpack to: four hours of 46 bones at 60 frames per second."""

SECONDS = (-0.3, -0.15, 0.0, 0.15, 0.3)
"""Times of the trajectory window around a frame."""

_STANDING = 0.1
"""m/s below which a body stands and its direction is the one it faces."""

Arrays = dict[str, NDArray[np.generic]]

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


def write_mpl_npz(path: Path, clip: Clip, *, source_hash: str) -> None:
    """Write a clip for the motion predictor.

    The file is self-contained: no pickle, no path, the skeleton inside; `mpl_arrays` lists its arrays. The same clip
    gives the same bytes. The file is written atomically.

    Args:
        path: The .npz file; an older one is replaced.
        clip: A clip whose motion is a `Motion`, from any format.
        source_hash: SHA-256 of the clip's source, for the record; may be empty.

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


def mpl_arrays(clip: Clip, source_hash: str) -> Arrays:
    """Return the arrays of an MPL npz.

    Unreal's axes (x forward, y right, z up, left-handed), metres, radians, float32; N bones without end sites.

    * The guide's: ``rot6d [T, N, 6]`` (columns X and Y), ``angvel [T, N, 3]`` (rad/s in the parent's frame, from the
      frame before), ``root_yaw [T]``, ``root_vel [T, 2]`` (towards the next frame), ``soft_contacts [T, 2]``.
    * The skeleton: ``bone_names``, ``parents``, ``offsets [N, 3]``, ``FPS``, and ``root_pos [T, 3]``: root bone in the
      world = Rz(root_yaw) (rot6d of bone 0), at root_pos + Rz(root_yaw) offsets[0]. For a clip from Unreal yaw and
      place are the component's; for any other, yaw is the body's, place is the root bone's, and offsets[0] is 0.
    * State and condition: ``X_flat [T, 6 + 9 N]`` = position 3 | velocity 2 | yaw 1 | rotations 6 N | angular
      velocities 3 N; ``x_in_features`` its first T - 1 rows; ``y_out_features [T - 1, 6 N]`` the next frame's
      rotations; ``cond_in [T - 1, 7]`` = action one-hot 4 (all 0: unknown) | direction of velocity 2 | speed 1.
    * Further: ``bone_pos``, ``bone_vel [T, N, 3]`` (relative to root position and yaw), ``heading [T]`` (the body's),
      ``traj_pos``, ``traj_dir [T, 2 K]`` (relative to the body, see `trajectory`), ``soft_period [T, 4]`` with
      ``soft_period_confidence [T, 2]`` (`soft_period`, edges), layouts and ``meta_json`` as JSON text,
      ``schema_version``, ``source_sha256``.
    * For a lossless round trip: ``track_*``, ``local_translations`` of moving joints, ``end_names``, ``end_parents``,
      ``end_offsets`` of end sites.
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
    contacts, origin = _contact_columns(motion)
    period, confidence = soft_period(contacts)
    ahead, towards = trajectory(position[:, :2], velocity, facing, motion.fps)
    relative = (world[:, bones] - position[:, None]) @ turn  # row vectors: x R is R^T x
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
        "cond_in": torch.cat([_action_text(motion), _command(velocity)], dim=-1)[:-1],
        "bone_pos": relative,
        "bone_vel": moved,
        "traj_pos": ahead.flatten(1),
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


def _contact_columns(motion: Motion) -> tuple[Tensor, str]:
    """Return contacts and their origin: ``clip`` (its own track), ``synthesised``, or ``unknown`` (0.5 everywhere)."""
    if "contacts" in motion.tracks:
        return motion.tracks["contacts"].double(), "clip"
    feet = find_feet(motion.names, motion.parents)
    positions = motion.positions()
    if feet is None or float((positions - positions[:, :1]).abs().max()) == 0.0:
        return torch.full((motion.frames, 2), 0.5, dtype=torch.float64), "unknown"
    return soft_contacts(positions, motion.fps, feet), "synthesised"


def _action_text(motion: Motion) -> Tensor:
    action = motion.tracks.get("action")
    if action is None or action.ndim != 2 or action.shape[1] != len(ACTIONS):
        return torch.zeros(motion.frames, len(ACTIONS), dtype=torch.float64)
    return action.double()


def _command(velocity: Tensor) -> Tensor:
    """Return direction (0 at rest) and speed, ``[T, 3]``."""
    speed = velocity.norm(dim=-1, keepdim=True)
    return torch.cat([velocity / speed.clamp_min(1e-6), speed], dim=-1)


def _extras(motion: Motion, bones: list[int]) -> dict[str, Tensor]:
    """Return arrays that few motions need: translations of moving joints, end sites."""
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
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
    return text.encode(errors="replace").decode()  # what is no text becomes a question mark, as in `write_native`


def unreal_yaw(motion: Motion) -> Tensor:
    """Return the body's yaw ``[T]`` about Unreal's z axis, 0 along x, in radians, unwrapped."""
    yaw = body_yaw(motion)
    assert yaw is not None  # a Motion has rotations, which give a yaw if names do not
    forward = torch.stack([yaw.sin(), torch.zeros_like(yaw), yaw.cos()], dim=-1)
    return unwrap(UNREAL.angle(UNREAL.points_back(forward)))


def trajectory(position: Tensor, velocity: Tensor, yaw: Tensor, fps: float) -> tuple[Tensor, Tensor]:
    """Return a body's past and future places around each frame, in its own frame of reference.

    Args:
        position: ``[T, 2]`` metres on the ground.
        velocity: ``[T, 2]`` m/s.
        yaw: ``[T]`` radians that the body faces.
        fps: Frames per second.

    Returns:
        Places and directions ``[T, K, 2]`` (forward, right) at `SECONDS` around each frame, times clamped to the clip.
        A direction is that of travel; for a standing body, the one it faces.
    """
    frames = len(position)
    # [T, K] fractional frames: values are interpolated between the frames before and after.
    place = torch.arange(frames)[:, None] + torch.tensor(SECONDS, dtype=torch.float64) * fps
    place = place.clamp(0, frames - 1)
    before = place.floor().long()
    after, part = (before + 1).clamp_max(frames - 1), (place - before)[..., None]
    facing = torch.stack([yaw.cos(), yaw.sin()], dim=-1)
    speed = velocity.norm(dim=-1, keepdim=True)
    direction = torch.where(speed > _STANDING, velocity / speed.clamp_min(1e-9), facing)
    offset = torch.lerp(position[before], position[after], part) - position[:, None]
    towards = torch.nn.functional.normalize(torch.lerp(direction[before], direction[after], part), dim=-1)
    return _seen_from(offset, facing), _seen_from(towards, facing)


def step_velocity(position: Tensor, fps: float) -> Tensor:
    """Return ``[T, D]`` m/s towards the next frame, the last one repeated: the root velocity of exporters."""
    if len(position) < 2:
        return torch.zeros_like(position)
    steps = position.diff(dim=0) * fps
    return torch.cat([steps, steps[-1:]])


def _seen_from(vectors: Tensor, facing: Tensor) -> Tensor:
    """Turn ``[T, K, 2]`` from the ground's axes to (forward, right) of ``[T, 2]`` facing directions."""
    x, y = vectors.unbind(-1)
    cos, sin = facing[:, None].unbind(-1)
    return torch.stack([x * cos + y * sin, y * cos - x * sin], dim=-1)


def angular_velocity(rotations: Tensor, fps: float) -> Tensor:
    """Return ``[T, ..., 3]`` rad/s in the parent's frame: ``log(R_t R_{t-1}^T) fps``, frame 0 as frame 1.

    Only frames up to t are used. It has the full angle (the predictor's original had half).
    """
    if len(rotations) < 2:
        return rotations.new_zeros(*rotations.shape[:-2], 3)
    steps = matrix_to_rotvec(rotations[1:] @ rotations[:-1].transpose(-1, -2)) * fps
    return torch.cat([steps[:1], steps])


# Reading.

_FIELDS = {
    "BoneRotations": ("rot6d", "bone_rot6d"),
    "RootYaw": ("root_yaw",),
    "RootVelocityXY": ("root_vel",),
    "RootPosition": ("root_pos",),
    "BonePositions": ("bone_pos",),
    "SoftContacts": ("soft_contacts",),
    "LocalTranslations": ("local_translations",),
}
"""Field to the arrays that may hold it."""

_SINGLE = {
    "FPS", "fps", "bone_names", "parents", "offsets", "end_names", "end_parents", "end_offsets", "cond_in", "meta_json",
    "schema_version", "source_sha256",
}  # fmt: skip
_PLAIN = ReadOptions()
_USUAL_FPS = 60.0
"""Exporters' frame rate, for files with only the guide's five arrays."""


def read_mpl_npz(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip]:
    """Read an npz of the motion predictor.

    Three kinds are read: files of `write_mpl_npz`, without loss (to float32); the guide's five arrays
    ``rot6d, angvel, root_yaw, root_vel, soft_contacts``, whose skeleton is in the same folder (FullHierarchy.json,
    FullOffsets.json) or unknown; and files of the original's converter, whose ``source_json``, a path, is never opened:
    contacts are computed from the motion. ``meta_json`` names the columns of the 6D rotations.

    Args:
        path: The file.
        options: `rot6d_columns`, `hierarchy`, `offsets`, and `fps` for a file without.

    Returns:
        One clip; tracks, and frames that are not finite, as `read_mpl_json` gives them.

    Example:
        >>> six = np.tile(np.float32([1, 0, 0, 0, 1, 0]), (30, 22, 1))
        >>> np.savez("walk.npz", rot6d=six, root_yaw=np.zeros(30), root_vel=np.zeros((30, 2)), FPS=30.0)
        >>> (clip,) = read_mpl_npz(Path("walk.npz"))
        >>> clip.motion.frames, clip.motion.fps
        (30, 30.0)
    """
    path = Path(path)
    fields = _open(path)
    is_ours = "schema_version" in fields.arrays
    if is_ours and (version := fields.arrays["schema_version"]).tolist() not in range(SCHEMA + 1):
        raise MotionkitError(
            f"{path} has schema version {version}; this motionkit reads up to {SCHEMA}.", fix="update motionkit."
        )
    warnings: list[str] = []
    if "FPS" not in fields.head and options.fps <= 0:
        fields.head = {"FPS": _USUAL_FPS}
        warnings.append(f"the file does not say its frames per second; {_USUAL_FPS:g} were taken (--source-fps).")
    built = build(fields, path, options, trusted=is_ours)
    warnings += built.warnings
    motion = built.motion
    if is_ours:
        motion = replace(_whole(motion, fields), tracks=_tracks(fields))
    elif (action := _action(fields)) is not None:
        motion = replace(motion, tracks={**motion.tracks, "action": action})
    contacts, more = _contacts(fields, motion, known=built.known)
    warnings += [*more, *finite_warning(fields.finite)]
    if contacts is not None:
        motion = replace(motion, tracks={**motion.tracks, "contacts": contacts})
    motion = mark_missing(motion, fields.finite)
    kind = "MPL npz" if is_ours or "FPS" not in fields.arrays else "MPL npz of the original converter"
    notes = {"format": kind, **built.notes}
    if digest := _text_of(fields.arrays, "source_sha256"):
        notes["source sha256"] = digest
    about = fields.meta.get("clip") if is_ours else None
    return (_with_texts(Clip(motion, notes=notes, warnings=tuple(warnings)), about),)


def _contacts(fields: Fields, motion: Motion, *, known: bool) -> tuple[Tensor | None, list[str]]:
    if fields.has("SoftContacts") and fields.meta.get("soft_contacts") != "unknown":
        stored = fields.numbers("SoftContacts", 2)
        outside = int(((stored < 0) | (stored > 1)).sum())
        warning = f"{count(outside, 'foot contact score')} outside 0 to 1, brought to the nearer end."
        return stored.clamp(0.0, 1.0), [warning] if outside else []
    feet = find_feet(motion.names, motion.parents) if known else None
    if feet is None:
        return None, ["there are no foot contacts, and no feet to compute them from."]
    made = soft_contacts(motion.positions(), motion.fps, feet)
    return made, ["there are no foot contacts; they come from height and speed."]


def _action(fields: ArrayFields) -> Tensor | None:
    """Return the action, which is in the first columns of the original's condition."""
    stored = np.asarray(fields.arrays.get("cond_in", ()))
    if stored.ndim != 2 or stored.shape[1] < len(ACTIONS) or len(stored) not in (fields.frames, fields.frames - 1):
        return None
    action = _as_tensor(stored[:, : len(ACTIONS)])
    if not len(action) or not bool(action.any()):
        return None
    action = fields.fill(torch.cat([action, action[-1:]])[: fields.frames], "cond_in")
    return action.long() if bool((action == action.round()).all()) else action


def _tracks(fields: ArrayFields) -> dict[str, Tensor]:
    tracks = {}
    for stored, array in fields.arrays.items():
        if not stored.startswith("track_"):
            continue
        array = np.asarray(array)
        if array.dtype.kind not in "fiub" or not array.ndim or len(array) != fields.frames:
            raise MotionkitError(f"{fields.origin}: {stored} is not one row of numbers per frame.")
        values = fields.fill(_as_tensor(array), stored)
        kind = torch.bool if array.dtype.kind == "b" else torch.int64
        tracks[stored.removeprefix("track_")] = values if array.dtype.kind == "f" else values.to(kind)
    return tracks


def _whole(motion: Motion, fields: ArrayFields) -> Motion:
    """Add translations of moving joints, and end sites."""
    translations = motion.translations
    if fields.has("LocalTranslations"):
        moved = UNREAL.points(fields.numbers("LocalTranslations", len(motion.names), 3))
        translations = torch.cat([translations[:, :1], moved[:, 1:]], dim=1)
    names = np.asarray(fields.arrays.get("end_names", ()))
    parents = np.asarray(fields.arrays.get("end_parents", ()))
    if not names.size and not parents.size:
        return replace(motion, translations=translations)
    places = np.asarray(fields.arrays.get("end_offsets", ()))
    count, bones = names.size, len(motion.names)
    fits = names.shape == parents.shape == (count,) and places.shape == (count, 3) and parents.dtype.kind in "iu"
    fits = fits and places.dtype.kind in "fiu" and bool(np.isfinite(places).all())
    if not fits or names.dtype.kind != "U" or parents.min() < 0 or parents.max() >= bones:
        raise MotionkitError(f"{fields.origin}: end_names, end_parents and end_offsets do not belong together.")
    offsets = UNREAL.points(_as_tensor(places))
    eye = torch.eye(3, dtype=torch.float64).expand(motion.frames, count, 3, 3)
    return Motion(
        (*motion.names, *names.tolist()),
        (*motion.parents, *parents.tolist()),
        torch.cat([motion.offsets, offsets]),
        torch.cat([motion.rotations, eye], dim=1),
        torch.cat([translations, offsets.expand(motion.frames, count, 3)], dim=1),
        motion.fps,
        motion.tracks,
    )


def _with_texts(clip: Clip, about: object) -> Clip:
    """Add captions, split and group that `write_mpl_npz` stored; anything else is ignored."""
    if not isinstance(about, Mapping):
        return clip
    captions = about.get("captions")
    timed = []
    for row in about.get("timed") or ():
        match row:
            case [str(text), int() | float() as start, int() | float() as end]:
                timed.append(Caption(text, start=float(start), end=float(end)))
    texts = [text for text in captions if isinstance(text, str)] if isinstance(captions, list) else []
    split, doubt = read_split(about.get("split"))
    return replace(
        clip,
        captions=tuple(map(Caption, texts)),
        timed=tuple(timed),
        split=split,
        warnings=(*clip.warnings, *doubt),
        group=str(about.get("group") or ""),
    )


class ArrayFields(Fields):
    """The arrays of an npz under the names of an exported file's fields."""

    def __init__(
        self, origin: str, arrays: Mapping[str, Any], meta: Mapping[str, Any], head: Mapping[str, Any]
    ) -> None:
        self.arrays = arrays  # by the file's own names; only known ones
        super().__init__(origin, head, meta, len(arrays[self._array("BoneRotations")]))

    def has(self, *names: str) -> str:
        """Return the first of the names that the file has; empty for none."""
        return next((name for name in names if self._array(name)), "")

    def stored(self, name: str, *shape: int) -> Tensor:
        """Return a field as it is stored; a single number per frame may be stored as ``[T, 1]``."""
        stored = self._array(name)
        array = np.asarray(self.arrays[stored])
        if array.dtype.kind not in "fiu":
            raise MotionkitError(f"{self.origin}: {stored} does not hold numbers.", why=f"its type is {array.dtype}.")
        if not shape and array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        sizes = (self.frames, *shape)
        if array.ndim != len(sizes) or any(a not in (b, -1) for a, b in zip(sizes, array.shape, strict=True)):
            expected = ", ".join("any" if size < 0 else str(size) for size in sizes)
            raise MotionkitError(f"{self.origin}: {stored} has shape {list(array.shape)}, expected [{expected}].")
        return _as_tensor(array)

    def _array(self, name: str) -> str:
        names = (stored for stored in _FIELDS.get(name, ()) if np.size(self.arrays.get(stored, ())))
        return next(names, "")


def _open(path: Path) -> ArrayFields:
    """Read the known arrays of a predictor's npz."""
    known = _SINGLE | {stored for names in _FIELDS.values() for stored in names}
    arrays = read_array(path, limit=LIMIT, wanted=lambda name: name in known or name.startswith("track_"))
    if not isinstance(arrays, Mapping):
        raise MotionkitError(f"{path} is a single array, not an npz of a motion.")
    rotations = next((name for name in _FIELDS["BoneRotations"] if np.size(arrays.get(name, ()))), "")
    if not rotations:
        raise MotionkitError(f"{path} has no motion for the predictor.", why="neither rot6d nor bone_rot6d is in it.")
    shape = list(np.shape(arrays[rotations]))
    if len(shape) != 3 or shape[2] != 6:
        raise MotionkitError(f"{path}: {rotations} has shape {shape}, expected [frames, bones, 6].")
    check_size(shape[0], shape[1])
    meta = dict(_meta(arrays, str(path)))
    skeleton = dict(meta["skeleton"]) if isinstance(meta.get("skeleton"), Mapping) else {}
    for key, stored in (("bone_names", "bone_names"), ("parents", "parents"), ("ref_local_offsets_m", "offsets")):
        if np.size(arrays.get(stored, ())):
            skeleton[key] = np.asarray(arrays[stored]).tolist()
    meta["skeleton"] = skeleton
    if "schema_version" in arrays and not isinstance(arrays["schema_version"], np.ndarray):
        raise MotionkitError(f"{path}: schema_version is not a number.")
    rate = next((arrays[name] for name in ("FPS", "fps") if name in arrays), None)
    head = {} if rate is None else {"FPS": np.asarray(rate).tolist()}
    return ArrayFields(str(path), arrays, meta, head)


def _as_tensor(array: Any) -> Tensor:
    """Return numbers as float64."""
    return torch.from_numpy(weights.cast(array, np.float64))


def _text_of(arrays: Mapping[str, Any], name: str) -> str:
    """Return the text in an array, empty if it is absent."""
    value = arrays.get(name, "")
    return str(value.item() if isinstance(value, np.ndarray) and value.size == 1 else value)


def _meta(arrays: Mapping[str, Any], origin: str) -> Mapping[str, Any]:
    text = _text_of(arrays, "meta_json")
    meta = parse_json(text, f"{origin}: meta_json", object) if text.strip() else {}
    if not isinstance(meta, Mapping):
        raise MotionkitError(f"{origin}: meta_json is not a table.", why=json.dumps(meta)[:60])
    return meta
