"""Which of motionkit's formats a file with a common suffix has, by its keys or its header.

Only headers are read. A damaged file is claimed by the usual format of its suffix, whose reader names the damage.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from numpy.lib import format as npy

from motionkit.documents import open_file, read_json
from motionkit.errors import MotionkitError


def is_motion_json(path: Path) -> bool:
    """Whether a JSON file has frames; an empty or broken one counts, so that its reader raises the error."""
    try:
        with open_file(path) as file:
            tail = b""
            while chunk := file.read(1 << 20):
                if b'"Frames"' in tail + chunk:
                    return True
                tail = chunk[-16:]
        return read_json(path, object) in ({}, [])
    except (OSError, MotionkitError):
        return True


def is_mpl(path: Path) -> bool:
    """Whether an npz file has rotations in six numbers."""
    return _in_npz(path) == "mpl"


def is_amass(path: Path) -> bool:
    """Whether an npz file has poses of SMPL."""
    return _in_npz(path) == "amass"


def is_native(path: Path) -> bool:
    """Whether an npz file is motionkit's, or damaged."""
    return _in_npz(path) == "npz"


def is_joints(path: Path) -> bool:
    """Whether an array may be joints, or is damaged."""
    return _in_npy(path) == "joints"


def is_features(path: Path) -> bool:
    """Whether an array has the columns of HumanML3D's or KIT's features."""
    return _in_npy(path) == "features"


def is_results(path: Path) -> bool:
    """Whether an array holds an object, as MDM's results do."""
    return _in_npy(path) == "mdm-results"


def _in_npz(path: Path) -> str:
    """Return the name of the format of an npz file; empty if it is none of motionkit's."""
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            keys = {name.removesuffix(".npy") for name in archive.namelist()}
    # zipfile raises half a dozen kinds of error for a damaged file; the reader names the damage.
    except Exception:
        return "npz"
    if "motionkit_schema" in keys:
        return "npz"
    if {"rot6d", "bone_rot6d"} & keys:
        return "mpl"
    return "amass" if {"poses", "pose_body", "body_pose"} & keys else ""


def _in_npy(path: Path) -> str:
    """Return the name of the format of an array; empty if it has too few axes."""
    try:
        with open_file(path) as file:
            version = npy.read_magic(file)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = header(file)
    # A header is parsed as Python, which raises many kinds of error; the reader names the damage.
    except Exception:
        return "joints"
    if dtype.hasobject:
        return "mdm-results"
    if len(shape) == 2 and shape[-1] in (263, 251):
        return "features"
    return "joints" if len(shape) >= 2 else ""
