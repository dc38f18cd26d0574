"""Reading BVH files: any joint names, any channel order, any number of channels per joint."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import roma
import torch
from torch import Tensor

from motionkit.errors import MotionkitError

_POSITIONS = ("Xposition", "Yposition", "Zposition")
_MOTION = re.compile(r"^\s*MOTION\s*$", re.MULTILINE | re.IGNORECASE)
_ROTATIONS = ("Xrotation", "Yrotation", "Zrotation")


@dataclass(frozen=True)
class BvhFile:
    """A parsed file, in its own unit and with its own vertical axis.

    Attributes:
        names: Joint names; an end site is called ``<parent> End``.
        parents: Parent of each joint, -1 for the root.
        offsets: ``[J, 3]`` float64: the file's OFFSET.
        rotations: ``[T, J, 3, 3]`` float64 local rotations; end sites have the identity.
        translations: ``[T, J, 3]`` float64: the OFFSET unless position channels replace it.
        fps: Frames per second.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    offsets: Tensor
    rotations: Tensor
    translations: Tensor
    fps: float


@dataclass
class _Hierarchy:
    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    offsets: list[list[float]] = field(default_factory=list)
    channels: list[list[str]] = field(default_factory=list)


def parse_bvh(path: Path) -> BvhFile:
    """Parse a BVH file.

    Args:
        path: The file; Windows line ends, tabs and lower-case keywords are fine.

    Raises:
        MotionkitError: The file is missing, is no BVH, is cut short, or holds values that are not finite.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise MotionkitError(f"{path} cannot be read: {error.strerror or error}.") from error
    start = _MOTION.search(text)
    head = text[: start.start()] if start else ""
    if start is None or "HIERARCHY" not in head.upper():
        raise MotionkitError(f"{path} is not a BVH file.", why="it has no HIERARCHY and MOTION sections.")
    try:
        hierarchy = _parse_hierarchy(head.split())
        seconds, values = _parse_motion(text[start.end() :], sum(map(len, hierarchy.channels)))
    except (ValueError, IndexError) as error:
        raise MotionkitError(f"{path} is not a sound BVH file: {error}") from error
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values).all(axis=1)).argmax())
        raise MotionkitError(f"{path} holds a value that is not finite (NaN or infinite) in frame {bad}.")
    rotations, translations = _to_local(hierarchy, torch.from_numpy(values))
    offsets = torch.tensor(hierarchy.offsets, dtype=torch.float64)
    names, parents = tuple(hierarchy.names), tuple(hierarchy.parents)
    return BvhFile(names, parents, offsets, rotations, translations, _snap(1.0 / seconds))


def _parse_hierarchy(words: list[str]) -> _Hierarchy:
    """Walk the tokens of the HIERARCHY section."""
    tree, pending, place = _Hierarchy(), -1, 0
    open_joints: list[int] = []
    while place < len(words):
        word = words[place].upper()
        if word in ("ROOT", "JOINT", "END"):
            # A name may hold blanks: it goes on up to the brace.
            brace = words.index("{", place)
            name = " ".join(words[place + 1 : brace])
            parent = open_joints[-1] if open_joints else -1
            tree.names.append(f"{tree.names[parent]} End" if word == "END" else name)
            tree.parents.append(parent)
            tree.offsets.append([0.0, 0.0, 0.0])
            tree.channels.append([])
            pending, place = len(tree.names) - 1, brace
        elif word == "{":
            open_joints.append(pending)
            place += 1
        elif word == "}":
            open_joints.pop()
            place += 1
        elif word == "OFFSET":
            tree.offsets[open_joints[-1]] = [float(value) for value in words[place + 1 : place + 4]]
            place += 4
        elif word == "CHANNELS":
            count = int(words[place + 1])
            names = [_channel(name) for name in words[place + 2 : place + 2 + count]]
            tree.channels[open_joints[-1]] = names
            place += 2 + count
        else:
            place += 1
    if not tree.names or open_joints:
        raise ValueError("its joints' braces do not match")
    if tree.parents.count(-1) != 1:
        raise ValueError(f"it has {tree.parents.count(-1)} roots; one is expected")
    return tree


def _channel(name: str) -> str:
    """Return a channel name in its usual spelling."""
    usual = name[:1].upper() + name[1:].lower()
    if usual not in _POSITIONS + _ROTATIONS:
        raise ValueError(f"unknown channel {name!r}")
    return usual


def _parse_motion(text: str, width: int) -> tuple[float, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Return seconds per frame and values ``[T, channels]``."""
    words = text.replace(":", ": ").split()
    lower = [word.lower() for word in words[:8]]
    if "frames:" not in lower or "time:" not in lower:
        raise ValueError("its MOTION section has no 'Frames:' and 'Frame Time:'")
    frames = int(words[lower.index("frames:") + 1])
    start = lower.index("time:") + 1
    seconds = float(words[start])
    if frames < 1 or not seconds > 0:
        raise ValueError(f"it has {frames} frames of {seconds} s")
    numbers = words[start + 1 :]
    if len(numbers) != frames * width:
        raise ValueError(
            f"it announces {frames} frames of {width} values, which are {frames * width}, and has {len(numbers)}"
        )
    return seconds, np.array(numbers, dtype=np.float64).reshape(frames, width)


def _to_local(tree: _Hierarchy, values: Tensor) -> tuple[Tensor, Tensor]:
    """Turn channel values into local rotations ``[T, J, 3, 3]`` and translations ``[T, J, 3]``."""
    frames, joints = len(values), len(tree.names)
    translations = torch.tensor(tree.offsets, dtype=torch.float64).repeat(frames, 1, 1)
    rotations = torch.eye(3, dtype=torch.float64).repeat(frames, joints, 1, 1)
    by_order: dict[str, tuple[list[int], list[list[int]]]] = {}
    column = 0
    for joint, channels in enumerate(tree.channels):
        order, columns = "", []
        for name in channels:
            if name in _POSITIONS:
                translations[:, joint, _POSITIONS.index(name)] = values[:, column]
            else:
                order += name[0]
                columns.append(column)
            column += 1
        if order:
            members, places = by_order.setdefault(order, ([], []))
            members.append(joint)
            places.append(columns)
    for order, (members, places) in by_order.items():
        # Upper-case letters: each turn is about the axis as the turns before it left it (BVH's convention).
        angles = values[:, torch.tensor(places)]
        rotations[:, members] = roma.euler_to_rotmat(order, angles, degrees=True)
    return rotations, translations


def _snap(fps: float) -> float:
    """Undo the rounding of the frame time: 59.9999 is 60."""
    nearest = round(fps)
    return float(nearest) if nearest > 0 and abs(fps - nearest) < 2e-3 * nearest else fps
