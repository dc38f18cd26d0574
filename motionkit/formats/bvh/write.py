"""Writing BVH files the way Blender and MotionBuilder expect them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.bvh.euler import ORDERS, choose_orders, matrix_to_euler
from motionkit.formats.bvh.read import MAX_DEPTH, POSITIONS
from motionkit.motion.motion import END, Motion
from motionkit.rigs.detect import UNITS
from motionkit.runs import write_bytes_atomic

_MOVES = 1e-6
"""Metres that a joint's place relative to its parent must change for it to have position channels."""

_TIP = 0.05
_ROWS = 1024


def write_bvh(path: Path, motion: Motion, *, unit: str = "cm", order: str | None = None) -> None:
    """Write a motion as a BVH file; reading it again moves no joint by more than 0.01 mm.

    The root has position channels, and so has every joint whose place relative to its parent is animated. A joint
    without children gets an end site, because readers expect it. The root's OFFSET is zero, since some readers add it
    to the positions and others do not. Angles are continuous from frame to frame and stay away from gimbal lock
    (`choose_orders`), so that programs may interpolate them.

    Args:
        path: The file; it appears whole or not at all.
        motion: In metres, Y up. Joints may be in any order in which parents come before their children.
        unit: ``m``, ``dm``, ``cm``, ``mm`` or ``in``.
        order: Order of the rotation channels of every joint, such as ``ZYX`` or ``ZXY``. By default it is chosen to
            suit most joints, and those near gimbal lock get another one, as BVH allows.

    Example:
        >>> from motionkit.motion import HUMANML, JointMotion
        >>> from motionkit.rigs import solve
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> motion = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> write_bvh(Path("walk.bvh"), solve(motion).motion)
        >>> Path("walk.bvh").read_text().split()[:3]
        ['HIERARCHY', 'ROOT', 'pelvis']
    """
    if unit not in UNITS:
        raise MotionkitError(f"there is no unit {unit!r}.", fix=f"known: {', '.join(UNITS)}.")
    if order is not None and order not in ORDERS:
        raise MotionkitError(f"{order!r} is not an order of rotations.", fix=f"known: {', '.join(sorted(ORDERS))}.")
    finite = torch.isfinite(motion.rotations).flatten(1).all(1) & torch.isfinite(motion.translations).flatten(1).all(1)
    if not motion.frames or not bool(finite.all()):
        reason = f"frame {int((~finite).long().argmax())} is not finite" if motion.frames else "it has no frame"
        raise MotionkitError(f"{path} cannot be written: {reason}.", fix="look at the motion with convert --check.")
    orders = choose_orders(motion.rotations) if order is None else [order] * len(motion.names)
    tree = _BvhTree(motion, 1.0 / UNITS[unit].metres, orders)
    lines = ["HIERARCHY", *tree.lines(), "MOTION", f"Frames: {motion.frames}", f"Frame Time: {1 / motion.fps:.10f}"]
    write_bytes_atomic(path, ("\n".join(lines) + "\n" + "".join(tree.rows())).encode(errors="replace"))


class _BvhTree:
    """A motion's joints in the order of the file."""

    def __init__(self, motion: Motion, scale: float, orders: Sequence[str]) -> None:
        self.motion, self.scale, self.orders = motion, scale, orders
        self.children: list[list[int]] = [[] for _ in motion.parents]
        for joint, parent in enumerate(motion.parents):
            if parent >= 0:
                self.children[parent].append(joint)
        self.moving = (motion.translations - motion.offsets).abs().amax(dim=(0, 2)).gt(_MOVES).tolist()
        self.moving[motion.parents.index(-1)] = True
        solid = [joint for joint in range(len(motion.names)) if not self.is_end(joint)]
        self.names = dict(zip(solid, _legal([motion.names[joint] for joint in solid]), strict=True))
        self.joints: list[int] = []

    def lines(self) -> list[str]:
        """Return the lines of the hierarchy; the joints are then in `joints`, in the order of their channels."""
        lines: list[str] = []
        pending = [(self.motion.parents.index(-1), 0)]
        while pending:
            joint, depth = pending.pop()
            pad = "\t" * max(depth, 0)
            if joint < 0:
                lines.append(f"{pad}}}")
                continue
            if depth >= MAX_DEPTH:
                raise MotionkitError(f"joints are nested deeper than {MAX_DEPTH}, which BVH readers refuse.")
            if self.is_end(joint):
                lines += _end_site(pad, self.motion.offsets[joint] * self.scale)
                continue
            self.joints.append(joint)
            root = self.motion.parents[joint] < 0
            offset = self.motion.offsets[joint] * (0.0 if root else self.scale)
            places = f"6 {' '.join(POSITIONS)}" if self.moving[joint] else "3"
            turns = " ".join(f"{axis}rotation" for axis in self.orders[joint])
            lines += [f"{pad}{'ROOT' if root else 'JOINT'} {self.names[joint]}", f"{pad}{{"]
            lines += [f"{pad}\tOFFSET {_numbers(offset)}", f"{pad}\tCHANNELS {places} {turns}"]
            if not self.children[joint]:
                lines += _end_site(pad + "\t", self.tip(joint) * self.scale)
            pending.append((-1, depth))
            pending += [(child, depth + 1) for child in reversed(self.children[joint])]
        return lines

    def is_end(self, joint: int) -> bool:
        """Whether a joint is an end site, with a place and nothing else."""
        end = self.motion.names[joint].endswith(END) and not self.children[joint]
        return end and not self.moving[joint] and self.motion.parents[joint] >= 0

    def tip(self, joint: int) -> Tensor:
        """Return the offset of an end site for a joint without one: a third of its bone, 2 to 10 cm, straight on."""
        bone = self.motion.offsets[joint]
        length = float(bone.norm())
        if self.motion.parents[joint] < 0 or length < 1e-6:
            return bone.new_tensor([0.0, _TIP, 0.0])
        return bone / length * min(max(length / 3, 0.02), 0.1)

    def rows(self) -> list[str]:
        """Return the frames as text."""
        angles = torch.zeros(*self.motion.rotations.shape[:2], 3, dtype=torch.float64)
        for order in sorted({self.orders[joint] for joint in self.joints}):
            alike = [joint for joint in self.joints if self.orders[joint] == order]
            angles[:, alike] = matrix_to_euler(self.motion.rotations[:, alike], order).rad2deg()
        blocks = []
        for joint in self.joints:
            if self.moving[joint]:
                blocks.append(self.motion.translations[:, joint] * self.scale)
            blocks.append(angles[:, joint])
        # Adding 0 after rounding turns -0 into 0.
        values = torch.cat(blocks, dim=1).round(decimals=6) + 0.0
        form = " ".join(["%.6f"] * values.shape[1]) + "\n"
        return [form * len(part) % tuple(part.flatten().tolist()) for part in values.split(_ROWS)]


def _end_site(pad: str, offset: Tensor) -> list[str]:
    return [f"{pad}End Site", f"{pad}{{", f"{pad}\tOFFSET {_numbers(offset)}", f"{pad}}}"]


def _numbers(vector: Tensor) -> str:
    return " ".join(f"{round(value, 6) + 0.0:.6f}" for value in vector.tolist())


def _legal(names: Sequence[str]) -> list[str]:
    """Replace blanks, braces and control characters, which break readers, and number names that this makes equal."""
    legal: list[str] = []
    for name in names:
        plain = re.sub(r"[\s{}\x00-\x1f\x7f-\x9f]+", "_", name).strip("_") or "joint"
        number, unique = 2, plain
        while unique in legal:
            unique, number = f"{plain}_{number}", number + 1
        legal.append(unique)
    return legal
