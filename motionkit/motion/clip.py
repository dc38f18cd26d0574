"""A motion with its captions, features and notes; options of readers; tables of joint names; sources of clips."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from torch import Tensor

from motionkit.documents import parse_toml, read_text
from motionkit.errors import MotionkitError, did_you_mean
from motionkit.motion.corpus.captions import Caption, CaptionRow, captions_within
from motionkit.motion.corpus.ids import plain_id
from motionkit.motion.motion import END, JointMotion, Motion, in_short
from motionkit.motion.skeleton import HUMANML
from motionkit.page.wording import joined

MAPPED = "motionkit:"
"""Namespace of joints that a table names: ``motionkit:left_hip`` is the left hip, whatever its name in the file."""

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
"""Roles that are searched for in a rig, to the joints of the 22; spine, neck and collars follow from them."""

_LIMIT = 1 << 20
"""Bytes of a table."""

_BEYOND = 0.1
"""Seconds by which a clip's end in a table may be beyond the recording without a word: annotators round."""

Axis = Literal["x", "-x", "y", "-y", "z", "-z"]
Up = Literal["auto", "x", "-x", "y", "-y", "z", "-z"]
Unit = Literal["auto", "m", "dm", "cm", "mm", "in", "asf"]
Columns = Literal["auto", "xy", "xz", "yz", "yx", "zx", "zy"]


@dataclass(frozen=True)
class ReadOptions:
    """Facts about a motion file that may be missing from the file itself."""

    # Direction of up in the file; ``auto`` weighs the rest pose and how the body moves, see `motionkit.rigs.upright`.
    up: Up = "auto"
    # Unit of BVH and GLB files and joint arrays; ``auto`` looks at the length of the legs, ``asf`` is CMU's (5.64 cm).
    unit: Unit = "auto"
    fps: float = 0.0  # Frames per second, in place of what the file says; 0 takes that, or 20 where it says none
    # Which two columns of a rotation matrix the six numbers of a JSON file are; ``auto`` takes what ``meta.rot6d_spec``
    # names, else xy.
    rot6d_columns: Columns = "auto"
    hierarchy: Path | None = None  # FullHierarchy.json for JSON files without a skeleton
    offsets: Path | None = None  # FullOffsets.json for the same
    smpl_model: Path | None = None  # The user's own SMPL file for AMASS motions; None uses a default body
    joint_map: JointMap | None = None  # Names of the body's joints in BVH and GLB files
    clip: str = ""  # Which clip of a file with several: its `Clip.part`, see `choose_part`; empty for all
    # Settings that formats declare, by name; see `motionkit.formats.Setting`.
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Clip:
    """A motion as read from somewhere.

    Example:
        >>> import torch
        >>> motion = JointMotion(("hips",), (-1,), torch.zeros(40, 1, 3, dtype=torch.float64), fps=20.0)
        >>> clip = Clip(motion, captions=(Caption("stands"),), timed=(Caption("waits", start=1.0, end=2.0),))
        >>> clip.cut(0, 20).texts
        ('stands',)
    """

    motion: Motion | JointMotion  # The motion itself
    # ``[T, D]`` float32 when the clip came as HumanML3D or KIT features, a row for each frame of the motion and at its
    # rate; written back as they are.
    features: Tensor | None = None
    captions: tuple[Caption, ...] = ()  # Captions of all of it
    timed: tuple[Caption, ...] = ()  # Captions of a part of the clip, with their seconds
    split: str = ""  # ``train``, ``val``, ``test`` or empty
    group: str = ""  # Clips of one group never meet in two splits; empty for a group of its own
    # Its name in the source, such as that of an animation; empty if it has none. Any text: `clip_keys` makes it plain
    # for the names of files.
    part: str = ""
    # Facts for the record: format, unit, frames per second of the file.
    notes: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # What a person should look at, one sentence each
    # All splits that list it if there are several, which is a leak; `split` is then the last of them.
    splits: tuple[str, ...] = ()
    # Why this clip cannot be used although others of its source can; then nothing in `motion` is finite.
    fault: MotionkitError | None = None

    def __repr__(self) -> str:
        words = [in_short(self.motion), *(repr(text) for text in self.texts[:1])]
        return f"{type(self).__name__}({', '.join(words)})"

    def __post_init__(self) -> None:
        if self.features is not None and len(self.features) != self.motion.frames:
            raise MotionkitError(f"there are {len(self.features)} rows of features for {self.motion.frames} frames.")

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of every caption, those of the whole clip first."""
        return tuple(caption.text for caption in (*self.captions, *self.timed))

    def cut(self, start: int, stop: int) -> Clip:
        """Return frames ``start:stop`` with their features and their part of the timed captions."""
        fps = self.motion.fps
        return replace(
            self,
            motion=self.motion.cut(start, stop),
            features=None if self.features is None else self.features[start:stop],
            timed=captions_within(self.timed, start / fps, stop / fps),
        )

    def resample(self, fps: float) -> Clip:
        """Return the clip at another frame rate; features, which hold steps from frame to frame, are dropped."""
        if fps == self.motion.fps:
            return self
        return replace(self, motion=self.motion.resample(fps), features=None)

    def with_row(self, row: CaptionRow | None) -> Clip:
        """Return the clip, or the stretch of it that a table's row is of, with the row's captions, split and group.

        The row's captions replace all others.

        Raises:
            MotionkitError: The stretch is not in the clip.
        """
        if row is None:
            return self
        clip = self if row.whole else self._stretch(row)
        return replace(
            clip,
            captions=tuple(Caption(text) for text in row.captions) or clip.captions,
            timed=() if row.captions else clip.timed,
            split=row.split or clip.split,
            splits=() if row.split else clip.splits,
            group=row.group or clip.group,
        )

    def _stretch(self, row: CaptionRow) -> Clip:
        """Return the stretch of the clip between the times of a row."""
        fps, frames = self.motion.fps, self.motion.frames
        seconds = frames / fps
        start, stop = round(row.start * fps), min(round(row.end * fps) if row.end else frames, frames)
        if stop - start < 2:
            outside = f"the recording lasts {seconds:.4g} s." if row.start >= seconds else "that is not two frames."
            end = f"{row.end:g} s" if row.end else "the end"
            raise MotionkitError(f"{row.place}: from {row.start:g} s to {end}, and {outside}")
        clip = self.cut(start, stop)
        notes = {**clip.notes, "start": f"{start / fps:.9g}", "end": f"{stop / fps:.9g}"}
        if row.end <= seconds + _BEYOND:
            return replace(clip, notes=notes)
        beyond = f"{row.place}: the end {row.end:g} s is beyond the recording's {seconds:.4g} s, where the clip ends."
        return replace(clip, notes=notes, warnings=(*clip.warnings, beyond))


class ClipSource(Protocol):
    """One file, or one entry of a dataset, that can be loaded; it is sent to other processes, so it pickles."""

    @property
    def key(self) -> str:
        """The clip's id: no slash, no ``#``."""
        ...

    @property
    def origin(self) -> str:
        """Where the clip comes from, for messages."""
        ...

    def fingerprint(self) -> str:
        """Return a text that changes with the source: for a file its size, time and name."""
        ...

    def load(self) -> Sequence[Clip]:
        """Load its clips, one or several."""
        ...


def clip_keys(source: ClipSource, clips: Sequence[Clip], others: Container[str] = ()) -> list[str]:
    """Return the ids of the clips of a source, which are fit for file names (`plain_id`).

    A clip that is alone has the source's id; of several, each has its part behind it, without what programs put around
    all of them. Ids differ by more than case: parts that become one when they are made plain are numbered.

    Args:
        source: Where the clips come from.
        clips: All of its clips.
        others: Ids of other sources in lower case, which are not used again.
    """
    if len(clips) == 1:
        return [source.key]
    keys: list[str] = []
    used: set[str] = set()
    for part in _short_parts([clip.part for clip in clips]):
        plain = key = plain_id(f"{source.key}_{part}")
        number = 2
        while key.lower() in used or key.lower() in others:
            key, number = plain_id(f"{plain}_{number}"), number + 1
        used.add(key.lower())
        keys.append(key)
    return keys


def row_keys(key: str, rows: Sequence[CaptionRow], others: Container[str] = ()) -> list[tuple[str, CaptionRow | None]]:
    """Return the id and the row of each clip that a table makes of a clip: stretches are ``KEY_s0``, ``KEY_s1``, ...

    Args:
        key: The clip's id.
        rows: Its rows, in the order of their times; without any it is one clip as it is.
        others: Ids of other sources in lower case, which are not used again.
    """
    found: list[tuple[str, CaptionRow | None]] = [(key, row) for row in rows if row.whole]
    for place, row in enumerate(row for row in rows if not row.whole):
        plain = name = plain_id(f"{key}_s{place}")
        number = 2
        while name.lower() in others:
            name, number = plain_id(f"{plain}_{number}"), number + 1
        found.append((name, row))
    return found or [(key, None)]


def choose_part(parts: Sequence[str], wanted: str, origin: str) -> int:
    """Return which of the parts of a source ``--clip`` means.

    Args:
        parts: `Clip.part` of each of its clips.
        wanted: A part, whole or as file names have it (``walk`` of ``Armature|walk``); upper and lower case do not
            matter where one part alone fits.
        origin: The source, for messages.
    """
    exact = list(parts), _short_parts(parts)
    folded = ([name.casefold() for name in names] for names in exact)
    for names, word in (*((names, wanted) for names in exact), *((names, wanted.casefold()) for names in folded)):
        if names.count(word) == 1:
            return names.index(word)
    pieces = [number for number, part in enumerate(parts) if wanted in part.split("|")]
    if len(pieces) == 1:
        return pieces[0]
    named = [part for part in parts if part]
    if not named:
        raise MotionkitError(f"{origin} holds one motion, which has no name.", fix="leave --clip out.")
    raise MotionkitError(
        f"{origin} has no motion called {wanted!r}.",
        why=f"it has {joined(named, 20)}.",
        fix=did_you_mean(wanted, named) or "--clip with one of these names.",
        choices=named,
    )


def _short_parts(parts: Sequence[str]) -> list[str]:
    """Return the parts without what programs put around all of them: of ``Armature|walk|Layer0`` that is ``walk``."""
    split = [part.split("|") for part in parts]
    if len(parts) < 2:
        return list(parts)
    owners: set[str] = set()
    for end in (0, -1):
        while min(map(len, split)) > 1 and len({names[end] for names in split}) == 1:
            owners.update(names.pop(end) for names in split)
    for owner in owners:
        if all(names[-1].removesuffix(f"_{owner}") not in ("", names[-1]) for names in split):
            split = [[*names[:-1], names[-1].removesuffix(f"_{owner}")] for names in split]
    short = ["|".join(names) for names in split]
    return short if all(short) and len({*short}) == len(short) else list(parts)


@dataclass(frozen=True)
class JointMap:
    """A table of joint names."""

    path: Path  # Its file
    rows: tuple[tuple[str, str, int], ...]  # The body's joint, the rig's joint and the line, for each filled-in joint

    def __str__(self) -> str:
        return str(self.path)

    def apply(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return joint names with those of the table replaced by ``motionkit:left_hip`` and so on.

        A rig without any of the table's joints is another one and keeps its names.
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

    Example:
        >>> size = Path("rig.toml").write_text('left_hip = "thigh_stretch.l"')
        >>> read_joint_map(Path("rig.toml")).apply(["root.x", "thigh_stretch.l"])
        ('root.x', 'motionkit:left_hip')
    """
    text = read_text(path, limit=_LIMIT)
    lines = {line.partition("=")[0].strip().strip("\"'"): number for number, line in enumerate(text.split("\n"), 1)}
    filled: dict[str, str] = {}
    rows = []
    for ours, theirs in parse_toml(text, str(path)).items():
        line = lines.get(ours, 1)
        if ours not in HUMANML.joint_names:
            raise _error(path, line, f"{ours!r} is not a joint of the body", ours, HUMANML.joint_names)
        if not isinstance(theirs, str):
            raise MotionkitError(f"{path}, line {line}: {ours} is not a name.", fix=f'{ours} = "name of your joint"')
        if not theirs:
            continue
        if theirs in filled:
            raise MotionkitError(
                f"{path}, line {line}: {ours} and {filled[theirs]} are the same joint {theirs!r}.",
                fix='correct one of them, or leave it empty: ""',
            )
        filled[theirs] = ours
        rows.append((ours, theirs, line))
    if not rows:
        raise MotionkitError(f"{path} names no joint.", fix='fill in lines such as left_hip = "thigh_stretch.l".')
    return JointMap(path, tuple(rows))


def joint_map_text(names: Sequence[str], roles: Mapping[str, int], origin: str) -> str:
    """Return a table to edit, with the joints that were found by their names filled in."""
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


def _error(path: Path, line: int, message: str, name: str, joints: Sequence[str]) -> MotionkitError:
    choices = [joint for joint in joints if not joint.endswith(END)]
    fix = did_you_mean(name, choices) or f"known: {', '.join(choices[:60])}."
    return MotionkitError(f"{path}, line {line}: {message}.", fix=fix, choices=choices)
