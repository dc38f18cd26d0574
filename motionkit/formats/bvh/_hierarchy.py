"""The HIERARCHY section of a BVH file: a tree of joints with their offsets and channels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from motionkit.errors import MotionkitError
from motionkit.motion._motion import END

POSITIONS = ("Xposition", "Yposition", "Zposition")
ROTATIONS = ("Xrotation", "Yrotation", "Zrotation")

MAX_JOINTS = 1000
"""Rigs with faces and clothes have some hundreds of joints; a file with more is damaged or made to harm."""

MAX_DEPTH = 200

_WORD = re.compile(r"[{}]|[^\s{}]+")
_OPENING = ("ROOT", "JOINT", "END")


@dataclass
class Hierarchy:
    """The tree of a BVH file, in the file's own unit.

    Attributes:
        names: Joint names, unique; an end site is called ``<parent> End``.
        parents: Parent of each joint, -1 for the root.
        offsets: OFFSET of each joint.
        channels: Channel names of each joint, in usual spelling.
        warnings: What was changed to make the names usable.
    """

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    offsets: list[list[float]] = field(default_factory=list)
    channels: list[list[str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Number of values per frame."""
        return sum(map(len, self.channels))

    def channel(self, column: int) -> str:
        """Return which joint and channel a column of the MOTION section is, for messages."""
        for name, channels in zip(self.names, self.channels, strict=True):
            if column < len(channels):
                return f"{name} {channels[column]}"
            column -= len(channels)
        raise IndexError(column)


def parse_hierarchy(text: str) -> tuple[Hierarchy, int]:
    """Parse everything up to the word MOTION.

    Args:
        text: The whole file.

    Returns:
        The tree, and where the MOTION section goes on in `text`.

    Raises:
        MotionkitError: The section is no sound tree of joints; the message names the line.
    """
    return _Reader(text).read()


class _Reader:
    """Walks over the words of the section."""

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


_KNOWN = ", ".join(POSITIONS + ROTATIONS)

COMMAS = (
    "numbers are written with a decimal comma, which BVH does not have.",
    "export the file again with decimal points (an English locale).",
)


def parse_number(word: str) -> float | None:
    """Return a number as BVH files write it; None for anything else (``1_0`` and ``1,5`` among others)."""
    if "_" in word:
        return None
    try:
        return float(word)
    except ValueError:
        return None


def _unique_names(tree: Hierarchy) -> None:
    """Number joints that share a name; end sites of one joint are numbered without a word."""
    taken: set[str] = set()
    written = list(tree.names)
    everything = set(written)
    for joint, name in enumerate(written):
        parent = tree.parents[joint]
        if parent >= 0 and name == written[parent] + END:
            name = tree.names[parent] + END
        unique, number = name, 2
        while unique in taken or (unique != name and unique in everything):
            unique = f"{name.removesuffix(END)} {number}{END if name.endswith(END) else ''}"
            number += 1
        taken.add(unique)
        tree.names[joint] = unique
        if unique != name and not name.endswith(END):
            tree.warnings.append(f"several joints are called {name!r}; one of them is called {unique!r} here.")
