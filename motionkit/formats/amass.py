"""AMASS: motions of SMPL bodies as rotations, in .npz files.

`read_amass` makes a clip of the arrays of a file (`read_recording`). The rest pose is a default one, or that of the
person, which the user's own SMPL, SMPL-H or SMPL-X file gives (`read_smpl_model`). `write_amass` writes the arrays of a
motion, as files of SMPL-X have them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.geometry import bones_from_positions, matrix_from_rotvec, matrix_to_rotvec, positions_from_bones
from motionkit.motion.clip import Clip, ReadOptions
from motionkit.motion.motion import Motion, check_size, finite_part, finite_warning, is_fps, other_rate
from motionkit.motion.skeleton import HUMANML
from motionkit.rigs.rest import default_rest
from motionkit.rigs.upright import Upright, turn_up, weigh
from motionkit.runs import write_arrays_atomic
from motionkit.weights import read, read_array

LIMIT = 2 << 30
"""Bytes of a file; an hour of SMPL-X at 120 frames per second has a third of it."""

_MODEL_LIMIT = 4 << 30
"""Bytes of a body-model file."""

_PIECE = 4096
"""Frames computed at once."""

_FLOOR, _LAID = (-0.05, 0.25), (0.06, 0.4)
"""Heights in metres of the lowest joint and of the pelvis of a body that lies on the floor; a camera is further off."""

_PLAIN = ReadOptions()

_TO_HOUSE = ((-1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0))
"""From AMASS' world (Z up) to ours. HumanML3D maps (x, y, z) to (x, z, y) and then negates x: together the proper
rotation (-x, z, y), so joints are where HumanML3D has them before it moves a clip to the origin. It is its own inverse.
"""

_KINDS = {66: "the body alone", 72: "SMPL", 156: "SMPL-H", 165: "SMPL-X"}
_ASK = "pass it: --source-fps 120."
_BODY = 3 * HUMANML.joints
_BETAS, _FINGERS = 16, 90
"""Shape coefficients, and values of both hands' fingers, of files of SMPL-X."""

_FPS = ("mocap_framerate", "mocap_frame_rate", "mocap_fps", "framerate", "frame_rate", "fps")
_WANTED = frozenset((
    "poses", "root_orient", "global_orient", "pose_body", "body_pose", "trans", "transl", "betas", "gender",
    "surface_model_type", *_FPS,
))  # fmt: skip
_NEEDED = ("J_regressor", "v_template", "shapedirs")
"""Arrays of a body-model file."""

_NO_PARENT = 2**32 - 1
"""The root's parent in ``kintree_table``."""


def read_amass(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read an AMASS ``.npz`` or another one with SMPL, SMPL-H or SMPL-X rotations.

    Rotations come from the file, so no body-model file is needed for them; only the rest pose is missing. Without
    `ReadOptions.smpl_model` that is a body of HumanML3D's bone lengths in SMPL's rest pose, and the file's shape
    (betas) is ignored; with it, the joints are those of the file's shape and gender, by
    ``J_regressor (v_template + shapedirs betas)``.

    Args:
        path: ``poses [T, 66 | 72 | 156 | 165]`` axis-angle (or ``root_orient`` and ``pose_body``), ``trans [T, 3]``
            in metres, ``mocap_framerate`` or another name for it, ``betas``, ``gender``.
        options: ``fps`` in place of the file's; ``up`` is Z as in AMASS unless the body says else; ``smpl_model``,
            a file or a folder with one per gender.

    Returns:
        One clip: a `Motion` on the 22 body joints, in house space. Fingers, jaw and eyes are not read; a note
        names them. Frames with NaN stay, with a warning.

    Example:
        >>> import numpy as np
        >>> np.savez("stand.npz", poses=np.zeros((30, 156)), trans=np.zeros((30, 3)), mocap_framerate=120.0)
        >>> (clip,) = read_amass(Path("stand.npz"))
        >>> clip.motion.names[:3], clip.notes["body"]
        (('pelvis', 'left_hip', 'right_hip'), "default (the file's betas do not count)")
    """
    recording = read_recording(path, options.fps)
    if options.smpl_model is None:
        rest, body = default_rest(), "default (the file's betas do not count)"
    else:
        if not bool(torch.isfinite(recording.betas).all()):
            raise MotionkitError(
                f"{path}: betas are not finite, and the body of --smpl-model is made from them.",
                fix="leave --smpl-model out: an average body has no need of them.",
            )
        model = find_smpl_model(options.smpl_model, recording.gender)
        rest, body = read_smpl_model(model).rest(recording.betas), model.name
    motion, up, warnings = _build(recording, rest, options)
    notes = {
        "format": f"SMPL rotations ({recording.kind})",
        "unit": "m",
        "up": up,
        "fps": f"{recording.fps:g}",
        "frames": str(motion.frames),
        "gender": recording.gender or "not said",
        "body": body,
    }
    if recording.kind in ("SMPL", "SMPL-H", "SMPL-X"):
        notes["not read"] = "hands" if recording.kind != "SMPL-X" else "fingers, jaw and eyes"
    return (Clip(motion, notes=notes, warnings=tuple(warnings)),)


def _build(recording: Recording, rest: Tensor, options: ReadOptions) -> tuple[Motion, str, list[str]]:
    """Return the motion in house space, the file's vertical axis, and warnings."""
    finite = recording.finite
    warnings = [*recording.doubts, *finite_warning(finite)]
    rotations = _matrices(recording.rotations)
    translations = rest.expand(len(rotations), -1, -1).clone()
    translations[:, 0] += recording.places
    offsets = rest.clone()
    heights = positions_from_bones(rest, HUMANML.parents)[:, 1]
    offsets[0] = rest.new_tensor([0.0, float(rest[0, 1] - heights.min()), 0.0])
    motion = Motion(HUMANML.joint_names, HUMANML.parents, offsets, rotations, translations, recording.fps)
    up = options.up
    if up == "auto":
        up, said = _weighed(motion, finite)
        warnings += filter(None, (said,))
    if up != "y":
        turn = rest.new_tensor(_TO_HOUSE) if up == "z" else turn_up(up)
        rotations[:, 0] = turn @ rotations[:, 0]
        translations[:, 0] = translations[:, 0] @ turn.T
        motion = replace(motion, rotations=rotations, translations=translations)
    return motion, up, warnings


def _weighed(motion: Motion, finite: Tensor) -> Upright:
    """Find which way is up: Z as in AMASS, Y, or -Y as cameras have it, unless the body lies on the floor of AMASS."""
    clean = finite_part(motion, finite)
    places = clean.cut(0, min(clean.frames, _PIECE)).positions()
    low, hips = float(places[..., 2].min()), float(places[:, 0, 2].median())
    lies = _FLOOR[0] < low < _FLOOR[1] and _LAID[0] < hips < _LAID[1]
    return weigh(places, motion.names, motion.parents, motion.fps, "z", usual=["y"] if lies else ["y", "-y"])


def _matrices(vectors: Tensor) -> Tensor:
    """Return matrices ``[T, J, 3, 3]`` of axis-angle ``[T, J, 3]``, in pieces to save memory."""
    matrices = vectors.new_empty(*vectors.shape, 3)
    for start in range(0, len(vectors), _PIECE):
        part = slice(start, start + _PIECE)
        matrices[part] = matrix_from_rotvec(vectors[part])
    return matrices


def write_amass(path: Path, motion: Motion) -> None:
    """Write rotations and path of a motion of SMPL's body, as files of SMPL-X in AMASS have them, Z up.

    A file holds no bones: they are those of the body that it is read with. Tracks of the motion may say what is known
    of it, the same in every frame: ``smplx_betas`` (16), ``smplx_hands`` (90, the pose of the fingers) and
    ``smplx_pelvis``, the place of the pelvis where ``trans`` is 0. Else it is an average body with straight fingers.

    Args:
        path: The file; it appears whole or not at all.
        motion: Its first 22 joints are SMPL's, by name, and its rest pose is SMPL's.

    Raises:
        MotionkitError: It is of other joints.

    Example:
        >>> from motionkit.rigs import named_rig
        >>> motion = named_rig("smpl").pose()
        >>> write_amass(Path("stand.npz"), motion)
        >>> (clip,) = read_amass(Path("stand.npz"))
        >>> bool((clip.motion.positions() - motion.positions()[:, :22]).abs().max() < 1e-6)
        True
    """
    count = HUMANML.joints
    if motion.names[:count] != HUMANML.joint_names or motion.parents[:count] != HUMANML.parents:
        raise MotionkitError(
            f"the motion has {len(motion.names)} joints, which are not those of SMPL by name.",
            why="AMASS' files hold rotations of SMPL's joints.",
            fix="bring it to that body: --rig smpl (of generate: --names smpl).",
        )

    def body(name: str, otherwise: Tensor) -> Tensor:
        """Return what a track says of the body, ``[N]``."""
        values = motion.tracks.get(name)
        return otherwise if values is None or values.shape[1:] != otherwise.shape else values[0].double()

    to_amass = motion.offsets.new_tensor(_TO_HOUSE)
    rotations = motion.rotations[:, :count].clone()
    rotations[:, 0] = to_amass @ rotations[:, 0]
    vectors = matrix_to_rotvec(rotations)
    # SMPL turns a body about its pelvis, which is at the place of the pelvis at rest, not turned, plus trans.
    trans = motion.translations[:, 0] @ to_amass.T - body("smplx_pelvis", default_rest()[0])
    hands, betas = body("smplx_hands", torch.zeros(_FINGERS)), body("smplx_betas", torch.zeros(_BETAS))
    per_frame = {
        "trans": trans, "root_orient": vectors[:, 0], "pose_body": vectors[:, 1:].flatten(1),
        "pose_hand": hands.expand(motion.frames, -1), "pose_jaw": torch.zeros(motion.frames, 3),
        "pose_eye": torch.zeros(motion.frames, 6),
    }  # fmt: skip
    arrays: dict[str, Any] = {name: values.float().numpy() for name, values in per_frame.items()}
    arrays |= {
        "gender": "neutral", "surface_model_type": "smplx", "betas": betas.float().numpy(), "num_betas": len(betas),
        "mocap_frame_rate": float(motion.fps), "mocap_time_length": motion.frames / motion.fps,
    }  # fmt: skip
    write_arrays_atomic(path, arrays)


@dataclass(frozen=True)
class Recording:
    """The contents of an SMPL motion file."""

    rotations: Tensor  # ``[T, 22, 3]`` float64 axis-angle, each relative to its parent; the pelvis' to the file's world
    places: Tensor  # ``[T, 3]`` float64 metres, ``trans``
    finite: Tensor  # ``[T]`` which frames hold finite values only
    fps: float  # Frames per second
    betas: Tensor  # Shape coefficients; empty when the file has none
    gender: str  # ``male``, ``female``, ``neutral``, or empty
    kind: str  # The body model
    doubts: tuple[str, ...] = ()  # What a person should know of how it was read


def read_recording(
    path: Path,  # the ``.npz``
    fps: float,  # frame rate to take in place of the file's; 0 for none
) -> Recording:
    """Read and check a file's arrays."""
    data = read_array(path, limit=LIMIT, wanted=lambda name: name in _WANTED)
    if not isinstance(data, Mapping):
        raise MotionkitError(f"{path} is not an .npz of several arrays, as AMASS' are.")
    poses, kind = _poses(data, path)
    places = _numbers(data, ("trans", "transl"), path)
    if places is None:
        raise MotionkitError(f"{path} has no trans: the path of the body is not known.", why=_listed(data))
    if places.shape != (len(poses), 3):
        raise MotionkitError(f"{path}: trans has shape {list(places.shape)}; the poses need [{len(poses)}, 3].")
    check_size(len(poses), HUMANML.joints)
    rotations, roots = _doubles(poses).reshape(len(poses), HUMANML.joints, 3), _doubles(places)
    angles = rotations.square().sum(dim=-1)  # 1e300 rad has no matrix
    finite = torch.isfinite(angles).all(dim=-1) & torch.isfinite(roots).all(dim=-1)
    if not bool(finite.any()):
        raise MotionkitError(f"{path} has no frame whose values are all finite.")
    betas = _betas(data, path)
    stated = _word(data.get("surface_model_type")).lower()
    kind = {"smpl": "SMPL", "smplh": "SMPL-H", "smplx": "SMPL-X"}.get(stated, kind)
    rate, doubts = _fps(data, path, fps)
    return Recording(rotations, roots, finite, rate, betas, _word(data.get("gender")).lower(), kind, doubts)


def _poses(data: Mapping[str, Any], path: Path) -> tuple[NDArray[Any], str]:
    """Return ``[T, 66]`` axis-angle of the body as stored, the pelvis first, and the name of the model."""
    poses = _numbers(data, ("poses",), path)
    if poses is None:
        root = _numbers(data, ("root_orient", "global_orient"), path)
        body = _numbers(data, ("pose_body", "body_pose"), path)
        if root is None or body is None:
            raise MotionkitError(f"{path} has no poses, nor root_orient and pose_body.", why=_listed(data))
        if len(root) != len(body):
            raise MotionkitError(f"{path}: root_orient has {len(root)} frames, pose_body {len(body)}.")
        if len(root):
            poses = np.concatenate([part.reshape(len(part), -1) for part in (root, body)], axis=1)
        else:
            poses = root
    if poses.ndim == 3 and poses.shape[-1] == 3:
        poses = poses.reshape(len(poses), 3 * poses.shape[1])
    if poses.ndim != 2 or len(poses) == 0 or poses.shape[1] not in _KINDS:
        raise MotionkitError(
            f"{path}: poses have shape {list(poses.shape)}.",
            why="[frames, width] with width 156 (SMPL-H), 165 (SMPL-X), 72 (SMPL) or 66 (the body) is read.",
        )
    return poses[:, :_BODY], _KINDS[poses.shape[1]]


def _betas(data: Mapping[str, Any], path: Path) -> Tensor:
    """Return the shape, empty without one; if it is repeated in every frame, that of the first."""
    stored = _numbers(data, ("betas",), path)
    if stored is None or not stored.size:
        return torch.zeros(0, dtype=torch.float64)
    return _doubles(stored.reshape(-1, stored.shape[-1])[0])


def _numbers(data: Mapping[str, Any], names: Sequence[str], path: Path) -> NDArray[Any] | None:
    """Return the first of `names` that is present, as stored."""
    for name in names:
        if name in data:
            value = data[name]
            if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.ndim == 0:
                raise MotionkitError(f"{path}: {name} is not an array of numbers.")
            return value
    return None


def _doubles(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(weights.cast(array, np.float64))


def _fps(data: Mapping[str, Any], path: Path, given: float) -> tuple[float, tuple[str, ...]]:
    """Return the user's frame rate, else the file's; and a warning if they differ."""
    for name in _FPS:
        if name in data:
            value = np.asarray(data[name]).reshape(-1)
            fps = float(value[0]) if value.size == 1 and value.dtype.kind in "fiu" else math.nan
            if is_fps(fps):
                return (given, (other_rate(fps, given),)) if given and given != fps else (fps, ())
            if not given:
                raise MotionkitError(f"{path}: {name} is {value[:3].tolist()}, not a frame rate.", fix=_ASK)
    if not given:
        raise MotionkitError(f"{path} does not say its frame rate.", why=_listed(data), fix=_ASK)
    return given, ()


def _word(value: Any) -> str:
    """Return a text stored as a 0-d array, as bytes or as text; empty if there is none."""
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0] if value.size == 1 else ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    text = str(value) if isinstance(value, str) else ""
    return text[2:-1] if text.startswith(("b'", 'b"')) else text


def _listed(data: Mapping[str, Any]) -> str:
    return f"of the expected arrays it has {', '.join(sorted(data)) or 'none'}."


@dataclass(frozen=True)
class SmplModel:
    """The 22 body joints of a body-model file."""

    template: Tensor  # ``[22, 3]`` float64, joints of the mean shape in metres
    shapes: Tensor  # ``[22, 3, B]`` float64, their displacement by each shape coefficient
    joints: int  # Joints of the whole model: 24, 52 or 55

    def rest(
        self,
        betas: Tensor,  # [B'] shape coefficients; those beyond the file's B are ignored
    ) -> Tensor:
        """Return a person at rest, ``[22, 3]`` from each joint's parent; row 0 is the place of the pelvis."""
        used = min(len(betas), self.shapes.shape[-1])
        joints = self.template + self.shapes[..., :used] @ betas[:used].to(self.shapes)
        return bones_from_positions(joints, HUMANML.parents)


def find_smpl_model(path: Path, gender: str) -> Path:
    """Return the model file: `path` itself, or the one for a gender in a folder of them.

    Args:
        path: A file, or a folder with the models' published names: ``female/model.npz``, ``SMPLH_FEMALE.npz``, ...
        gender: ``male``, ``female`` or ``neutral``; anything else counts as neutral.
    """
    if path.exists() and not path.is_dir():
        return path
    if not path.is_dir():
        raise MotionkitError(f"there is no SMPL model {path}.", fix="check --smpl-model.")
    gender = gender if gender in ("male", "female") else "neutral"
    names = [f"{gender}/model", *(f"{kind}_{gender.upper()}" for kind in ("SMPLH", "SMPLX", "SMPL"))]
    for name in names:
        for suffix in (".npz", ".pkl"):
            if (file := path / (name + suffix)).is_file():
                return file
    raise MotionkitError(
        f"{path} has no {gender} SMPL model.", why=f"looked for {', '.join(names)} as .npz and .pkl.",
        fix="name the file itself with --smpl-model.",
    )  # fmt: skip


def read_smpl_model(path: Path) -> SmplModel:
    """Read a body-model file; nothing in it is executed, and only the joints' part of it is kept.

    Args:
        path: ``.npz``, or a ``.pkl`` of plain numpy arrays, with ``J_regressor [J, V]``, ``v_template [V, 3]`` and
            ``shapedirs [V, 3, B]``.
    """
    try:
        return _read_once(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise MotionkitError(
            f"{path} cannot be opened.", why=error.strerror or "", fix="check --smpl-model."
        ) from error


@lru_cache(maxsize=4)
def _read_once(path: Path, _changed: int) -> SmplModel:
    data = _open(path)
    missing = [name for name in _NEEDED if name not in data]
    if missing:
        raise MotionkitError(f"{path} is not an SMPL model: it has no {' and no '.join(missing)}.")
    regressor, vertices, shapes = (_model_numbers(data[name], path, name) for name in _NEEDED)
    joints = len(regressor)
    if (
        regressor.ndim != 2 or vertices.shape != (regressor.shape[1], 3)
        or shapes.ndim != 3 or shapes.shape[:2] != vertices.shape or joints < HUMANML.joints
    ):  # fmt: skip
        sizes = ", ".join(f"{name} {list(data[name].shape)}" for name in _NEEDED)
        raise MotionkitError(f"{path} is not an SMPL model of {HUMANML.joints} joints or more.", why=sizes)
    _check_tree(data.get("kintree_table"), path)
    body = torch.from_numpy(regressor[: HUMANML.joints])
    template = body @ torch.from_numpy(vertices)
    moved = torch.einsum("jv,vcb->jcb", body, torch.from_numpy(shapes))
    if not bool(torch.isfinite(template).all() and torch.isfinite(moved).all()):
        raise MotionkitError(f"{path} holds values that are not finite.")
    return SmplModel(template, moved, joints)


def _open(path: Path) -> Mapping[str, Any]:
    try:
        if path.suffix.lower() == ".pkl":
            data = read(path)
        else:
            data = read_array(path, limit=_MODEL_LIMIT, wanted=lambda name: name in (*_NEEDED, "kintree_table"))
    except MotionkitError as error:
        raise MotionkitError(
            f"the SMPL model was not opened: {error.message}", why=error.why,
            fix="open it elsewhere and save plain arrays: np.savez('model.npz', v_template=np.array(m['v_template']), "
            "shapedirs=np.array(m['shapedirs']), J_regressor=m['J_regressor'].toarray(), "
            "kintree_table=m['kintree_table']).",
        ) from error  # fmt: skip
    if not isinstance(data, Mapping):
        raise MotionkitError(f"{path} is not an SMPL model: it holds a single {type(data).__name__}.")
    return data


def _model_numbers(value: Any, path: Path, name: str) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
        raise MotionkitError(f"{path}: {name} is not a plain array of numbers.", fix="save it as one: x.toarray().")
    return weights.cast(value, np.float64)


def _check_tree(table: Any, path: Path) -> None:
    """Refuse a model whose first 22 joints have other parents."""
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.shape[1] < HUMANML.joints:
        return
    parents = [-1 if int(parent) in (-1, _NO_PARENT) else int(parent) for parent in table[0, : HUMANML.joints]]
    if tuple(parents) != HUMANML.parents:
        raise MotionkitError(f"{path}: its joints are not in SMPL's order.", why=f"parents {parents}.")
