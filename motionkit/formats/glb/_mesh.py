"""A mesh of a skeleton's bones: long octahedra that turn with their joint, left and right in two colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FACES = ((0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 1), (5, 2, 1), (5, 3, 2), (5, 4, 3), (5, 1, 4))
"""Of an octahedron with its near tip 0, ring 1-4 and far tip 5, seen from outside."""

_THICK = (0.1, 0.012, 0.045)
"""Half the thickness of a bone: that part of its length, at least and at most so many metres."""

_WAIST = 0.15
"""Where along the bone it is thickest."""

_KNOB = 0.014
"""Metres from a joint's centre to the tips of the small octahedron that marks it."""

_LEFT, _RIGHT, _CENTRE = (66, 135, 245, 255), (240, 130, 50, 255), (190, 190, 200, 255)


@dataclass(frozen=True)
class BoneMesh:
    """Triangles in the rest pose; every vertex belongs to one joint.

    Attributes:
        points: ``[V, 3]`` metres.
        normals: ``[V, 3]`` unit, flat.
        colours: ``[V, 4]`` 0 to 255.
        joints: ``[V]`` the joint that moves the vertex.
    """

    points: Floats
    normals: Floats
    colours: NDArray[np.uint8]
    joints: NDArray[np.int64]


def bone_mesh(positions: Floats, parents: Sequence[int], ends: Sequence[bool]) -> BoneMesh:
    """Build the mesh of a skeleton in its rest pose.

    Args:
        positions: ``[J, 3]`` metres.
        parents: Parent of each joint, -1 for the root.
        ends: Which joints are end sites; they get no knob.
    """
    corners, owners = [], []
    for joint, parent in enumerate(parents):
        if not ends[joint]:
            corners.append(_octahedron(positions[joint], np.array([0.0, 2 * _KNOB, 0.0]), _KNOB, 0.5, -_KNOB))
            owners.append(joint)
        if parent >= 0:
            bone = positions[joint] - positions[parent]
            length = float(np.linalg.norm(bone))
            if length > 1e-3:
                thick = float(np.clip(_THICK[0] * length, _THICK[1], _THICK[2]))
                corners.append(_octahedron(positions[parent], bone, thick, _WAIST, 0.0))
                owners.append(parent)
    points = np.stack(corners)[:, np.array(_FACES)]
    normals = np.cross(points[..., 1, :] - points[..., 0, :], points[..., 2, :] - points[..., 0, :])
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    # Left and right by where a bone's middle is at rest: the body faces +Z, so its left is +X.
    side = points.mean(axis=(1, 2))[:, 0] - positions[0, 0]
    colours = np.array([_LEFT if x > 0.03 else _RIGHT if x < -0.03 else _CENTRE for x in side], dtype=np.uint8)
    each = points.shape[1] * points.shape[2]
    return BoneMesh(
        points.reshape(-1, 3),
        np.repeat(normals[..., None, :], 3, axis=-2).reshape(-1, 3),
        np.repeat(colours, each, axis=0),
        np.repeat(np.array(owners), each),
    )


def _octahedron(start: Floats, bone: Floats, thick: float, waist: float, shift: float) -> Floats:
    """Return near tip, ring and far tip, ``[6, 3]``; `shift` moves all along the bone."""
    along = bone / np.linalg.norm(bone)
    start = start + shift * along
    helper = np.eye(3)[np.abs(along).argmin()]
    side = np.cross(along, helper)
    side /= np.linalg.norm(side)
    other = np.cross(along, side)
    middle = start + waist * bone
    ring = [middle + thick * way for way in (side, other, -side, -other)]
    # The faces of `_FACES` look outwards for a ring that runs clockwise as seen from the near tip.
    return np.stack([start, *ring[::-1], start + bone])
