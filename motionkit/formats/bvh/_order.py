"""Which order of Euler angles each joint of a file is written in, so that they stay away from gimbal lock."""

from __future__ import annotations

import math

import torch
from torch import Tensor

ORDERS = ("ZYX", "ZXY", "YXZ", "YZX", "XZY", "XYZ")
"""The most wanted first."""

CALM = 60.0
"""Degrees up to which the middle angle may go: there the two others turn at most twice as fast as the joint."""


def choose_orders(rotations: Tensor) -> list[str]:
    """Return an order of rotation channels for each joint of a clip.

    The middle one of three Euler angles decides how well they behave: at 90 degrees the two others turn about one
    axis (gimbal lock), and near it they race in opposite directions, so that a program that shows frames between the
    file's own, and blends channels to get them, leaves the motion. Each order has its lock elsewhere. Every joint of a
    BVH file names its channels itself, and Blender, MotionBuilder and three.js go by that.

    One order serves the whole file wherever it may, because simple readers take the first joint's for all: the one
    with which the fewest joints go beyond `CALM`, the earliest of `ORDERS` where several do. Joints that still go
    beyond it take the order in which their own worst middle angle is least.

    Args:
        rotations: ``[T, J, 3, 3]`` local rotations, T > 0.
    """
    worst = torch.stack([_worst_middle(rotations, order) for order in ORDERS])
    common = int((worst > CALM).sum(dim=1).argmin())
    # Rounded, so that joints that never leave one axis do not choose among equals by the last digit.
    best = worst.round(decimals=3).argmin(dim=0)
    chosen = torch.where(worst[common] > CALM, best, common)
    return [ORDERS[place] for place in chosen.tolist()]


def _worst_middle(rotations: Tensor, order: str) -> Tensor:
    """Return the largest size of the middle angle over the clip, ``[J]`` degrees: its sine is one matrix entry."""
    first, last = "XYZ".index(order[0]), "XYZ".index(order[2])
    angle: Tensor = rotations[..., first, last].abs().amax(dim=0).clamp_max(1.0).asin()
    return angle * (180.0 / math.pi)
