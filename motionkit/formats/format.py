"""What a file format of motions is: the light half of a reader and a writer, which imports no torch.

Packages bring formats by entry points of the group ``motionkit.formats``; see `motionkit.formats.table`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from motionkit import plugins

if TYPE_CHECKING:
    from motionkit.formats.peek import Peek
    from motionkit.motion.clip import Clip, ReadOptions
    from motionkit.motion.motion import Motion


@dataclass(frozen=True)
class WriteOptions:
    """What a writer is told besides the clips."""

    unit: Literal["m", "cm"] = "cm"  # Unit of lengths, for formats that leave it open
    model: str = ""  # GLB file whose skeleton the clips are on, and whose meshes are to move with them; empty for none
    settings: Mapping[str, str] = field(default_factory=dict)  # Values of `Setting`s by name; those that are empty lack


@dataclass(frozen=True)
class Fit:
    """What writing changed."""

    # Figures for the report, by name. ``residual_mean``, ``residual_max`` (metres) and ``flips`` say how well a
    # skeleton with bones of one length follows joints.
    figures: dict[str, float] = field(default_factory=dict)
    worst: str = ""  # Joint and frame of the largest residual
    warnings: tuple[str, ...] = ()  # What a person should know, such as how far the file is from the motion


@dataclass(frozen=True)
class RigFile:
    """The skeleton of a file, for ``--rig``."""

    motion: Motion  # Joints, and one frame that stands on the ground
    model: str = ""  # GLB file with this skeleton and its meshes; empty if there are no meshes
    turned: bool = False  # Whether the joints' axes are those of the frame's rotations


@dataclass(frozen=True)
class Setting:
    """A setting that a format needs besides `ReadOptions`: the option ``--NAME`` of commands that read or write files.

    Its value is a text, and is found by its name in ``settings`` of `ReadOptions` and `WriteOptions`.
    """

    name: str  # Such as ``blender``: the option ``--blender``, ``read.blender`` in settings files
    help: str  # Its help
    writing: str = ""  # Its help in commands that write files and read none; empty for the same
    variable: str = ""  # Environment variable whose value is taken where none is given
    # Why a value counts only where it is typed, such as that it is a program that is started; see `Group.code`.
    code: str = ""
    # What is said of files in folders that are passed over where there is no value, such as "FBX, which a Blender
    # reads (--blender)"; empty if files are read without one.
    needed: str = ""

    def value(self, settings: Mapping[str, str]) -> str:
        """Return the value: the given one, or that of the variable."""
        return settings.get(self.name, "") or os.environ.get(self.variable, "")


@dataclass(frozen=True)
class Reader:
    """How files of a format are read. Functions are named as ``"module:attribute"`` and imported when they are used."""

    # ``attribute(path, options)`` returns the clips of a file, given a `ReadOptions`: metres, right-handed, Y up.
    read: str
    options: tuple[str, ...] = ()  # Which of the `ReadOptions` it uses
    # ``attribute(peek)`` returns whether a file of one of the suffixes is of this format, given a `Peek`; it imports no
    # torch. Empty: every file is that no other format claims.
    claims: str = ""
    tables: tuple[str, ...] = ()  # Names of files that it looks for in the folder of a file
    retimed: bool = False  # Frames are counted, so that a rate that is given replaces the file's after reading
    # ``attribute(paths, options)`` does what can be done for many files at once, before each is read.
    prepare: str = ""
    # ``attribute(path, options)`` returns the skeleton with one frame, in the file's unit and axes, as a `Motion`. Unit
    # and direction of up are then decided once for all files of a skeleton.
    pose: str = ""
    metres: bool = False  # With `pose`: its unit is the metre; files in another one are known by the length of legs
    # ``attribute(path, settings)`` returns the skeleton that ``--rig FILE`` brings clips to, a `RigFile`.
    rig: str = ""


@dataclass(frozen=True)
class Writer:
    """How files of a format are written."""

    # ``attribute(path, clips, options)`` writes a file, given a `WriteOptions`, and returns None or a `Fit`.
    write: str
    rotations: bool = True  # Motions have rotations; for those that are joints alone they are solved before
    options: tuple[str, ...] = ()  # Which of the `WriteOptions` it uses, without `settings`
    most: int = 1  # Clips that one file holds
    fps: float = 0.0  # Frames per second where none are asked for; 0 keeps the clip's own
    rig: bool = True  # Clips can be of any rig
    training: bool = False  # Models train on the files, so that a rest pose before a motion is cut off
    apart: bool = False  # Clips of several skeletons go into a folder for each
    named: bool = False  # Only ``--to NAME`` asks for it, not the ending of a file
    # Motions of some skeletons alone are written: `generate` has it write a pose before it makes motions.
    some_bodies: bool = False


@dataclass(frozen=True)
class Format:
    """A file format of motions."""

    name: str  # Its word for ``--to`` and in records
    summary: str  # Its name and what is special, for lists and messages
    suffixes: tuple[str, ...]  # Endings of its files in small letters, with dots; the first is the one that is written
    reader: Reader | None = None  # None if it is not read
    writer: Writer | None = None  # None if it is not written
    settings: tuple[Setting, ...] = ()  # What it needs to know
    # ``attribute(settings)`` as ``"module:attribute"`` raises a `MotionkitError` where the format cannot be read or
    # written here, such as without a program.
    ready: str = ""
    help: str = ""  # A sentence for the help of ``motionkit convert``; its own formats are in a list there
    after: str = ""  # The format that it follows in lists; empty for the end

    @property
    def suffix(self) -> str:
        """The suffix of files that are written."""
        return self.suffixes[0]

    @property
    def targets(self) -> list[str]:
        """All ``"module:attribute"`` that it names."""
        reader, writer = self.reader, self.writer
        read = (reader.read, reader.claims, reader.prepare, reader.pose, reader.rig) if reader is not None else ()
        return [target for target in (*read, writer.write if writer is not None else "", self.ready) if target]

    def matches(self, path: Path) -> bool:
        """Return whether the name of a file ends as this format's do."""
        name = path.name.lower()
        return any(name.endswith(suffix) and name != suffix for suffix in self.suffixes)

    def claims(self, peek: Peek) -> bool:
        """Return whether a file with one of the suffixes is of this format."""
        if self.reader is None:
            return False
        return not self.reader.claims or bool(_call(self.reader.claims, peek))

    def lacks(self, settings: Mapping[str, str]) -> str:
        """Return what is said of files that are passed over for want of a setting; empty if they can be read."""
        return next((one.needed for one in self.settings if one.needed and not one.value(settings)), "")

    def require(self, settings: Mapping[str, str]) -> None:
        """Raise MotionkitError if the format cannot be read or written here."""
        if self.ready:
            _call(self.ready, settings)

    def prepare(self, paths: Sequence[Path], options: ReadOptions) -> None:
        """Do what can be done for many files at once."""
        if self.reader is not None and self.reader.prepare and paths:
            _call(self.reader.prepare, paths, options)

    def read(self, path: Path, options: ReadOptions) -> Sequence[Clip]:
        """Read a file of this format: all clips, or the one that ``options.clip`` names."""
        assert self.reader is not None, f"{self.name} is not read"
        from motionkit.formats.rate import at_rate
        from motionkit.motion.clip import choose_part

        clips: Sequence[Clip] = _call(self.reader.read, path, options)
        if options.clip and "clip" in self.reader.options and (len(clips) > 1 or not clips[0].part):
            clips = (clips[choose_part([clip.part for clip in clips], options.clip, str(path))],)
        return [at_rate(clip, options.fps) for clip in clips] if self.reader.retimed and options.fps else clips

    def pose(self, path: Path, options: ReadOptions) -> Motion:
        """Return the skeleton of a file with one frame; see `Reader.pose`."""
        assert self.reader is not None
        motion: Motion = _call(self.reader.pose, path, options)
        return motion

    def rig(self, path: Path, settings: Mapping[str, str]) -> RigFile:
        """Return the skeleton of a file; see `Reader.rig`."""
        assert self.reader is not None
        found: RigFile = _call(self.reader.rig, path, settings)
        return found

    def write(self, path: Path, clips: Sequence[Clip], options: WriteOptions) -> Fit:
        """Write a file of this format."""
        assert self.writer is not None, f"{self.name} is not written"
        fit: Fit | None = _call(self.writer.write, path, clips, options)
        return fit or Fit()


def _call(target: str, *arguments: Any) -> Any:
    """Call what ``"module:attribute"`` names; an exception of another package's code names the package."""
    with plugins.catching(target.partition(":")[0]):
        return plugins.attribute_of(target)(*arguments)
