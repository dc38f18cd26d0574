"""Writing an npz that is the same, byte by byte, whenever it is written."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from motionkit.formats.mpl._state import mpl_arrays
from motionkit.motion._clip import Clip
from motionkit.runs import write_bytes_atomic


def write_mpl_npz(path: Path, clip: Clip, *, source_hash: str) -> None:
    """Write a clip for the motion predictor.

    The file needs nothing else to be used: no pickle, no path, the skeleton inside; `mpl_arrays` lists what it holds.
    The same clip gives the same bytes. It appears under its name when it is complete.

    Args:
        path: The .npz file; an older one is replaced.
        clip: A clip whose motion is a `Motion`, from any format.
        source_hash: SHA-256 of what the clip was read from, for the record; may be empty.

    Raises:
        MotionkitError: The motion has joint positions only, or values that are not finite.
        OSError: The disk is full or refuses.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in mpl_arrays(clip, source_hash).items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system, member.external_attr = 3, 0o644 << 16
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(member, content.getvalue())
    write_bytes_atomic(path, buffer.getvalue())
