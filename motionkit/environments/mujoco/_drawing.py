"""Drawing without a window: which OpenGL MuJoCo is told to use."""

from __future__ import annotations

import ctypes.util
import os
import sys

VARIABLE = "MUJOCO_GL"
HELP = "apt-get install -y libegl1 libgl1 (or libosmesa6, with MUJOCO_GL=osmesa); docs/environments.md has more."


def choose_drawing() -> str:
    """Set ``MUJOCO_GL`` where nobody has, before MuJoCo is imported, and return it.

    On Linux: EGL, which takes a GPU where there is one; OSMesa, which draws on the CPU, where only that is installed.
    Elsewhere MuJoCo chooses, and an empty text is returned.
    """
    if not os.environ.get(VARIABLE) and sys.platform == "linux":
        only = ctypes.util.find_library("OSMesa") and not ctypes.util.find_library("EGL")
        os.environ[VARIABLE] = "osmesa" if only else "egl"
    return os.environ.get(VARIABLE, "")
