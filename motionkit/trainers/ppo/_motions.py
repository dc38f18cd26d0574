"""The motion of an episode, where its environment tells the body's joints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, MotionBatch, joints_to_features

_FIX = "put joints [T, J, 3] in metres, Y up, J = 22 or 21, and fps into the info of an episode's last step."


def motion_of(info: Mapping[str, Any]) -> MotionBatch:
    """Return the motion in the info of an episode's last step.

    Args:
        info: ``joints`` ``[T, J, 3]`` in metres, Y up: J = 22 as HumanML3D, 21 as KIT; ``fps``, 20 without.

    Raises:
        MotionkitError: There are no such joints (exit code 1).
    """
    given = info.get("joints")
    if given is None:
        raise MotionkitError("a motion reward is chosen, and the episode tells no joints.", fix=_FIX, code=1)
    joints = np.asarray(given, np.float32)
    body = {22: HUMANML, 21: KIT}.get(joints.shape[1] if joints.ndim == 3 else 0)
    if body is None or joints.shape[-1] != 3 or len(joints) < 2 or not np.isfinite(joints).all():
        raise MotionkitError(f"the joints of an episode are {list(joints.shape)}, or not finite.", fix=_FIX, code=1)
    features = joints_to_features(torch.from_numpy(joints), body, target=body is HUMANML)[None]
    return MotionBatch(
        features, torch.tensor([features.shape[1]]), skeleton=body, fps=float(info.get("fps", 20.0))
    )  # fmt: skip
