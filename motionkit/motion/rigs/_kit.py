"""From the 22-joint body to KIT-ML's 21 joints."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from motionkit.motion._skeleton import HUMANML, KIT

_TRUNK = {
    "BP": (("left_hip", 0.09), ("right_hip", 0.09), ("spine1", 0.82)),
    "BT": (("spine3", 0.88), ("neck", 0.12)),
    "BLN": (("left_shoulder", 0.5), ("right_shoulder", 0.5)),
    "BUN": (("left_shoulder", 0.35), ("right_shoulder", 0.35), ("head", 0.3)),
}
"""KIT's trunk joints as weighted sums. KIT's root lies between the hips and its BLN between the shoulders, in every
published mean pose; how far up BP, BT and BUN are is read from the mean poses of the two data sets."""

_MIDFOOT = (("knee", -0.04), ("ankle", 0.71), ("foot", 0.33))
"""KIT's mid-foot lies below and before the ankle; the shin tells where below is."""


@lru_cache(maxsize=1)
def kit_weights() -> Tensor:
    """Return ``[21, 22]`` float64: each KIT joint as a weighted sum of the 22 joints; rows sum to 1."""
    weights = torch.zeros(KIT.joints, HUMANML.joints, dtype=torch.float64)

    def put(joint: int, *terms: tuple[str, float]) -> None:
        for name, share in terms:
            weights[joint, HUMANML.index(name)] = share

    put(0, ("left_hip", 0.5), ("right_hip", 0.5))
    for name, terms in _TRUNK.items():
        put(KIT.index(name), *terms)
    right_hip, left_hip, right_shoulder, left_shoulder = KIT.face_joints
    for side, hip, shoulder in (("left", left_hip, left_shoulder), ("right", right_hip, right_shoulder)):
        for place, part in enumerate(("shoulder", "elbow", "wrist")):
            put(shoulder + place, (f"{side}_{part}", 1.0))
        for place, part in enumerate(("hip", "knee", "ankle")):
            put(hip + place, (f"{side}_{part}", 1.0))
        put(hip + 3, *((f"{side}_{part}", share) for part, share in _MIDFOOT))
        put(hip + 4, (f"{side}_foot", 1.0))
    return weights


def body_to_kit(joints: Tensor) -> Tensor:
    """Return KIT's 21 joints of a 22-joint body.

    The pose stays what it is: a right hand stays a right hand. Public KIT features have joints 5-7 and 11-15, which
    the body model behind them calls left, on the right-hand side of a body that faces +Z, and HumanML3D's code calls
    them right; that is where the right side goes here.

    Args:
        joints: ``[..., 22, 3]`` metres.

    Returns:
        ``[..., 21, 3]`` metres.
    """
    return kit_weights().to(joints) @ joints
