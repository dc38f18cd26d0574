"""Kimodo's files of motions, as `motionkit.formats` finds them. It imports no torch."""

from __future__ import annotations

from motionkit.formats import Format, Peek, Reader, Writer
from motionkit_policy_kimodo import FPS

COLUMNS = 36  # of the CSV: place (3), quaternion w first (4), angles in radians (29)


def is_kimodo(peek: Peek) -> bool:
    """Whether an npz file has Kimodo's keys."""
    return peek.keys is not None and peek.keys >= {"posed_joints", "local_rot_mats"}


def is_qpos(peek: Peek) -> bool:
    """Whether a CSV file has the columns of the G1's qpos; one that cannot be opened counts: its reader says why."""
    return peek.line is None or peek.line.count(",") == COLUMNS - 1


FORMATS = (
    Format(
        "kimodo",
        "Kimodo npz",
        (".kimodo.npz", ".npz"),
        Reader("motionkit_policy_kimodo.motions:read_kimodo", ("fps",), "motionkit_policy_kimodo.formats:is_kimodo"),
        Writer("motionkit_policy_kimodo.motions:write_kimodo", fps=FPS, some_bodies=True),
        help="Reads and writes Kimodo's npz, of SOMA, SMPL-X and the G1.",
    ),
    Format(
        "g1-qpos",
        f"MuJoCo qpos of the Unitree G1, CSV of {COLUMNS} columns without a header",
        (".csv",),
        Reader("motionkit_policy_kimodo.motions:read_g1", ("fps",), "motionkit_policy_kimodo.formats:is_qpos"),
        # Joints alone, of which none are the robot's, are refused before rotations are solved for them.
        Writer("motionkit_policy_kimodo.motions:write_g1", rotations=False, fps=FPS, some_bodies=True),
        help="Reads and writes MuJoCo's qpos of the Unitree G1, CSV.",
    ),
)
