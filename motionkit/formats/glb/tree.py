"""The skeleton of a glTF file: which of its nodes are joints, their tree and their names."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motionkit.formats.glb.container import Container
from motionkit.formats.glb.keys import targets
from motionkit.motion.clip import BODY, MAPPED
from motionkit.motion.corpus.ids import one_line
from motionkit.motion.motion import END, numbered
from motionkit.rigs.roles import find_roles

MAX_JOINTS = 1000
"""As in BVH files: rigs with faces and clothes have hundreds."""

MAX_DEPTH = 200
"""Most nodes above a joint."""

_BODY = ("left hip", "right hip", "left knee", "right knee")
"""Roles that the nodes of a file without a skin must have to be a body."""


VRM_BONES = {
    "hips": "pelvis",
    "head": "head",
    **{
        f"{side}{bone}": f"{side} {role}"
        for side in ("left", "right")
        for bone, role in (
            ("UpperLeg", "hip"), ("LowerLeg", "knee"), ("Foot", "ankle"), ("Toes", "toe"), ("UpperArm", "shoulder"),
            ("LowerArm", "elbow"), ("Hand", "wrist"),
        )
    },
}  # fmt: skip
"""Bones of VRM's humanoid, to the roles of `find_roles`."""


@dataclass(frozen=True)
class Tree:
    """The nodes of a skeleton."""

    nodes: tuple[int, ...]  # Numbers of the J joints' nodes, each parent before its children
    parents: tuple[int, ...]  # Index of each joint's parent in `nodes`, -1 for the root
    names: tuple[str, ...]  # Names, unique
    above: tuple[int, ...]  # The nodes above the root, the outermost first
    warnings: tuple[str, ...]  # What was changed to make the names usable


def find_tree(file: Container) -> Tree:
    """Find the skeleton: joints of the skins and the nodes between them, or animated nodes that are a body by name.

    A VRM file says which of its nodes is which bone of a person, so its nodes may have any names.
    """
    parents, nodes = file.parents, file.items("nodes")
    skins, bones = file.items("skins"), vrm_bones(file)
    groups = [file.indices(skin.get("joints"), len(nodes), "nodes") for skin in skins]
    if any(not group for group in groups):
        raise file.error("a skin has no joints")
    if bones:
        groups = _of_one_person(parents, groups, sorted(bones))
    joints = {node for group in groups for node in group} if groups else _animated(file)
    if not joints:
        raise file.error(
            "there is no skeleton in it", why="it has no skin, and no node is animated.", fix="export the armature too."
        )
    if len(joints) > MAX_JOINTS:
        raise file.error(f"its skeleton has {len(joints)} joints; at most {MAX_JOINTS} are read")
    roots = {_common(parents, group) for group in groups} if groups else {_common(parents, sorted(joints))}
    tops = [root for root in roots if not any(top != root and _is_below(parents, root, top) for top in roots)]
    if len(tops) > 1 or tops[0] < 0:
        labels = ", ".join(_label(nodes, top) for top in sorted(tops) if top >= 0)
        several = f"it has {len(tops)} skeletons ({labels})" if len(tops) > 1 else "its joints have no root in common"
        raise file.error(several, why="one motion has one root.", fix="export one character for each file.")
    kept = _with_nodes_between(parents, joints, tops[0])
    if not skins:
        kept |= {node for node in _all_below(nodes, tops[0]) if not {"mesh", "camera"} & nodes[node].keys()}
    if len(kept) > MAX_JOINTS:
        raise file.error(f"its skeleton has {len(kept)} joints; at most {MAX_JOINTS} are read")
    order = _in_order(nodes, kept, tops[0])
    place = {node: number for number, node in enumerate(order)}
    own_parents = tuple(place.get(parents[node], -1) for node in order)
    names, warnings = _names([nodes[node].get("name") for node in order], own_parents)
    if bones:
        names = _named_by_bones(
            names, own_parents, {bone: place[node] for node, bone in bones.items() if node in place}
        )
    above = _above(parents, tops[0])
    if len(above) + _depth(own_parents) > MAX_DEPTH:
        raise file.error(f"its joints are nested deeper than {MAX_DEPTH}")
    if not skins and not bones and not all(role in find_roles(names, own_parents) for role in _BODY):
        raise file.error(
            "there is no skin in it, and its animated nodes are not a body by their names",
            why=f"they are {', '.join(names[:20])}.",
            fix="export the armature with a mesh that is bound to it.",
        )
    return Tree(tuple(order), own_parents, names, above, warnings)


def vrm_bones(file: Container) -> dict[int, str]:
    """Return the bones of a person that a VRM 1.0 or 0.x model or a VRM animation names, by the number of their node.

    Source: ``humanoid.humanBones`` of VRMC_vrm 1.0, VRMC_vrm_animation 1.0 and VRM 0.0 (vrm-c/vrm-specification).
    """
    extensions = file.document.get("extensions")
    bones: dict[int, str] = {}
    for name in ("VRMC_vrm", "VRMC_vrm_animation", "VRM"):
        table: object = extensions
        for key in (name, "humanoid", "humanBones"):
            table = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict):
            entries = [(bone, entry.get("node")) for bone, entry in table.items() if isinstance(entry, dict)]
        else:  # VRM 0.x has a list, in which -1 is no node
            rows = [row for row in table if isinstance(row, dict)] if isinstance(table, list) else []
            entries = [(row.get("bone"), row.get("node")) for row in rows]
        for bone, node in entries:
            if isinstance(bone, str) and isinstance(node, int) and node >= 0:
                bones.setdefault(file.index(node, len(file.items("nodes")), "nodes"), one_line(bone))
    return {node: bone for node, bone in bones.items() if bone}


def _of_one_person(parents: Sequence[int], groups: Sequence[Sequence[int]], bones: Sequence[int]) -> list[list[int]]:
    """Return the bones and what the skins bind to the same root as they: clothes may have bones of their own."""
    everything = sorted({*bones, *(node for group in groups for node in group)})
    if _common(parents, everything) >= 0:
        return [everything]
    top = (*_above(parents, bones[0]), bones[0])[0]
    return [[node for node in everything if node in bones or _is_below(parents, node, top)]]


def _named_by_bones(names: tuple[str, ...], parents: tuple[int, ...], bones: Mapping[str, int]) -> tuple[str, ...]:
    """Return names by which the joints are found as VRM's table has them: their own, or the table's."""
    known = {joint: VRM_BONES[bone] for bone, joint in bones.items() if bone in VRM_BONES}
    marked = {joint: MAPPED + BODY[role] for joint, role in known.items()}
    for table in ({}, {joint: bone for bone, joint in bones.items()}):
        found, doubled = _names([table.get(joint, name) for joint, name in enumerate(names)], parents)
        roles = find_roles(found, parents)
        if not doubled and all(roles.get(role) == joint for joint, role in known.items()):
            return found
    return _names([marked.get(joint, name) for joint, name in enumerate(names)], parents)[0]


def _animated(file: Container) -> set[int]:
    """Return the nodes with an animated transform."""
    return {node for animation in file.items("animations") for _, node, path in targets(file, animation)}


def _above(parents: Sequence[int], node: int) -> tuple[int, ...]:
    above: list[int] = []
    while (node := parents[node]) >= 0:
        above.append(node)
    return tuple(above[::-1])


def _depth(parents: Sequence[int]) -> int:
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 1)
    return max(depths)


def _common(parents: Sequence[int], group: Sequence[int]) -> int:
    """Return the lowest common ancestor of a group (possibly one of them); -1 for none."""
    counts: dict[int, int] = {}
    way = (*_above(parents, group[0]), group[0])
    shared = set(way)
    for node in group:
        while node not in shared and node >= 0:  # up to the path of the first node
            node = parents[node]
        counts[node] = counts.get(node, 0) + 1
    met = 0
    for node in reversed(way):
        met += counts.get(node, 0)
        if met == len(group):
            return node
    return -1


def _is_below(parents: Sequence[int], node: int, top: int) -> bool:
    while node >= 0 and node != top:
        node = parents[node]
    return node >= 0 and node == top


def _with_nodes_between(parents: Sequence[int], joints: set[int], top: int) -> set[int]:
    kept = {top}
    for node in joints:
        while node not in kept:
            kept.add(node)
            node = parents[node]
    return kept


def _all_below(nodes: Sequence[Mapping[str, Any]], top: int) -> Iterator[int]:
    waiting = [top]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += nodes[node].get("children", [])


def _in_order(nodes: Sequence[Mapping[str, Any]], kept: set[int], top: int) -> list[int]:
    """Return the nodes, parents first, else in the order of the file."""
    waiting, order = [top], []
    while waiting:
        node = heapq.heappop(waiting)
        order.append(node)
        for child in nodes[node].get("children", []):
            if child in kept:
                heapq.heappush(waiting, child)
    return order


def _label(nodes: Sequence[Mapping[str, Any]], node: int) -> str:
    name = nodes[node].get("name")
    return name if isinstance(name, str) and name else f"node {node}"


def _names(labels: Sequence[object], parents: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return unique names, and warnings; an end site is a joint without children that is named after its parent."""
    names: list[str] = []
    warnings: list[str] = []
    doubles: dict[str, int] = {}
    used: set[str] = set()
    for joint, name in enumerate(labels):
        plain = one_line(name) if isinstance(name, str) else ""
        if plain.endswith(END) and (joint in parents or names[parents[joint]] + END != plain):
            plain = f"{plain.removesuffix(END)}_End"
        if not plain:
            plain = f"joint {joint}"
            warnings.append(f"joint {joint} has no name; it is called {plain!r}.")
        unique, number = plain, 2
        while unique in used:
            unique, number = f"{plain} {number}", number + 1
        if unique != plain:
            doubles[plain] = doubles.get(plain, 1) + 1
        used.add(unique)
        names.append(unique)
    return tuple(names), (*warnings, *([numbered(doubles)] if doubles else []))
