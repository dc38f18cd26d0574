"""SMPL's joints by name: its 22 body joints are HumanML3D's; hands and face follow them."""

from __future__ import annotations

from motionkit.motion._skeleton import HUMANML

SMPL_COUNTS = {22: "the body", 24: "SMPL", 52: "SMPL-H", 55: "SMPL-X"}
"""Numbers of joints that SMPL's bodies have; the first 22 are the same in all of them."""

_FINGERS = tuple(f"{finger}{part}" for finger in ("index", "middle", "pinky", "ring", "thumb") for part in (1, 2, 3))


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
