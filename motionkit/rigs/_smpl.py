"""SMPL's joints, of which HumanML3D's are the first 22, and a default rest pose that needs no licensed file."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from motionkit.motion._skeleton import HUMANML

SMPL_COUNTS = {22: "the body", 24: "SMPL", 52: "SMPL-H", 55: "SMPL-X"}
"""Numbers of joints that SMPL's bodies have; the first 22 are the same in all of them."""

_FINGERS = tuple(f"{finger}{part}" for finger in ("index", "middle", "pinky", "ring", "thumb") for part in (1, 2, 3))

_DIRECTIONS = {
    "hip": (0.58, -0.81, -0.05),
    "knee": (0.1, -0.99, -0.02),
    "ankle": (-0.04, -0.99, -0.11),
    "foot": (0.19, -0.39, 0.9),
    "spine1": (0.0, 0.97, -0.24),
    "spine2": (0.0, 1.0, 0.01),
    "spine3": (0.0, 0.9, 0.43),
    "neck": (0.0, 0.98, -0.2),
    "head": (0.0, 0.78, 0.62),
    "collar": (0.54, 0.81, -0.24),
    "shoulder": (0.94, 0.32, -0.09),
    "elbow": (0.99, -0.05, -0.1),
    "wrist": (1.0, 0.03, -0.01),
}
"""Which way each bone points while all of SMPL's rotations are zero (arms sideways, facing +Z, left at +X); the
right side is the mirror image. Rounded: people differ by a few degrees here, as their shape does."""

_PELVIS = (0.0, -0.22, 0.03)
"""Where SMPL's pelvis lies in its own space; ``trans`` counts from there."""


def smpl_joints(count: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return names and parents of a body with `count` joints, a key of `SMPL_COUNTS`."""
    names, parents = list(HUMANML.joint_names), list(HUMANML.parents)
    wrists = {side: HUMANML.index(f"{side}_wrist") for side in ("left", "right")}
    if count == 24:
        names += ["left_hand", "right_hand"]
        parents += [wrists["left"], wrists["right"]]
    if count == 55:
        names += ["jaw", "left_eye", "right_eye"]
        parents += [HUMANML.index("head")] * 3
    if count in (52, 55):
        for side in ("left", "right"):
            for finger in _FINGERS:
                names.append(f"{side}_{finger}")
                parents.append(wrists[side] if finger.endswith("1") else len(names) - 2)
    return tuple(names), tuple(parents)


@lru_cache(maxsize=1)
def default_rest() -> Tensor:
    """Return a body at rest as SMPL means it: ``[22, 3]`` float64 metres from each joint's parent.

    HumanML3D's target bone lengths in the directions of SMPL's rest pose; row 0 is where the pelvis lies.
    """
    rest = torch.zeros(HUMANML.joints, 3, dtype=torch.float64)
    lengths = torch.tensor(HUMANML.target_offsets, dtype=torch.float64).norm(dim=-1)
    for joint, name in enumerate(HUMANML.joint_names[1:], start=1):
        direction = torch.tensor(_DIRECTIONS[name.split("_")[-1]], dtype=torch.float64)
        if name.startswith("right_"):
            direction = direction * direction.new_tensor([-1.0, 1.0, 1.0])
        rest[joint] = functional.normalize(direction, dim=0) * lengths[joint]
    rest[0] = rest.new_tensor(_PELVIS)
    return rest
