"""The bodies of Kimodo's models: SOMA with 30 and 77 joints, Unitree G1 with 34, and the layout of SMPL-X's 22.

Names, parents and joints at rest are in skeletons.json (see NOTICE). Nothing of SMPL-X is there: its joints come from a
file of the user's. At rest every rotation is the identity, and the body faces +Z, Y up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.formats.amass import read_smpl_model
from motionkit.geometry import accumulate_rotations, bones_from_positions, positions_from_bones
from motionkit.motion import HUMANML, Motion

SMPLX = "smplx22"
_NONE: Mapping[str, Tensor] = {}

_HUMANML = (
    "Hips LeftLeg RightLeg Spine1 LeftShin RightShin Spine2 LeftFoot RightFoot Chest LeftToeBase RightToeBase Neck1 "
    "LeftShoulder RightShoulder Head LeftArm RightArm LeftForeArm RightForeArm LeftHand RightHand"
)
"""Joints of SOMA that are HumanML3D's 22, in their order."""

_LINKS = {
    "pelvis": 0.075, "waist": 0.08, "hip_pitch": 0.06, "hip": 0.055, "knee": 0.045, "ankle": 0.03, "toe": 0.03,
    "shoulder_pitch": 0.05, "shoulder": 0.04, "elbow": 0.035, "wrist": 0.03, "hand": 0.03,
}  # fmt: skip
"""Metres at the joints of the G1, by a part of their names: its links are drawn as capsules, by no mesh."""


@dataclass(frozen=True, eq=False)
class Body:
    """J joints in a tree."""

    name: str  # ``soma30``, ``soma77``, ``g1`` or ``smplx22``
    joint_names: tuple[str, ...]  # J names, the root first, each parent before its children
    parents: tuple[int, ...]  # Parent of each joint, -1 for the root
    feet: tuple[int, ...]  # Left heel, left toe, right heel, right toe; SOMA77 has a toe end after each toe
    hips: tuple[int, int]  # Right, left; they give the heading
    hands: tuple[tuple[int, ...], tuple[int, ...]]  # Left, right: the hand and what is fixed with it
    offsets: Tensor  # ``[J, 3]`` float64 metres from the parent at rest; 0 for the root
    humanml: tuple[int, ...] | None = None  # Its joints that are HumanML3D's 22, in their order
    radii: tuple[float, ...] = ()  # Metres at each joint, by which a robot's links are drawn

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
    names = tuple(entry["joints"])
    parents = tuple(entry["joints"].values())
    right, left = map(names.index, entry["hips"])
    left_hand, right_hand = (tuple(map(names.index, chain)) for chain in entry["hands"])
    neutral = torch.tensor(entry["neutral"], dtype=torch.float64)
    return Body(
        name,
        names,
        parents,
        tuple(map(names.index, entry["feet"])),
        (right, left),
        (left_hand, right_hand),
        bones_from_positions(neutral, parents),
        tuple(map(names.index, _HUMANML.split())) if name.startswith("soma") else None,
        tuple(next(radius for part, radius in _LINKS.items() if part in joint) for joint in names)
        if name == "g1"
        else (),
    )


def smplx_body(joints: Tensor) -> Body:
    """Return the layout of SMPL-X's 22 joints on the bones of ``[22, 3]`` joints at rest, in metres."""
    names = HUMANML.joint_names
    hands = (names.index("left_wrist"),), (names.index("right_wrist"),)
    offsets = bones_from_positions(joints.double(), HUMANML.parents)
    offsets[0] = 0.0
    every = tuple(range(len(names)))
    return Body(SMPLX, names, HUMANML.parents, HUMANML.feet, HUMANML.face_joints[:2], hands, offsets, every)


def read_smplx(path: Path) -> Body:
    """Read the joints at rest of SMPL-X; nothing in the file is executed.

    Args:
        path: The joints file of a Kimodo installation (``[22 or more, 3]`` metres, as torch saves a tensor), or an
            SMPL-X file (.npz, .pkl).

    Raises:
        MotionkitError: The file holds something else.
    """
    if path.suffix.lower() in (".npz", ".pkl"):
        return smplx_body(read_smpl_model(path).template)
    content = weights.read(path)
    joints = weights.as_tensor(content)
    joints = None if joints is None else joints.squeeze()
    count = len(HUMANML.parents)
    if joints is None or joints.ndim != 2 or len(joints) < count or joints.shape[1] != 3:
        raise MotionkitError(
            f"{path} holds no joints of SMPL-X: it is {weights.describe(content)}.",
            why=f"the joints file of Kimodo is one array of {count} joints or more, [J, 3] in metres.",
            fix="give that file, kimodo/assets/skeletons/smplx22/joints.p of your Kimodo, or an SMPL-X file (.npz).",
        )
    joints = joints[:count].double()
    if not bool(joints.isfinite().all()) or not 0.5 < float(joints[:, 1].max() - joints[:, 1].min()) < 3:
        raise MotionkitError(f"{path} holds no body in metres, Y up.", fix="give the joints file of your Kimodo.")
    return smplx_body(joints)


def soma30_rows() -> list[int]:
    """Return the rows of SOMA30's joints among SOMA77's."""
    return [body("soma77").joint_names.index(name) for name in body("soma30").joint_names]


def to_soma77(local: Tensor) -> Tensor:
    """Return rotations of SOMA77 from their parents, ``[..., 77, 3, 3]``: those of SOMA30, and relaxed fingers.

    Args:
        local: ``[..., 30, 3, 3]``, each from its parent.
    """
    import roma

    large = body("soma77")
    pose = local.new_zeros(len(large), 3)
    for name, vector in table("soma77")["relaxed"].items():
        pose[large.joint_names.index(name)] = local.new_tensor(vector)
    out: Tensor = roma.rotvec_to_rotmat(pose).repeat(*local.shape[:-3], 1, 1, 1)
    out[..., soma30_rows(), :, :] = local
    return out
