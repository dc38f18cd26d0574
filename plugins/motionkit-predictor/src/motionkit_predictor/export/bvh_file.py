"""BVH files for an exported motion predictor: numpy alone.

`motionkit export --to numpy` and `--to onnx` copy this file beside ``known_frames.py``, whose `Body.of_rig` takes what
it returns. motionkit's own reader takes more dialects. Faults are ``ValueError``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Rig = tuple[list[str], list[int], Array, Array, Array, float]
"""Names, parents, offsets ``[N, 3]``, local rotations ``[T, N, 3, 3]``, translations ``[T, N, 3]`` and fps."""

_LIMIT = 512 << 20
_JOINTS = 1000
_CHANNELS = {f"{axis}{kind}".lower(): f"{axis}{kind}" for axis in "XYZ" for kind in ("position", "rotation")}
_END = " End"


def read_bvh(path: str | Path) -> Rig:
    """Read a file; see `parse_bvh`."""
    if Path(path).stat().st_size > _LIMIT:
        raise ValueError(f"{path} is larger than {_LIMIT >> 20} MB")
    return parse_bvh(Path(path).read_text(encoding="utf-8-sig", errors="replace"))


def parse_bvh(text: str) -> Rig:
    """Return names, parents, offsets ``[N, 3]``, local rotations ``[T, N, 3, 3]``, translations ``[T, N, 3]`` and fps.

    Units and axes are the file's. An end site is called ``<parent> End``.
    """
    head, motion, rest = text.partition("MOTION")
    header = re.match(r"\s*Frames:\s*(\d+)\s+Frame\s+Time:\s*(\S+)(.*)", rest, re.DOTALL | re.IGNORECASE)
    if not motion or header is None or not head.split() or head.split()[0].upper() != "HIERARCHY":
        raise ValueError("it is not a BVH file")
    names, parents, offsets, channels = _tree(head)
    frames, seconds = int(header[1]), float(header[2])
    values = np.array(header[3].split(), float)
    if not channels or not frames or values.size != frames * len(channels) or seconds <= 0:
        raise ValueError(f"expected {frames} frames of {len(channels)} values, found {values.size} values")
    if not (np.isfinite(values).all() and np.isfinite(offsets).all()):
        raise ValueError("a value of the file is not finite")
    values = values.reshape(frames, -1)
    rotations = np.tile(np.eye(3), (frames, len(names), 1, 1))
    translations = np.repeat(np.array(offsets, float)[None], frames, axis=0)
    for column, (joint, channel) in enumerate(channels):
        axis = "XYZ".index(channel[0])
        if channel.endswith("position"):
            translations[:, joint, axis] = values[:, column]
        else:
            rotations[:, joint] = rotations[:, joint] @ _turns(axis, np.radians(values[:, column]))
    rate = 1 / seconds
    fps = round(rate) if abs(rate - round(rate)) < 1e-3 * rate else rate
    return names, parents, np.array(offsets, float), rotations, translations, float(fps)


def _tree(text: str) -> tuple[list[str], list[int], list[list[float]], list[tuple[int, str]]]:
    """Return names, parents and offsets of joints, and joint and name of each channel."""
    names: list[str] = []
    parents: list[int] = []
    offsets: list[list[float]] = []
    channels: list[tuple[int, str]] = []
    above: list[int] = []
    for line in text.replace("{", "\n{\n").replace("}", "\n}\n").splitlines():
        words = line.split()
        word = words[0].upper() if words else ""
        try:
            if word in ("ROOT", "JOINT", "END"):
                parent = above[-1] if word != "ROOT" else -1
                names.append(names[parent] + _END if word == "END" else " ".join(words[1:]))
                parents.append(parent)
                offsets.append([0.0, 0.0, 0.0])
            elif word == "{":
                above.append(len(names) - 1)
            elif word == "}":
                above.pop()
            elif word == "OFFSET":
                offsets[above[-1]] = [float(words[place]) for place in (1, 2, 3)]
            elif word == "CHANNELS":
                channels += [(above[-1], _CHANNELS[words[2 + place].lower()]) for place in range(int(words[1]))]
            elif word not in ("", "HIERARCHY"):
                raise ValueError
        except (IndexError, KeyError, ValueError) as error:
            raise ValueError(f"a line of the joints cannot be read: {line.strip()[:60]!r}") from error
    if above or parents.count(-1) != 1 or len(names) > _JOINTS:
        raise ValueError("the joints are not one tree: a brace or the ROOT is missing, or there are too many")
    return names, parents, offsets, channels


def _turns(axis: int, angle: Array) -> Array:
    turn = np.tile(np.eye(3), (len(angle), 1, 1))
    j, k = (axis + 1) % 3, (axis + 2) % 3
    turn[:, j, j] = turn[:, k, k] = np.cos(angle)
    turn[:, k, j], turn[:, j, k] = np.sin(angle), -np.sin(angle)
    return turn
