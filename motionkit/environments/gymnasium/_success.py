"""Where an environment tells success."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from motionkit.errors import MotionkitError

_USUAL = ("success", "is_success")


def find_success(info: Mapping[str, Any], key: str, name: str = "") -> str:
    """Return the entry of info that tells success.

    Args:
        info: Of the steps so far.
        key: The entry, or ``auto``.
        name: Name of the environment, where there must be one; empty returns an empty name for none.

    Raises:
        MotionkitError: There is none; says which entries there are.
    """
    wanted = _USUAL if key == "auto" else (key,)
    for one in wanted:
        if one in info:
            return one
    if not name:
        return ""
    there = ", ".join(map(str, info)) or "nothing"
    raise MotionkitError(
        f"the environment {name} tells no success.",
        why=f"the info of an episode has no {' or '.join(wanted)}; it has {there}.",
        fix="--env.success-key KEY, or wrap the environment so that its info has 'success'.",
    )


def success_of(info: Mapping[str, Any], key: str) -> bool:
    """Return whether a step's info tells success: true, or at least one half; False where it tells nothing."""
    value = info.get(key, False)
    return bool(float(np.asarray(value.cpu() if hasattr(value, "cpu") else value).reshape(-1)[0]) >= 0.5)
