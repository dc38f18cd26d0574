"""The bodies of Kimodo's models: SOMA with 30 and 77 joints, Unitree G1 with 34, and the layout of SMPL-X's 22.

Names, parents and joints at rest are in skeletons.json (see NOTICE). Nothing of SMPL-X is there: its joints come from a
file of the user's. At rest every rotation is the identity, and the body faces +Z, Y up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.formats.amass import read_smpl_model
from motionkit.geometry import accumulate_rotations, bones_from_positions, matrix_from_rotvec, positions_from_bones
from motionkit.motion import HUMANML, Motion, Skeleton

SMPLX = "smplx22"
_NONE: Mapping[str, Tensor] = {}

_BESIDE = {"smplx_betas": ("beta.npy", 16), "smplx_hands": ("mean_hands.npy", 90)}
"""Files beside Kimodo's joints of SMPL-X, and how many of their values AMASS' files have."""

_HANDS = ("hands_meanl", "hands_meanr")
"""Arrays of an SMPL-X file: the mean pose of the fingers."""


@dataclass(frozen=True, eq=False)
class Body:
    """J joints in a tree."""

    name: str  # ``soma30``, ``soma77``, ``g1`` or ``smplx22``
    joint_names: tuple[str, ...]  # J names, the root first, each parent before its children
    parents: tuple[int, ...]  # Parent of each joint, -1 for the root
    feet: tuple[int, ...]  # Left heel, left toe, right heel, right toe; SOMA77 has a toe end after each toe
    hips: tuple[int, int]  # Right, left; they give the heading
    hands: tuple[tuple[int, ...], ...]  # Left, right: the hand and what is fixed with it
    offsets: Tensor  # ``[J, 3]`` float64 metres from the parent at rest; 0 for the root
    humanml: tuple[int, ...] | None = None  # Its joints that are HumanML3D's 22, in their order
    radii: tuple[float, ...] = ()  # Metres at each joint, by which a robot's links are drawn
    # Tracks of each of its motions, ``[N]`` by name, the same in every frame: what AMASS' files hold of a body.
    constants: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.parents)

    def joints(self, rotations: Tensor, root: Tensor) -> Tensor:
        """Return joints ``[..., J, 3]`` by forward kinematics.

        Args:
            rotations: ``[..., J, 3, 3]``, each in the world.
            root: ``[..., 3]`` metres.
        """
        above = rotations[..., [max(parent, 0) for parent in self.parents], :, :]
        bones = (above @ self.offsets.to(rotations)[..., None]).squeeze(-1)
        return positions_from_bones(torch.cat([root[..., None, :], bones[..., 1:, :]], dim=-2), self.parents)

    def world(self, local: Tensor) -> Tensor:
        """Return the rotations in the world of rotations from the parents, both ``[..., J, 3, 3]``."""
        return accumulate_rotations(local, self.parents)

    def local(self, rotations: Tensor) -> Tensor:
        """Return the rotations from the parents of rotations in the world, both ``[..., J, 3, 3]``."""
        above = rotations[..., list(self.parents[1:]), :, :]
        return torch.cat([rotations[..., :1, :, :], above.mT @ rotations[..., 1:, :, :]], dim=-3)

    def motion(self, local: Tensor, root: Tensor, fps: float, tracks: Mapping[str, Tensor] = _NONE) -> Motion:
        """Return a motion.

        Args:
            local: ``[T, J, 3, 3]``, each from its parent.
            root: ``[T, 3]`` metres.
            fps: Frames per second.
            tracks: Its tracks; ``contacts`` of the left and the right foot follow from ``foot_contacts``.
        """
        places = self.offsets.repeat(len(local), 1, 1)
        places[:, 0] = root
        if (feet := tracks.get("foot_contacts")) is not None:
            tracks = {**tracks, "contacts": feet.unflatten(1, (2, -1)).any(-1).double()}
        tracks = {**tracks, **{name: values.expand(len(local), -1) for name, values in self.constants.items()}}
        return Motion(self.joint_names, self.parents, self.offsets, local.double(), places, fps, tracks, self.radii)


@cache
def table(name: str) -> dict[str, Any]:
    """Return the entry of a body in skeletons.json."""
    entry: dict[str, Any] = json.loads((files(__package__) / "skeletons.json").read_text("utf-8"))[name]
    return entry


@cache
def body(name: str) -> Body:
    """Return ``soma30``, ``soma77`` or ``g1``."""
    entry = table(name)
    names, parents = tuple(entry["joints"]), tuple(entry["joints"].values())

    def rows(joints: Sequence[str]) -> tuple[int, ...]:
        return tuple(map(names.index, joints))

    right, left = rows(entry["hips"])
    hands = tuple(map(rows, entry["hands"]))
    offsets = bones_from_positions(torch.tensor(entry["neutral"], dtype=torch.float64), parents)
    humanml = rows(entry["humanml"]) if "humanml" in entry else None
    radii = tuple(entry.get("radii", ()))
    return Body(name, names, parents, rows(entry["feet"]), (right, left), hands, offsets, humanml, radii)


def smplx_body(joints: Tensor) -> Body:
    """Return the layout of SMPL-X's 22 joints on the bones of ``[22, 3]`` joints at rest, in metres."""
    names = HUMANML.joint_names
    hands = (names.index("left_wrist"),), (names.index("right_wrist"),)
    offsets = bones_from_positions(joints.double(), HUMANML.parents)
    offsets[0] = 0.0
    every = tuple(range(len(names)))
    return Body(SMPLX, names, HUMANML.parents, HUMANML.feet, HUMANML.face_joints[:2], hands, offsets, every)


def read_smplx(path: Path) -> Body:
    """Read the joints at rest of SMPL-X, and for AMASS' files its shape and hands; nothing in a file is executed.

    Args:
        path: The joints file of a Kimodo installation (``[22 or more, 3]`` metres, as torch saves a tensor), with
            beta.npy and mean_hands.npy beside it or not; or an SMPL-X file (.npz, .pkl).

    Raises:
        MotionkitError: The file holds something else.
    """
    known: dict[str, Tensor] = {}
    if path.suffix.lower() in (".npz", ".pkl"):
        joints = read_smpl_model(path).template
        stored = weights.read_array(path, wanted=_HANDS.__contains__) if path.suffix.lower() == ".npz" else {}
        hands = [mean.flatten() for name in _HANDS if (mean := weights.as_tensor(stored.get(name))) is not None]
        if len(hands) == len(_HANDS):
            known["smplx_hands"] = torch.cat(hands)
    else:
        joints = _joints(path)
        for name, (file, count) in _BESIDE.items():
            if (beside := path.with_name(file)).is_file():
                values = torch.from_numpy(weights.read_numbers(beside)).flatten()[:count]
                known[name] = require_array(values, (count,), str(beside), "copy it again, or remove it.")
    return replace(smplx_body(joints), constants={"smplx_pelvis": joints[0].double(), **known})


def _joints(path: Path) -> Tensor:
    content, count = weights.read(path), len(HUMANML.parents)
    joints = weights.as_tensor(content)
    joints = torch.empty(0) if joints is None else joints.squeeze()
    if joints.ndim == 2 and len(joints) >= count and joints.shape[1] == 3:
        joints = joints[:count].double()
        if bool(joints.isfinite().all()) and 0.5 < float(joints[:, 1].max() - joints[:, 1].min()) < 3:
            return joints
    raise MotionkitError(
        f"{path} holds no joints of SMPL-X in metres, Y up: it is {weights.describe(content)}.",
        why=f"the joints file of Kimodo is one array of {count} joints or more, [J, 3].",
        fix="give that file, kimodo/assets/skeletons/smplx22/joints.p of your Kimodo, or an SMPL-X file (.npz).",
    )


def require_array(values: Tensor, shape: Sequence[int], said: str, fix: str) -> Tensor:
    """Return the values of a file if they are finite and of a shape, in which -1 is any size above 0.

    Raises:
        MotionkitError: They are not; `said` names them.
    """
    fits = len(shape) == values.ndim and all(
        had and want in (-1, had) for want, had in zip(shape, values.shape, strict=True)
    )
    if not fits or not bool(values.isfinite().all()):
        wanted = ", ".join("any" if size < 0 else str(size) for size in shape)
        raise MotionkitError(
            f"{said} has the shape {list(values.shape)}, or values that are not finite.",
            why=f"[{wanted}] fits.",
            fix=fix,
        )
    return values


@cache
def soma_skeleton() -> Skeleton:
    """Return SOMA's 30 joints as a body of HumanML3D's kind of features, 359 wide, for audits of rewards."""
    made = body("soma30")
    at = made.joint_names.index
    directions = torch.nn.functional.normalize(made.offsets, dim=-1).tolist()
    lefts = [name for name in made.joint_names if name.startswith("Left")]
    heel, toe, other_heel, other_toe = made.feet
    return Skeleton(
        name=made.name,
        joint_names=made.joint_names,
        parents=made.parents,
        chains=tuple(tuple(map(at, limb.split())) for limb in table("soma30")["limbs"]),
        raw_offsets=tuple((x, y, z) for x, y, z in directions),
        target_offsets=None,
        feet=(heel, toe, other_heel, other_toe),
        face_joints=(*made.hips, at("RightArm"), at("LeftArm")),
        leg_joints=(at("RightShin"), at("RightFoot")),
        mirror_pairs=tuple((at(name), at(name.replace("Left", "Right"))) for name in lefts),
        fps=30.0,
        unit=1.0,
        contact_threshold=HUMANML.contact_threshold * (HUMANML.fps / 30.0) ** 2,
    )


def soma30_rows() -> list[int]:
    """Return the rows of SOMA30's joints among SOMA77's."""
    return [body("soma77").joint_names.index(name) for name in body("soma30").joint_names]


def as_soma30(values: Tensor) -> Tensor:
    """Return what values ``[..., 77, K]`` of joints of SOMA77 are of SOMA30, ``[..., 30, K]``; others are unchanged."""
    return values[..., soma30_rows(), :] if values.shape[-2] == len(body("soma77")) else values


def to_soma77(local: Tensor) -> Tensor:
    """Return rotations of SOMA77 from their parents, ``[..., 77, 3, 3]``: those of SOMA30, and relaxed fingers.

    Args:
        local: ``[..., 30, 3, 3]``, each from its parent.
    """
    large = body("soma77")
    pose = local.new_zeros(len(large), 3)
    for name, vector in table("soma77")["relaxed"].items():
        pose[large.joint_names.index(name)] = local.new_tensor(vector)
    out = matrix_from_rotvec(pose).repeat(*local.shape[:-3], 1, 1, 1)
    out[..., soma30_rows(), :, :] = local
    return out
