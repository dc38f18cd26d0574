"""Skeletons of exported motions, and the tables FullHierarchy.json and FullOffsets.json that hold a whole one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.formats.table import TABLES
from motionkit.motion.clip import ReadOptions
from motionkit.rigs.rest import unit_called

HIERARCHY, OFFSETS = TABLES

UNKNOWN = "unknown"
"""`Bones.source` of a motion without a known skeleton."""


@dataclass(frozen=True)
class Bones:
    """A skeleton in the order of the file's rotations, which need not put parents first."""

    names: tuple[str, ...]  # N bone names
    parents: tuple[int, ...]  # Parent of each, -1 for the root
    offsets: Tensor  # ``[N, 3]`` metres from the parent at rest, in the file's axes
    source: str  # Where it was found, for the record; `UNKNOWN` without any
    warnings: tuple[str, ...] = ()  # What a person should look at
    tree: bool = True  # The parents are known

    def warned(self, said: str) -> Bones:
        """Return the skeleton with one more warning."""
        return replace(self, warnings=(*self.warnings, said))

    def order(self, origin: str) -> list[int]:
        """Return the bones with every parent before its children, otherwise in order."""
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


@dataclass(frozen=True)
class BoneTables:
    """The two tables: parent and offset (metres) of each bone of a whole skeleton, in order."""

    parent: dict[str, str]
    offset: dict[str, Sequence[float]]
    source: str
    asked: bool

    @classmethod
    def beside(cls, path: Path, options: ReadOptions) -> BoneTables | None:
        """Read the tables that `options` name, else those beside a file; None if there are none."""
        places = [path.parent, path.parent / "config", path.parent.parent / "config"]
        found = {
            name: given or next((place / name for place in places if (place / name).exists()), None)
            for name, given in ((HIERARCHY, options.hierarchy), (OFFSETS, options.offsets))
        }
        parent: dict[str, str] = {}
        offset: dict[str, Sequence[float]] = {}
        if file := found[OFFSETS]:
            parent, offset = _read_offsets(file)
        if file := found[HIERARCHY]:
            listed = _read_hierarchy(file)
            parent = listed if len(listed) >= len(parent) else parent | listed
        source = " and ".join(str(file.name) for file in found.values() if file)
        asked = options.hierarchy is not None or options.offsets is not None
        return cls(parent, offset, source, asked) if parent else None

    def bones(self, names: tuple[str, ...], count: int) -> Bones | str:
        """Return the skeleton of the named bones, of all when there are no names; else what is wrong."""
        if not names:
            names = tuple(self.parent)
            if len(names) != count:
                return f"it has {len(names)} bones and the motion {count}, without names to tell which."
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
            warnings.append(f"{self.source} gives no offset for {len(short)} bone(s); they have no length: {short[0]}")
        if left_out := [name for name in dict.fromkeys(skipped) if parents[index[name]] >= 0]:
            warnings.append(
                f"bones between {left_out[0]} and its parent are not in the motion; lengths there are too short."
            )
        return Bones(names, tuple(parents), torch.tensor(offsets, dtype=torch.float64), self.source, tuple(warnings))


def _read_hierarchy(path: Path) -> dict[str, str]:
    data = read_json(path, object)
    if not isinstance(data, dict) or not data or not all(isinstance(value, str) for value in data.values()):
        raise MotionkitError(f"{path} is no table of bones and their parents.", why='expected {"hand": "arm", ...}.')
    return data


def _read_offsets(path: Path) -> tuple[dict[str, str], dict[str, Sequence[float]]]:
    """Return parent and offset in metres of each bone."""
    data = read_json(path, object)
    listed = data.get("Bones") if isinstance(data, dict) else None
    if not isinstance(listed, list) or not listed or not isinstance(data, dict):
        raise MotionkitError(f"{path} is no table of bone offsets.", why="expected Bones: a list of Name, Offset.")
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
        parent[name], offset[name] = str(bone.get("Parent", "None")), values
    return parent, offset
