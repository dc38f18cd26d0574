"""A table of joint names: which joint of a rig is which of the 22 joints, for rigs whose names say nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from motionkit.documents import parse_toml, read_text
from motionkit.errors import MotionkitError
from motionkit.errors._near import did_you_mean
from motionkit.motion._motion import END
from motionkit.motion._skeleton import HUMANML

MAPPED = "motionkit:"
"""Namespace of joints that a table named: ``motionkit:left_hip`` is the left hip, whatever others are called."""

_LIMIT = 1 << 20
"""Bytes of a table."""

BODY = {
    "pelvis": "pelvis",
    "head": "head",
    **{
        f"{side} {role}": f"{side}_{joint}"
        for side in ("left", "right")
        for role, joint in (
            ("hip", "hip"), ("knee", "knee"), ("ankle", "ankle"), ("toe", "foot"), ("shoulder", "shoulder"),
            ("elbow", "elbow"), ("wrist", "wrist"),
        )
    },
}  # fmt: skip
"""Roles that are looked for in a rig, to the joints of the 22; spine, neck and collars follow from them."""


@dataclass(frozen=True)
class JointMap:
    """A table of joint names.

    Attributes:
        path: Its file.
        rows: Our joint, the rig's joint and the line, for each joint that is filled in.
    """

    path: Path
    rows: tuple[tuple[str, str, int], ...]

    def __str__(self) -> str:
        return str(self.path)

    def apply(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return joint names in which those of the table are called ``motionkit:left_hip``, and so on.

        A rig without any of the table's joints is another one and keeps its names.

        Raises:
            MotionkitError: Some joints of the table are in the rig and others are not; names the line.
        """
        if not any(theirs in names for _, theirs, _ in self.rows):
            return tuple(names)
        for _, theirs, line in self.rows:
            if theirs not in names:
                raise _error(self.path, line, f"there is no joint {theirs!r} in the file", theirs, names)
        new = {theirs: MAPPED + ours for ours, theirs, _ in self.rows}
        ends = {theirs + END: name + END for theirs, name in new.items()}
        return tuple({**new, **ends}.get(name, name) for name in names)


def read_joint_map(path: Path) -> JointMap:
    """Read a table: TOML with a line ``left_hip = "thigh_stretch.l"`` for each joint; empty ones count as left out.

    Raises:
        MotionkitError: The file is missing, no TOML, names no joint of ours, or one joint twice; names the line.

    Example:
        >>> size = Path("rig.toml").write_text('left_hip = "thigh_stretch.l"')
        >>> read_joint_map(Path("rig.toml")).apply(["root.x", "thigh_stretch.l"])
        ('root.x', 'motionkit:left_hip')
    """
    text = read_text(path, limit=_LIMIT)
    lines = {line.partition("=")[0].strip().strip("\"'"): number for number, line in enumerate(text.split("\n"), 1)}
    taken: dict[str, str] = {}
    rows = []
    for ours, theirs in parse_toml(text, str(path)).items():
        line = lines.get(ours, 1)
        if ours not in HUMANML.joint_names:
            raise _error(path, line, f"{ours!r} is no joint of the body", ours, HUMANML.joint_names)
        if not isinstance(theirs, str):
            raise MotionkitError(f"{path}, line {line}: {ours} is no name.", fix=f'{ours} = "name of your joint"')
        if not theirs:
            continue
        if theirs in taken:
            raise MotionkitError(
                f"{path}, line {line}: {ours} and {taken[theirs]} are the same joint {theirs!r}.",
                fix='correct one of them, or leave it empty: ""',
            )
        taken[theirs] = ours
        rows.append((ours, theirs, line))
    if not rows:
        raise MotionkitError(f"{path} names no joint.", fix='fill in lines such as left_hip = "thigh_stretch.l".')
    return JointMap(path, tuple(rows))


def joint_map_text(names: Sequence[str], roles: Mapping[str, int], origin: str) -> str:
    """Return a table to edit: what was found by names is filled in, the gaps are empty.

    Args:
        names: Joints of the rig.
        roles: Roles to joints, as far as they are known.
        origin: The file that the rig is from.
    """
    guesses = {joint: names[roles[role]] for role, joint in BODY.items() if role in roles}
    joints = [json.dumps(name, ensure_ascii=False) for name in names if not name.endswith(END)]
    about = [
        "Which joint of the rig is which joint of the body. Fill the gaps, correct what is wrong, and give this file",
        "with --joint-map. Spine, neck, collars and feet may stay empty: they follow from the other joints.",
        "",
        f"The {len(joints)} joints of {origin}:",
        *(f"  {name}" for name in joints),
    ]
    ordered = sorted(HUMANML.joint_names, key=lambda joint: ("left_" in joint) + 2 * ("right_" in joint))
    table = [f"{joint} = {json.dumps(guesses.get(joint, ''), ensure_ascii=False)}" for joint in ordered]
    return "\n".join([*(f"# {line}".rstrip() for line in about), "", *table, ""])


def _error(path: Path, line: int, what: str, name: str, known: Sequence[str]) -> MotionkitError:
    plain = [other for other in known if not other.endswith(END)]
    fix = did_you_mean(name, plain) or f"known: {', '.join(plain[:60])}."
    return MotionkitError(f"{path}, line {line}: {what}.", fix=fix, choices=plain)
