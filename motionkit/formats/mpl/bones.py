"""The skeleton of an exported motion: in its file, in the tables next to it, or from positions of its bones.

FullHierarchy.json and FullOffsets.json are the tables (`BoneTables`), which hold a whole skeleton.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.formats.mpl.fields import Fields
from motionkit.formats.own import TABLES
from motionkit.geometry import accumulate_rotations
from motionkit.motion.clip import ReadOptions
from motionkit.page.wording import count
from motionkit.rigs.detect import unit_called

HIERARCHY, OFFSETS = TABLES

_NO_PARENT = "None"
"""What exporters write for the parent of the root."""

UNKNOWN = "unknown"
"""`Bones.source` of a motion without a known skeleton."""

_SPREAD = 0.01
"""Metres by which a measured bone may change its place in its parent, by rounding or elastic joints."""

_FITTING = 0.8
"""Part of the bones that must keep their place in their parents; a few (IK targets, twists) are animated."""


@dataclass(frozen=True)
class Bones:
    """A skeleton in the order of the file's rotations, which need not put parents first."""

    names: tuple[str, ...]  # N bone names
    parents: tuple[int, ...]  # Parent of each, -1 for the root
    offsets: Tensor  # ``[N, 3]`` metres from the parent at rest, in the file's axes
    source: str  # Where it was found, for the record; `UNKNOWN` without any
    warnings: tuple[str, ...] = ()
    tree: bool = True  # Whether the parents are known

    def warned(self, warning: str) -> Bones:
        """Return the skeleton with one more warning."""
        return replace(self, warnings=(*self.warnings, warning))

    def order(self, origin: str) -> list[int]:
        """Return the bones in topological order, parents first."""
        roots = [bone for bone, parent in enumerate(self.parents) if parent < 0]
        if len(roots) != 1:
            raise MotionkitError(
                f"{origin}: the skeleton has {len(roots)} bones without a parent; one, the root, was expected.",
                why=", ".join(self.names[bone] for bone in roots[:5]),
            )
        children: dict[int, list[int]] = {}
        for bone, parent in enumerate(self.parents):
            children.setdefault(parent, []).append(bone)
        order, waiting = [], list(roots)
        while waiting:
            bone = waiting.pop()
            order.append(bone)
            waiting.extend(reversed(children.get(bone, [])))
        if len(order) < len(self.parents):
            lost = next(bone for bone in range(len(self.parents)) if bone not in set(order))
            raise MotionkitError(f"{origin}: bone {self.names[lost]} is its own ancestor.")
        if all(parent < bone for bone, parent in enumerate(self.parents)):
            return list(range(len(order)))
        return order


def find_bones(fields: Fields, count: int, path: Path, options: ReadOptions) -> Bones:
    """Find the skeleton of a motion of `count` bones.

    ``meta.skeleton`` comes first; the rest is taken from the two tables that the options name, or that are in the
    file's folder or in a folder ``config`` there or one level up. Without any of them the bones are called ``bone_00``,
    ``bone_01``, ... and have no length: rotations can be used, positions cannot.
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
    matched = tables.bones(names, count)
    if isinstance(matched, str):
        if tables.asked:
            raise MotionkitError(f"{fields.origin}: {tables.source} does not fit: {matched}")
        bare = _bare(names, parents, offsets, count)
        return replace(bare, warnings=(f"{tables.source} next to the file does not fit: {matched}", *bare.warnings))
    warnings = matched.warnings
    if parents and parents != matched.parents:
        warnings = (*warnings, f"parents are those of meta.skeleton; {tables.source} has others.")
    return Bones(
        matched.names,
        parents or matched.parents,
        matched.offsets if offsets is None else offsets,
        f"meta.skeleton and {tables.source}" if skeleton else tables.source,
        warnings,
    )


def _names(listed: object, count: int, origin: str) -> tuple[str, ...]:
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(isinstance(name, str) and name for name in listed):
        raise MotionkitError(f"{origin}: meta.skeleton.bone_names is not a list of names.")
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
            f"{origin}: meta.skeleton.parents is not a list of places of bones, -1 for the root, each below {count}."
        )
    _check_count(len(listed), count, "parents", origin)
    return tuple(listed)


def _offsets(skeleton: Mapping[str, Any], count: int, origin: str) -> Tensor | None:
    for name, unit in (("ref_local_offsets_m", 1.0), ("ref_local_offsets_cm", 0.01)):
        if (listed := skeleton.get(name)) is not None:
            try:
                offsets = torch.tensor(listed, dtype=torch.float64)
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise MotionkitError(f"{origin}: meta.skeleton.{name} is not a table of numbers.") from error
            _check_count(len(offsets) if offsets.ndim else 0, count, name, origin)
            if offsets.shape != (count, 3) or not offsets.isfinite().all():
                raise MotionkitError(f"{origin}: meta.skeleton.{name} is not {count} times 3 finite numbers.")
            return offsets * unit
    return None


def _check_count(size: int, count: int, name: str, origin: str) -> None:
    if size != count:
        raise MotionkitError(
            f"{origin}: meta.skeleton.{name} has {size} entries, BoneRotations has {count} bones.",
            why="each bone has one rotation per frame.",
        )


def _bare(names: tuple[str, ...], parents: tuple[int, ...], offsets: Tensor | None, count: int) -> Bones:
    missing = [
        word for word, known in (("names", names), ("parents", parents), ("lengths", offsets is not None)) if not known
    ]
    warning = (
        f"the file does not have its bones' {' and '.join(missing)}, and there is no {HIERARCHY} and {OFFSETS} next to "
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
    """Take the lengths of an unknown skeleton from BonePositions (``bone_pos`` of an npz).

    The positions are relative to the component. In the frame of its parent a bone must keep its place over all frames;
    else the positions are not used.

    Args:
        fields: The file's fields.
        bones: The skeleton, in the order of the rotations.
        order: Its bones with parents first.
        rotations: ``[T, N, 3, 3]``, relative to the parents; the root's to the component.
        unit: Metres for a unit of the file.

    Returns:
        The skeleton; and ``[T, 3]`` metres, the root bone relative to the component, None if it keeps its place.
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
    warning = f"the file does not have the lengths of its bones; they were taken from {name}."
    return replace(bones, offsets=offsets, source=name, warnings=(warning,)), positions[:, root]


@dataclass(frozen=True)
class BoneTables:
    """The two tables: parent and offset (metres) of each bone of a whole skeleton, in order."""

    parent: dict[str, str]
    offset: dict[str, Sequence[float]]
    source: str  # Names of the files
    asked: bool  # Whether the user named them

    @classmethod
    def beside(cls, path: Path, options: ReadOptions) -> BoneTables | None:
        """Read the tables that `options` name, else those in the folder of a file; None if there are none."""
        places = [path.parent, path.parent / "config", path.parent.parent / "config"]
        files = {
            name: given or next((place / name for place in places if (place / name).exists()), None)
            for name, given in ((HIERARCHY, options.hierarchy), (OFFSETS, options.offsets))
        }
        parent: dict[str, str] = {}
        offset: dict[str, Sequence[float]] = {}
        if file := files[OFFSETS]:
            parent, offset = _read_offsets(file)
        if file := files[HIERARCHY]:
            listed = _read_hierarchy(file)
            parent = listed if len(listed) >= len(parent) else parent | listed
        source = " and ".join(str(file.name) for file in files.values() if file)
        asked = options.hierarchy is not None or options.offsets is not None
        return cls(parent, offset, source, asked) if parent else None

    def bones(self, names: tuple[str, ...], number: int) -> Bones | str:
        """Return the skeleton of the named bones, of all if there are no names; or a text about what is wrong."""
        if not names:
            names = tuple(self.parent)
            if len(names) != number:
                return f"it has {len(names)} bones and the motion {number}, without names to match them."
        if unknown := [name for name in names if name not in self.parent]:
            return f"it has no bone {unknown[0]}."
        index = {name: place for place, name in enumerate(names)}
        parents, offsets, skipped = [], [], []
        for name in names:
            above, offset = self.parent[name], self.offset.get(name, (0.0, 0.0, 0.0))
            seen = {name}
            while above in self.parent and above not in index and above not in seen:
                seen.add(above)
                above = self.parent[above]
                if above in self.parent:
                    skipped.append(name)
            parents.append(index.get(above, -1))
            offsets.append(offset)
        warnings = []
        if short := [name for name in names if name not in self.offset]:
            warnings.append(
                f"{self.source} gives no offset for {count(len(short), 'bone')}, so without length: {short[0]}"
            )
        if left_out := [name for name in dict.fromkeys(skipped) if parents[index[name]] >= 0]:
            warnings.append(
                f"bones between {left_out[0]} and its parent are not in the motion; lengths there are too short."
            )
        return Bones(names, tuple(parents), torch.tensor(offsets, dtype=torch.float64), self.source, tuple(warnings))


def _read_hierarchy(path: Path) -> dict[str, str]:
    data = read_json(path, object)
    if not isinstance(data, dict) or not data or not all(isinstance(value, str | None) for value in data.values()):
        raise MotionkitError(
            f"{path} is not a table of bones and their parents.",
            why='expected a parent for each bone, null for the root: {"pelvis": null, "thigh_l": "pelvis"}.',
        )
    return {bone: parent or _NO_PARENT for bone, parent in data.items()}


def _read_offsets(path: Path) -> tuple[dict[str, str], dict[str, Sequence[float]]]:
    """Return parent and offset in metres of each bone."""
    data = read_json(path, object)
    listed = data.get("Bones") if isinstance(data, dict) else None
    if not isinstance(listed, list) or not listed or not isinstance(data, dict):
        raise MotionkitError(
            f"{path} is not a table of bone offsets.",
            why='expected a list of bones with the place of each in its parent: {"Units": "centimeters", "Bones": '
            '[{"Name": "thigh_l", "Parent": "pelvis", "Offset": [-1.4, 9.0, 0.0]}]}.',
        )
    unit = unit_called(str(data.get("Units", "centimeters")))
    if unit is None:
        raise MotionkitError(f"{path}: Units is {data['Units']!r}.", why="known units are meters, centimeters, ...")
    parent: dict[str, str] = {}
    offset: dict[str, Sequence[float]] = {}
    for place, bone in enumerate(listed):
        try:
            name, values = str(bone["Name"]), [float(value) * unit.metres for value in bone["Offset"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise MotionkitError(f"{path}: bone {place} has no Name or no Offset of three numbers.") from error
        if len(values) != 3 or not torch.tensor(values).isfinite().all():
            raise MotionkitError(f"{path}: Offset of bone {name} is not three finite numbers.")
        if name in parent:
            raise MotionkitError(f"{path}: two bones are called {name}.")
        parent[name], offset[name] = str(bone.get("Parent") or _NO_PARENT), values
    return parent, offset
