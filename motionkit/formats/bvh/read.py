"""Reading a BVH file: its tree of joints, its frames, and the motion in metres, right-handed, Y up."""

from __future__ import annotations

import codecs
import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.formats.bvh.euler import euler_to_matrix
from motionkit.motion.clip import Clip, JointMap, ReadOptions
from motionkit.motion.motion import END, Motion, check_size, finite_frames, numbered
from motionkit.rigs.detect import UNITS, in_metres
from motionkit.rigs.upright import AXES

MAX_BYTES = 512 * 2**20
"""Largest file; an hour of 60 joints at 60 fps has about 400 MB."""

MAX_JOINTS = 1000
"""Rigs with faces and clothes have hundreds of joints; a file with more is damaged or malicious."""

MAX_DEPTH = 200
POSITIONS = ("Xposition", "Yposition", "Zposition")
ROTATIONS = ("Xrotation", "Yrotation", "Zrotation")

_POSE_BYTES = 256 * 2**10
"""Bytes read for the joints and one frame: 300 joints take about 40 kB."""

_PLAIN = ReadOptions()


def read_bvh(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip]:
    """Read a BVH file.

    Rotation channels may be in any order, which may differ between joints; position channels may be at any joint and
    replace its OFFSET. Windows line ends, tabs, lower-case keywords and names with blanks are fine.

    Args:
        path: The file.
        options: Unit and vertical axis, if they are known. Otherwise rest pose and motion give the axis
            (`motionkit.rigs.upright`), and the unit is the one in which the legs are as long as a person's.

    Returns:
        One clip. Its `Motion` is in metres and Y up, with every frame and joint of the file; notes hold format, unit,
        fps, frames, joints, up. If a channel is not finite the joint has NaN in that frame, with a warning.

    Example:
        >>> _ = Path("fall.bvh").write_text('''HIERARCHY
        ... ROOT Hips {
        ...   OFFSET 0 0 0
        ...   CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
        ...   End Site { OFFSET 0 10 0 }
        ... }
        ... MOTION
        ... Frames: 2
        ... Frame Time: 0.05
        ... 0 90 0 0 0 0
        ... 0 80 0 0 0 0''')
        >>> (clip,) = read_bvh(Path("fall.bvh"), ReadOptions(unit="cm"))
        >>> clip.motion.fps, clip.motion.positions()[:, 0, 1].tolist()
        (20.0, [0.9, 0.8])
    """
    if options.unit != "auto" and options.unit not in UNITS:
        raise MotionkitError(f"there is no unit {options.unit!r}.", fix=f"known: auto, {', '.join(UNITS)}.")
    if options.up not in ("auto", *AXES):
        raise MotionkitError(f"{options.up!r} is not a direction of up.", fix=f"known: auto, {', '.join(AXES)}.")
    data = _data(path)
    try:
        motion, finite, warnings = _parse(_text(data), options.joint_map)
    except MotionkitError as error:
        raise MotionkitError(f"{path}: {error.message}", why=error.why, fix=error.fix) from error
    motion, notes, more = in_metres(motion, finite, options)
    return (Clip(motion, notes={"format": "BVH", **notes}, warnings=(*warnings, *more)),)


def read_bvh_pose(path: Path, options: ReadOptions = _PLAIN) -> Motion:
    """Read only the joints and the first frame of a BVH file, in its unit and axes.

    Returns:
        A motion of one frame: the rest pose if the first frame has a value that is not finite.
    """
    text = _text(_data(path, _POSE_BYTES))
    tree, start = parse_hierarchy(text)
    fps, row = parse_first_frame(text, start, tree)
    values = torch.from_numpy(row)
    if bool(values.isfinite().all()):
        return _motion(tree, values, fps, options.joint_map)
    rest = _motion(tree, torch.zeros_like(values), fps, options.joint_map)
    return replace(rest, translations=rest.offsets[None])


def _data(path: Path, most: int = -1) -> bytes:
    try:
        with open_file(path, MAX_BYTES) as file:
            return file.read(most)
    except OSError as error:
        raise MotionkitError(f"{path} cannot be read: {error.strerror or error}.") from error


def _text(data: bytes) -> str:
    if not data.strip():
        raise MotionkitError("it is not a BVH file.", why="it is empty.")
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    if "\ufffd" in text[:65536] and not wide:
        # Japanese programs write joint names in this code page; it must not be used for names in any other.
        japanese = data.decode("cp932", errors="replace")
        text = japanese if "左" in japanese and "右" in japanese else text
    if "\0" in text[:65536]:
        raise MotionkitError("it is not a BVH file.", why="it is not text.")
    # Old Macs end lines with a carriage return alone.
    return text if "\n" in text else text.replace("\r", "\n")


def _parse(text: str, table: JointMap | None) -> tuple[Motion, Tensor, list[str]]:
    """Return the motion as the file has it, a mask ``[T]`` of its finite frames, and warnings."""
    tree, start = parse_hierarchy(text)
    fps, rows = parse_frames(text, start, tree)
    values = torch.from_numpy(rows)
    return _motion(tree, values, fps, table), finite_frames(values), tree.warnings


def _motion(tree: Hierarchy, values: Tensor, fps: float, table: JointMap | None) -> Motion:
    """Return the motion of channel values ``[T, channels]``, in the file's unit and axes."""
    names = tuple(tree.names) if table is None else table.apply(tree.names)
    rotations, translations = _to_local(tree, values)
    offsets = torch.tensor(tree.offsets, dtype=torch.float64)
    return Motion(names, tuple(tree.parents), offsets, rotations, translations, fps)


def _to_local(tree: Hierarchy, values: Tensor) -> tuple[Tensor, Tensor]:
    """Turn channel values ``[T, channels]`` (degrees, the file's unit) into local motion.

    Returns:
        Rotations ``[T, J, 3, 3]`` (identity for a joint without rotation channels) and translations ``[T, J, 3]``: the
        OFFSET, unless position channels replace it.
    """
    frames, joints = len(values), len(tree.names)
    translations = torch.tensor(tree.offsets, dtype=torch.float64).flatten().repeat(frames, 1)
    rotations = torch.zeros(frames, joints, 9, dtype=torch.float64)
    rotations[..., ::4] = 1.0
    # Joints with the same rotation order are computed together: order -> (joints, columns of their values).
    groups: dict[str, tuple[list[int], list[list[int]]]] = {}
    moved: list[int] = []
    sources: list[int] = []
    column = 0
    for joint, channels in enumerate(tree.channels):
        order, columns = "", []
        for name in channels:
            if name in POSITIONS:
                moved.append(3 * joint + POSITIONS.index(name))
                sources.append(column)
            else:
                order += name[0]
                columns.append(column)
            column += 1
        if order:
            members, places = groups.setdefault(order, ([], []))
            members.append(joint)
            places.append(columns)
    translations[:, moved] = values[:, sources]
    for order, (members, places) in groups.items():
        angles = values[:, torch.tensor(places).T.flatten()].view(frames, len(order), len(members))
        rotations[:, members] = euler_to_matrix(order, (angles * (math.pi / 180)).unbind(dim=1))
    return rotations.view(frames, joints, 3, 3), translations.view(frames, joints, 3)


# The HIERARCHY section: a tree of joints with their offsets and channels.

_WORD = re.compile(r"[{}]|[^\s{}]+")
_OPENING = ("ROOT", "JOINT", "END")
_KNOWN = ", ".join(POSITIONS + ROTATIONS)

COMMAS = (
    "numbers are written with a decimal comma, which BVH does not have.",
    "export the file again with decimal points (an English locale).",
)


@dataclass
class Hierarchy:
    """The tree of a BVH file, in the file's own unit."""

    names: list[str] = field(default_factory=list)  # Joint names, unique; an end site is called ``<parent> End``
    parents: list[int] = field(default_factory=list)  # Parent of each joint, -1 for the root
    offsets: list[list[float]] = field(default_factory=list)  # OFFSET of each joint
    channels: list[list[str]] = field(default_factory=list)  # Channel names of each joint, in usual spelling
    warnings: list[str] = field(default_factory=list)  # What was changed to make the names usable

    @property
    def width(self) -> int:
        """Number of values per frame."""
        return sum(map(len, self.channels))

    def channel(self, column: int) -> str:
        """Return joint and channel of a column of the MOTION section, for messages."""
        for name, channels in zip(self.names, self.channels, strict=True):
            if column < len(channels):
                return f"{name} {channels[column]}"
            column -= len(channels)
        raise IndexError(column)


def parse_hierarchy(text: str) -> tuple[Hierarchy, int]:
    """Parse everything up to the word MOTION.

    Returns:
        The tree, and the position in `text` after the word MOTION.
    """
    for place, (known, tree, start) in enumerate(_RECENT):
        if text.startswith(known):
            _RECENT.insert(0, _RECENT.pop(place))
            return replace(tree, warnings=list(tree.warnings)), start
    tree, start = _Reader(text).read()
    if start < min(len(text), _POSE_BYTES):
        _RECENT.insert(0, (text[: start + 1], replace(tree, warnings=list(tree.warnings)), start))
        del _RECENT[_MOST_RECENT:]
    return tree, start


_MOST_RECENT = 32
_RECENT: list[tuple[str, Hierarchy, int]] = []
"""Sections that were read last, each with the letter after it, their trees, and where they end: the files of a folder
are of few skeletons, and each is read twice, for its pose and for its frames."""


class _Reader:
    """A parser of the section, word by word."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: Iterator[re.Match[str]] = _WORD.finditer(text)
        self.tree = Hierarchy()
        self.open: list[int] = []
        self.at = 0

    def read(self) -> tuple[Hierarchy, int]:
        word = self.next()
        if word.upper() != "HIERARCHY":
            raise MotionkitError("it is not a BVH file.", why="it does not begin with the word HIERARCHY.")
        while (word := self.next().upper()) != "MOTION":
            if word in _OPENING:
                self.open_joint(word)
            elif word == "}":
                if not self.open:
                    raise self.error("there is a } too many")
                self.open.pop()
            elif word == "OFFSET" and self.open:
                self.tree.offsets[self.open[-1]] = [self.number() for _ in range(3)]
            elif word == "CHANNELS" and self.open:
                self.tree.channels[self.open[-1]] = self.channels()
            else:
                raise self.error(f"{word[:40]!r} is not expected")
        if self.open:
            raise self.error(f"MOTION begins before joint {self.tree.names[self.open[-1]]} is closed: a }} is missing")
        if not self.tree.names:
            raise self.error("there is no ROOT")
        _unique_names(self.tree)
        return self.tree, self.at + len(word)

    def next(self) -> str:
        match = next(self.words, None)
        if match is None:
            self.at = len(self.text)
            raise self.error("the file ends before its MOTION section")
        self.at = match.start()
        return match[0]

    def number(self) -> float:
        word = self.next()
        value = parse_number(word)
        if value is None or not math.isfinite(value):
            raise self.error(f"the OFFSET of {self.tree.names[self.open[-1]]} has {word[:40]!r} for a number", word)
        return value

    def open_joint(self, kind: str) -> None:
        names, parent = self.tree.names, self.open[-1] if self.open else -1
        if (parent < 0) != (kind == "ROOT"):
            what = "a ROOT is inside a joint" if kind == "ROOT" else f"a {kind} is outside of the ROOT"
            raise self.error(f"{what}: a brace is missing or too many")
        if parent < 0 and names:
            why = "one motion has one root; files with several people have several."
            raise self.error("there is a second ROOT", why=why, fix="export one file for each person.")
        start = self.at + len(kind)
        brace = self.text.find("{", start, start + 1000)
        name = self.text[start:brace].strip()
        if brace < 0 or "\n" in name or "}" in name:
            raise self.error(f"there is no {{ after {kind} {name.splitlines()[0][:40] if name else ''}".rstrip())
        while self.next() != "{":
            pass
        name = " ".join(name.split())
        if kind == "END":
            name = re.sub(r"(?i)^site\b\s*", "", name).removesuffix(END)
            name = (name or names[parent]) + END
        elif name.endswith(END):
            name = f"{name.removesuffix(END)}_End"  # only an end site is called so inside motionkit
        if any(names[joint] == name for joint in self.open):
            raise self.error(f"joint {name} is inside itself", why="a joint cannot be its own ancestor.")
        if not name:
            name = f"joint {len(names)}"
            self.tree.warnings.append(f"joint {len(names)} has no name; it is called {name!r}.")
        if len(names) >= MAX_JOINTS:
            raise self.error(f"there are more than {MAX_JOINTS} joints")
        if len(self.open) >= MAX_DEPTH:
            raise self.error(f"joints are nested deeper than {MAX_DEPTH}")
        names.append(name)
        self.tree.parents.append(parent)
        self.tree.offsets.append([0.0, 0.0, 0.0])
        self.tree.channels.append([])
        self.open.append(len(names) - 1)

    def channels(self) -> list[str]:
        joint, word = self.tree.names[self.open[-1]], self.next()
        if not word.isdecimal() or not word.isascii() or len(word) > 2 or int(word) > 6:
            raise self.error(f"{joint} has {word[:40]!r} CHANNELS", why="a joint has 0 to 6.")
        names = []
        for _ in range(int(word)):
            word = self.next()
            name = word[:1].upper() + word[1:].lower()
            if name not in POSITIONS + ROTATIONS:
                raise self.error(f"{joint} has an unknown channel {word[:40]!r}", why=f"known: {_KNOWN}.")
            if name in POSITIONS and name in names:
                raise self.error(f"{joint} has the channel {name} twice")
            names.append(name)
        if sum(name in ROTATIONS for name in names) > 3:
            raise self.error(f"{joint} has more than three rotation channels")
        return names

    def error(self, what: str, word: str = "", *, why: str = "", fix: str = "") -> MotionkitError:
        line = self.text.count("\n", 0, self.at) + 1
        if "," in word and parse_number(word.replace(",", ".")) is not None:
            why, fix = COMMAS
        return MotionkitError(f"line {line}: {what}.", why=why, fix=fix or "export the file again.")


def parse_number(word: str) -> float | None:
    """Return a number of a BVH file; None for anything else, such as ``1_0`` and ``1,5``."""
    if "_" in word:
        return None
    try:
        return float(word)
    except ValueError:
        return None


def _unique_names(tree: Hierarchy) -> None:
    """Number joints that share a name, with a warning unless they are end sites."""
    used: set[str] = set()
    doubles: dict[str, int] = {}
    written = list(tree.names)
    everything = set(written)
    for joint, name in enumerate(written):
        parent = tree.parents[joint]
        if parent >= 0 and name == written[parent] + END:
            name = tree.names[parent] + END
        unique, number = name, 2
        while unique in used or (unique != name and unique in everything):
            unique = f"{name.removesuffix(END)} {number}{END if name.endswith(END) else ''}"
            number += 1
        used.add(unique)
        tree.names[joint] = unique
        if unique != name and not name.endswith(END):
            doubles[name] = written.count(name)
    if doubles:
        tree.warnings.append(numbered(doubles))


# The MOTION section: number of frames, their rate, and their values.

Values = npt.NDArray[np.float64]

_NUMBER_WORD = re.compile(r":|[^\s:]+")
_PLAIN_WORD = re.compile(r"\S+")
_BLANK = re.compile(r"\s*\Z")
_SECONDS = 1e-4, 10.0
"""Shortest and longest seconds per frame. Others are mistakes, or would fill the memory when resampled."""

_USUAL_RATES = (30, 60, 120, 24, 25, 50, 100, 20, 15, 10, 12.5, 12, 48, 72, 75, 90, 144, 180, 200, 240, 250)
"""Frame rates of cameras and screens, the commonest first; 12.5 is KIT's."""

_COARSE, _FINEST, _EXACT = 5, 6, 10
"""Decimals: of rounded seconds, at most; of a rate that is tried, at most; of exact seconds, at least."""


def parse_frames(text: str, start: int, tree: Hierarchy) -> tuple[float, Values]:
    """Parse everything after the word MOTION.

    Rows of one frame each beyond the stated number are frames too, with a warning in `tree`, as in other programs.

    Returns:
        Frames per second, and ``[T, channels]`` values; those that are not finite are NaN.
    """
    frames, rate, start = _header(text, start)
    width = tree.width
    if not width:
        raise MotionkitError("there is no motion in it.", why="no joint has channels.")
    # A value takes a digit and a blank, so a false count is refused before memory is allocated for it.
    if frames * width > (len(text) - start + 1) // 2:
        raise MotionkitError(
            f"expected {frames} frames x {width} values, found only {len(text) - start} characters.",
            fix="the file is cut short, or its number of frames is wrong: export it again.",
        )
    check_size(frames, len(tree.names))
    if _BLANK.match(text, start):
        raise _miscount(frames, width, 0)
    try:
        values: Values = np.loadtxt(_lines(text, start), dtype=np.float64, comments=None, ndmin=2)
    except ValueError:
        values = _word_by_word(text, start, frames, tree)
    if values.shape != (frames, width):
        if values.shape[1:] == (width,) and len(values) > frames:
            check_size(len(values), len(tree.names))
            tree.warnings.append(f"Frames says {frames}, {len(values)} rows are there; all of them were read.")
        elif values.size != frames * width:
            raise _miscount(frames, width, values.size)
        else:
            values = values.reshape(frames, width)
    finite = np.isfinite(values)
    if not finite.all():
        if not finite.all(axis=1).any():
            first = tree.channel(int(np.argwhere(~finite)[0, 1]))
            raise MotionkitError(
                f"every frame has a value that is not finite (NaN or infinite); the first is at {first}.",
                fix="the file is damaged: export it again.",
            )
        values[~finite] = np.nan
    return rate, values


def parse_first_frame(text: str, start: int, tree: Hierarchy) -> tuple[float, Values]:
    """Parse the first frame of a text that may end after it; as `parse_frames`, with ``[1, channels]`` values."""
    _, rate, start = _header(text, start)
    words = text[start:].split(maxsplit=tree.width)[: tree.width]
    values = [parse_number(word) for word in words]
    if not values or len(values) < tree.width or None in values:
        raise MotionkitError("its first frame is incomplete.", fix="the file is cut short or damaged: export it again.")
    return rate, np.array([values], dtype=np.float64)


def _lines(text: str, start: int) -> Iterator[str]:
    """Yield lines one by one, as a list of them would double the memory for a large file."""
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _header(text: str, start: int) -> tuple[int, float, int]:
    """Return the number of frames, their rate, and where the values begin."""
    matches = [match for _, match in zip(range(7), _NUMBER_WORD.finditer(text, start), strict=False)]
    words = [match[0] for match in matches if match[0] != ":"][:5]
    if len(words) < 5 or [words[place].lower() for place in (0, 2, 3)] != ["frames", "frame", "time"]:
        raise MotionkitError(
            "its MOTION section does not begin with 'Frames: ...' and 'Frame Time: ...'.",
            fix="the file is cut short or damaged: export it again.",
        )
    if not re.fullmatch(r"[0-9]{1,18}", words[1]) or int(words[1]) < 1:
        raise MotionkitError(f"'Frames: {words[1][:40]}' is not a number of frames.", fix="export the file again.")
    seconds = parse_number(words[4])
    if seconds is None or not _SECONDS[0] <= seconds <= _SECONDS[1]:
        why, fix = COMMAS if "," in words[4] else (f"{_SECONDS[0]} to {_SECONDS[1]:g} s are read.", "export it again.")
        raise MotionkitError(f"'Frame Time: {words[4][:40]}' is not a number of seconds per frame.", why=why, fix=fix)
    end = next(match.end() for match in reversed(matches) if match[0] == words[4])
    return int(words[1]), frame_rate(words[4]), end


def frame_rate(seconds: str) -> float:
    """Return frames per second from seconds per frame as written, with their rounding undone.

    ``0.0333333``, ``0.033`` and ``0.0330000`` are 30, ``0.008330`` is 120, ``0.0333667`` is 29.97. It is a whole rate
    if that is within 1e-4; for few digits, the commonest rate that rounds to them; else the rate with fewest decimals
    that rounds to them. Trailing zeros count as digits only if there are `_EXACT` decimals, as motionkit writes them:
    programs that round to milliseconds pad with zeros to six or seven.
    """
    time = float(seconds)
    rate = 1.0 / time
    if round(rate) > 0 and abs(rate - round(rate)) < 1e-4 * rate:
        return float(round(rate))
    mantissa, _, exponent = seconds.lower().partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if digits < _EXACT:
        digits = len(mantissa.partition(".")[2].rstrip("0")) - int(exponent or 0)
    last = 10.0**-digits
    if digits <= _COARSE:
        # Rounded or truncated: the true time is at most half a last digit less, and less than a last digit more.
        low, high = 1.0 / (time + last), 1.0 / max(time - 0.5 * last, 1e-12)
        return float(next((usual for usual in _USUAL_RATES if low < usual <= high), rate))
    short = (round(rate, places) for places in range(_FINEST + 1))
    return next((value for value in short if value > 0 and abs(1.0 / value - time) <= 0.5 * last), rate)


def _word_by_word(text: str, start: int, frames: int, tree: Hierarchy) -> Values:
    """Parse values that are not one frame per line, or find the word that is not a number."""
    expected = frames * tree.width
    values = array("d")
    count = 0
    for match in _PLAIN_WORD.finditer(text, start):
        value = parse_number(match[0])
        if value is None:
            frame, column = divmod(count, tree.width)
            place = f"in frame {frame}, at {tree.channel(column)}" if frame < frames else "after the last frame"
            why, fix = COMMAS if "," in match[0] else ("", "the file is damaged: export it again.")
            raise MotionkitError(f"{match[0][:40]!r} is not a number, {place}.", why=why, fix=fix)
        count += 1
        if count <= expected:
            values.append(value)
    if count != expected:
        raise _miscount(frames, tree.width, count)
    return np.frombuffer(values, dtype=np.float64)


def _miscount(frames: int, width: int, count: int) -> MotionkitError:
    complete, remainder = divmod(count, width)
    cut = "the file is cut short, or " if count < frames * width else ""
    return MotionkitError(
        f"expected {frames} frames x {width} values = {frames * width}, found {count}"
        f"{f' (frame {complete + 1} is incomplete)' if remainder else f' ({complete} frames)'}.",
        fix=f"{cut}its number of frames or CHANNELS is wrong: export it again"
        + (f", or write 'Frames: {complete}' if these are all." if complete and not remainder else "."),
    )
