"""Bone lengths from the places of bones, which older exports hold and newer ones have a skeleton for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from motionkit.formats.mpl._bones import UNKNOWN, Bones
from motionkit.formats.mpl._document import Fields
from motionkit.geometry import accumulate_rotations

_SPREAD = 0.01
"""Metres by which a bone may seem to change its length or direction: rounding, and joints that give a little."""

_FITTING = 0.8
"""Part of the bones that have to keep still in their parents: a few (IK targets, twists) are animated."""


@dataclass(frozen=True)
class Measured:
    """What the places of bones say.

    Attributes:
        bones: The skeleton, with lengths where they were found.
        root: ``[T, 3]`` metres, the root bone seen from its component; None where it keeps its place there.
    """

    bones: Bones
    root: Tensor | None = None


def measure_bones(
    fields: Fields, bones: Bones, order: list[int], rotations: Tensor, component: tuple[Tensor, Tensor], unit: float
) -> Measured:
    """Give a skeleton without lengths those that BonePositions (``bone_pos`` of an npz) have; others stay.

    Exporters disagree about whether they are seen from the component, from the world or from the parent. Bones keep
    their place in their parents under the right reading, and under it alone as soon as something turns; where nothing
    does the readings are one, or the first is taken.

    Args:
        fields: The file's fields.
        bones: The skeleton that was found, in the order of the rotations.
        order: Its bones with parents first.
        rotations: ``[T, N, 3, 3]`` relative to the parents, the root's to the component.
        component: Its place ``[T, 3]`` and turn ``[T, 3, 3]`` in the world.
        unit: Metres per unit of the file.

    Raises:
        MotionkitError: The places have another shape than the rotations, or are no numbers.
    """
    name = fields.has("BonePositions")
    if not name or bones.source != UNKNOWN:
        return Measured(bones)
    if not bones.tree:
        return Measured(_warned(bones, f"{name} cannot be used without the bones' parents."))
    places = fields.numbers(name, len(bones.names), 3) * unit
    if not bones.tree:
        return Measured(bones, warnings=(f"{name} cannot be used without the bones' parents.",))
    parents = [bones.parents[bone] for bone in order]
    spots = torch.tensor([order.index(parent) if parent >= 0 else -1 for parent in parents])
    turns = torch.empty_like(rotations)
    turns[:, order] = accumulate_rotations(rotations[:, order], spots.tolist())
    where, turn = component
    level = ((places - where[:, None]).unsqueeze(-2) @ turn[:, None]).squeeze(-2)
    above = [max(parent, 0) for parent in bones.parents]
    root = bones.parents.index(-1)
    rest = [bone for bone in range(len(bones.names)) if bone != root]
    for seen, local in ((places, False), (level, False), (places, True)):
        inside = seen if local else ((seen - seen[:, above]).unsqueeze(-2) @ turns[:, above]).squeeze(-2)
        usual = inside.median(dim=0).values
        fitting = (inside - usual).norm(dim=-1).amax(dim=0)[rest] < _SPREAD
        if float(fitting.double().mean()) >= _FITTING:
            offsets = usual.clone()
            offsets[root] = seen[:, root].median(dim=0).values
            said = f"the file does not say how long its bones are; that was taken from {name}."
            return Measured(replace(bones, offsets=offsets, source=name, warnings=(said,)), seen[:, root])
    return Measured(_warned(bones, f"{name} do not fit the rotations, whoever they are seen by, and were not used."))


def _warned(bones: Bones, said: str) -> Bones:
    return replace(bones, warnings=(*bones.warnings, said))
