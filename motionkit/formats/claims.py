"""Which of motionkit's formats a file with a common suffix has, by its keys or its header.

A damaged file is claimed by the usual format of its suffix, whose reader names the damage.
"""

from __future__ import annotations

from motionkit.documents import open_file, read_json
from motionkit.errors import MotionkitError
from motionkit.formats.peek import Peek


def is_motion_json(peek: Peek) -> bool:
    """Whether a JSON file has frames; an empty or broken one counts, so that its reader raises the error."""
    try:
        with open_file(peek.path) as file:
            tail = b""
            while chunk := file.read(1 << 20):
                if b'"Frames"' in tail + chunk:
                    return True
                tail = chunk[-16:]
        return read_json(peek.path, object) in ({}, [])
    except (OSError, MotionkitError):
        return True


def is_mpl(peek: Peek) -> bool:
    """Whether an npz file has rotations in six numbers."""
    return _in_npz(peek) == "mpl"


def is_amass(peek: Peek) -> bool:
    """Whether an npz file has poses of SMPL."""
    return _in_npz(peek) == "amass"


def is_native(peek: Peek) -> bool:
    """Whether an npz file is motionkit's, or damaged."""
    return _in_npz(peek) == "npz"


def is_joints(peek: Peek) -> bool:
    """Whether an array may be joints, or is damaged."""
    return _in_npy(peek) == "joints"


def is_features(peek: Peek) -> bool:
    """Whether an array has the columns of HumanML3D's or KIT's features."""
    return _in_npy(peek) == "features"


def is_results(peek: Peek) -> bool:
    """Whether an array holds an object, as MDM's results do."""
    return _in_npy(peek) == "mdm-results"


def _in_npz(peek: Peek) -> str:
    """Return the name of the format of an npz file; empty if it is none of motionkit's."""
    if peek.keys is None or "motionkit_schema" in peek.keys:
        return "npz"
    if {"rot6d", "bone_rot6d"} & peek.keys:
        return "mpl"
    return "amass" if {"poses", "pose_body", "body_pose"} & peek.keys else ""


def _in_npy(peek: Peek) -> str:
    """Return the name of the format of an array; empty if it has too few axes."""
    if peek.array is None:
        return "joints"
    shape, dtype = peek.array
    if dtype.hasobject:
        return "mdm-results"
    if len(shape) == 2 and shape[-1] in (263, 251):
        return "features"
    return "joints" if len(shape) >= 2 else ""
