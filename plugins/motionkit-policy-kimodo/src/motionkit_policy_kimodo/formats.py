"""Kimodo's files of motions, as `motionkit.formats` finds them. It imports no torch."""

from __future__ import annotations

import zipfile
from pathlib import Path

from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.formats import Format, Reader, Writer
from motionkit_policy_kimodo import FPS

COLUMNS = 36  # of the CSV: place (3), quaternion w first (4), angles in radians (29)

_KEYS = {"posed_joints.npy", "local_rot_mats.npy"}
_LINE = 1 << 16  # bytes


def is_kimodo(path: Path) -> bool:
    """Whether an npz file has Kimodo's keys."""
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            return set(archive.namelist()) >= _KEYS
    # zipfile raises half a dozen kinds of error for a damaged file, which motionkit's own format claims.
    except Exception:
        return False


def is_qpos(path: Path) -> bool:
    """Whether a CSV file has the columns of the G1's qpos; one that cannot be opened counts: its reader says why."""
    try:
        with open_file(path) as file:
            return file.readline(_LINE).count(b",") == COLUMNS - 1
    except (OSError, MotionkitError):
        return True


FORMATS = (
    Format(
        "kimodo",
        "Kimodo npz",
        (".kimodo.npz", ".npz"),
        Reader("motionkit_policy_kimodo.motions:read_kimodo", ("fps",), "motionkit_policy_kimodo.formats:is_kimodo"),
        Writer("motionkit_policy_kimodo.motions:write_kimodo", fps=FPS),
        help="Reads and writes Kimodo's npz, of SOMA, SMPL-X and the G1.",
    ),
    Format(
        "g1-qpos",
        f"MuJoCo qpos of the Unitree G1, CSV of {COLUMNS} columns without a header",
        (".csv",),
        Reader("motionkit_policy_kimodo.motions:read_g1", ("fps",), "motionkit_policy_kimodo.formats:is_qpos"),
        # Joints alone, of which none are the robot's, are refused before rotations are solved for them.
        Writer("motionkit_policy_kimodo.motions:write_g1", rotations=False, fps=FPS),
        help="Reads and writes MuJoCo's qpos of the Unitree G1, CSV.",
    ),
)
