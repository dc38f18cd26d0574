"""Any motion as the joints that features are made of."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._motion import JointMotion, Motion
from motionkit.motion._skeleton import HUMANML, KIT, Skeleton
from motionkit.rigs._bodymap import map_body
from motionkit.rigs._kit import KIT_RIG, body_to_kit


def to_body(motion: Motion | JointMotion, skeleton: Skeleton, fps: float) -> Tensor:
    """Resample a motion and bring it onto the joints of a feature format.

    A motion that has joints of the skeleton's own names (KIT's: as its arrays or as files have them) keeps them as
    they are; any other rig is matched by its joints' names (`map_body`), for KIT by way of the 22-joint body
    (`body_to_kit`).

    Args:
        motion: The motion, in metres, Y up.
        skeleton: `HUMANML` or `KIT`.
        fps: Frames per second of the result.

    Returns:
        ``[T', J, 3]`` metres, float64.

    Raises:
        MotionkitError: The rig lacks a joint, or the motion has KIT's joints and the 22-joint body is wanted.
    """
    motion = motion.resample(fps)
    positions = motion.positions().double()
    if chosen := _own(motion.names, skeleton):
        return positions[:, chosen]
    if skeleton is KIT:
        return body_to_kit(_humanml(motion, positions))
    return _humanml(motion, positions)


def _own(names: tuple[str, ...], skeleton: Skeleton) -> list[int]:
    """Return the places of the skeleton's joints among `names`, empty when one is missing."""
    for own in (skeleton.joint_names, KIT_RIG) if skeleton is KIT else (skeleton.joint_names,):
        if set(own) <= set(names):
            return [names.index(name) for name in own]
    return []


def _humanml(motion: Motion | JointMotion, positions: Tensor) -> Tensor:
    """Return the 22 joints ``[T, 22, 3]`` of any rig."""
    if chosen := _own(motion.names, HUMANML):
        return positions[:, chosen]
    if _own(motion.names, KIT):
        raise MotionkitError(
            "KIT's 21 joints do not become the 22-joint body.",
            why="they have no collars, and their trunk is divided in another way.",
            fix="keep the KIT format (--to kit).",
        )
    body = map_body(motion.names, motion.parents, positions)
    # The motion is in metres already: the unit that map_body guesses from the legs must not scale a child up.
    joints: Tensor = torch.einsum("bj,tjc->tbc", body.weights.to(positions), positions)
    return joints
