"""Finding the skeleton of an exported motion: in the file, in tables beside it, or from positions of its bones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.mpl._bones import HIERARCHY, OFFSETS, UNKNOWN, Bones, BoneTables
from motionkit.formats.mpl._fields import Fields
from motionkit.geometry._kinematics import accumulate_rotations
from motionkit.motion._clip import ReadOptions

_SPREAD = 0.01
"""Metres by which a measured bone may change its place in its parent: rounding, and joints that give a little."""

_FITTING = 0.8
"""Part of the bones that have to keep their place in their parents; a few (IK targets, twists) are animated."""


def find_bones(fields: Fields, count: int, path: Path, options: ReadOptions) -> Bones:
    """Find the skeleton of a motion of `count` bones.

    ``meta.skeleton`` comes first; what it lacks is taken from the two tables that the options name, or that lie beside
    the file or in a folder ``config`` there or one level up. Without any of them the bones are called ``bone_00``,
    ``bone_01``, ... and have no length: rotations can be used, positions cannot.

    Raises:
        MotionkitError: The skeleton has another number of bones, doubled names, or is no tree.
    """
    skeleton = fields.meta.get("skeleton")
    skeleton = skeleton if isinstance(skeleton, Mapping) else {}
    names = _names(skeleton.get("bone_names"), count, fields.origin)
    parents = _parents(skeleton.get("parents"), count, fields.origin)
    offsets = _offsets(skeleton, count, fields.origin)
    if names and parents and offsets is not None:
        return Bones(names, parents, offsets, "meta.skeleton")
    tables = BoneTables.beside(path, options)
    if tables is None:
        return _bare(names, parents, offsets, count)
    found = tables.bones(names, count)
    if isinstance(found, str):
        if tables.asked:
            raise MotionkitError(f"{fields.origin}: {tables.source} does not fit: {found}")
        bare = _bare(names, parents, offsets, count)
        return replace(bare, warnings=(f"{tables.source} beside the file does not fit: {found}", *bare.warnings))
    warnings = found.warnings
    if parents and parents != found.parents:
        warnings = (*warnings, f"parents are those of meta.skeleton; {tables.source} has others.")
    return Bones(
        found.names,
        parents or found.parents,
        found.offsets if offsets is None else offsets,
        f"meta.skeleton and {tables.source}" if skeleton else tables.source,
        warnings,
    )


def _names(listed: object, count: int, origin: str) -> tuple[str, ...]:
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(isinstance(name, str) and name for name in listed):
        raise MotionkitError(f"{origin}: meta.skeleton.bone_names is no list of names.")
    _check_count(len(listed), count, "bone_names", origin)
    if len(set(listed)) < len(listed):
        double = next(name for name in listed if listed.count(name) > 1)
        raise MotionkitError(f"{origin}: two bones of meta.skeleton are called {double}.")
    return tuple(listed)


def _parents(listed: object, count: int, origin: str) -> tuple[int, ...]:
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(type(parent) is int and -1 <= parent < count for parent in listed):
        raise MotionkitError(
            f"{origin}: meta.skeleton.parents is no list of places of bones, -1 for the root, each below {count}."
        )
    _check_count(len(listed), count, "parents", origin)
    return tuple(listed)


def _offsets(skeleton: Mapping[str, Any], count: int, origin: str) -> Tensor | None:
    for name, unit in (("ref_local_offsets_m", 1.0), ("ref_local_offsets_cm", 0.01)):
        if (listed := skeleton.get(name)) is not None:
            try:
                offsets = torch.tensor(listed, dtype=torch.float64)
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise MotionkitError(f"{origin}: meta.skeleton.{name} is no table of numbers.") from error
            _check_count(len(offsets) if offsets.ndim else 0, count, name, origin)
            if offsets.shape != (count, 3) or not offsets.isfinite().all():
                raise MotionkitError(f"{origin}: meta.skeleton.{name} is not {count} times 3 finite numbers.")
            return offsets * unit
    return None


def _check_count(found: int, count: int, name: str, origin: str) -> None:
    if found != count:
        raise MotionkitError(
            f"{origin}: meta.skeleton.{name} has {found} entries, BoneRotations has {count} bones.",
            why="each bone has one rotation per frame.",
        )


def _bare(names: tuple[str, ...], parents: tuple[int, ...], offsets: Tensor | None, count: int) -> Bones:
    missing = [
        word for word, known in (("names", names), ("parents", parents), ("lengths", offsets is not None)) if not known
    ]
    warning = (
        f"the file does not say its bones' {' and '.join(missing)}, and there is no {HIERARCHY} and {OFFSETS} beside "
        "it: rotations are right, positions are not known."
    )
    digits = max(2, len(str(count - 1)))
    return Bones(
        names or tuple(f"bone_{bone:0{digits}d}" for bone in range(count)),
        parents or (-1, *[0] * (count - 1)),
        torch.zeros(count, 3, dtype=torch.float64) if offsets is None else offsets,
        UNKNOWN,
        (warning,),
        tree=bool(parents),
    )


def measure_bones(
    fields: Fields, bones: Bones, order: list[int], rotations: Tensor, unit: float
) -> tuple[Bones, Tensor | None]:
    """Give a skeleton without lengths those of BonePositions (``bone_pos`` of an npz); other skeletons stay.

    The positions are seen from the component. Turned back by the rotation of its parent, a bone must keep its place
    there in all frames; where it does not, the positions are not used.

    Args:
        fields: The file's fields.
        bones: The skeleton that was found, in the order of the rotations.
        order: Its bones with parents first.
        rotations: ``[T, N, 3, 3]`` relative to the parents, the root's to the component.
        unit: Metres per unit of the file.

    Returns:
        The skeleton; and ``[T, 3]`` metres, the root bone seen from the component, None where it keeps its place.

    Raises:
        MotionkitError: The positions have another shape than the rotations, or are no numbers.
    """
    name = fields.has("BonePositions")
    if not name or bones.source != UNKNOWN:
        return bones, None
    if not bones.tree:
        return bones.warned(f"{name} cannot be used without the bones' parents."), None
    positions = fields.numbers(name, len(bones.names), 3) * unit
    parents = [bones.parents[bone] for bone in order]
    places = [order.index(parent) if parent >= 0 else -1 for parent in parents]
    world = torch.empty_like(rotations)
    world[:, order] = accumulate_rotations(rotations[:, order], places)
    above = [max(parent, 0) for parent in bones.parents]
    # Bone b in its parent p: R_p^T (x_b - x_p), the row vector (x_b - x_p) R_p.
    inside = ((positions - positions[:, above]).unsqueeze(-2) @ world[:, above]).squeeze(-2)
    offsets = inside.median(dim=0).values
    root = bones.parents.index(-1)
    others = [bone for bone in range(len(bones.names)) if bone != root]
    fitting = (inside - offsets).norm(dim=-1).amax(dim=0)[others] < _SPREAD
    if float(fitting.double().mean()) < _FITTING:
        return bones.warned(f"{name} do not fit the rotations and were not used."), None
    offsets[root] = positions[:, root].median(dim=0).values
    said = f"the file does not say how long its bones are; that was taken from {name}."
    return replace(bones, offsets=offsets, source=name, warnings=(said,)), positions[:, root]
