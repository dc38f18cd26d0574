"""Options of a conversion: from paths and options to what is to be written; options without effect are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast, get_args

from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.clips.convert.targets import FileTarget, LongClips, writer_of
from motionkit.clips.edits import UNEDITED, Edits
from motionkit.errors import MotionkitError
from motionkit.formats.format import WriteOptions
from motionkit.formats.out import WRITTEN, refuse_foreign
from motionkit.formats.table import FORMATS, kind_of, listed
from motionkit.plugins import INSTALL_FIX, packages

DatasetKind = Literal["humanml", "kit"]


@dataclass(frozen=True)
class OutputOptions:
    """Output options; each is refused where it has no effect."""

    fps: float = 0.0  # Frames per second; 0 keeps each clip's own, joints get 20. Datasets have a fixed rate.
    bvh_unit: Literal["cm", "m"] = "cm"  # Unit of BVH files
    min_frames: int = 1  # Shorter clips are left out of a folder of files
    mirror: bool = False  # Datasets: also each clip's mirror image; files: the mirror image
    long: LongClips = "cut"  # Datasets: what becomes of clips longer than `motionkit.clips.convert.targets.MAX_FRAMES`
    fix: bool = False  # Cut each clip to its longest clean run
    edits: Edits = UNEDITED  # Changes of each clip
    overwrite: bool = False  # Replace the file, or the files of an earlier conversion in the folder
    settings: Mapping[str, str] = field(default_factory=dict)  # Settings of formats, by name


@dataclass(frozen=True)
class Request:
    """A conversion whose options fit together."""

    out: Path  # File or folder to make
    target: FeatureTarget | FileTarget  # Writer of each clip of a folder; for a single file its options
    file: str | None  # Format of `out` if it is a single file; None for a folder
    options: OutputOptions  # Output options
    edits: Edits  # Changes of each clip


def plan_conversion(
    out: Path, inputs: Sequence[str], to: str | None = None, options: OutputOptions | None = None
) -> Request:
    """Choose the target and check the options.

    Args:
        out: File or folder to make; without `to` its ending decides, and a folder becomes a HumanML3D dataset.
        inputs: Names of the input files: an npz made from JSON files only has the predictor's layout.
        to: Format to write.
        options: Output options.

    Example:
        >>> plan_conversion(Path("walk.glb"), ["walk.bvh"]).target.kind
        'glb'
        >>> plan_conversion(Path("folder"), ["walk.bvh"], options=OutputOptions(mirror=True)).target
        FeatureTarget(body='humanml', mirrored=True, long='cut')
    """
    options = options or OutputOptions()
    kind = _kind(to, out, inputs)
    if kind in get_args(DatasetKind):
        feature = FeatureTarget(cast("DatasetKind", kind), options.mirror, options.long)
        _refuse_for_datasets(feature, options)
        return Request(out, feature, None, options, options.edits)
    single = kind_of(out) is not None and not out.is_dir()
    _refuse_for_files(kind, options, single=single)
    rig = options.edits.rig
    model = rig.model if rig is not None else ""
    FORMATS[kind].require(options.settings)
    writing = WriteOptions(options.bvh_unit, model, options.settings)
    target = FileTarget(kind, options.fps, options.min_frames, writing)
    edits = replace(options.edits, mirror=options.mirror)
    return Request(out, target, kind if single else None, options, edits)


def _kind(to: str | None, out: Path, inputs: Sequence[str]) -> str:
    by_name = kind_of(out)
    if to is not None:
        if to not in kinds():
            raise no_kind(to, kinds())
        ending = FORMATS[to].suffix if to in FORMATS else ""
        if by_name is not None and ending != FORMATS[by_name].suffix and not out.is_dir():
            raise MotionkitError(
                f"--to {to} writes {ending or 'a folder'}, and OUT is called {out.name}.",
                why=f"by its ending {out.name} is a {out.suffix} file.",
                fix=f"leave --to {to} out, or give OUT a name {f'that ends in {ending}, or ' if ending else ''}"
                "without an ending, for a folder.",
            )
        return to
    if by_name == "npz" and all(name.lower().endswith(".json") for name in inputs):
        return "mpl"  # what the predictor's own converter makes of its JSON
    if by_name is not None:
        return by_name
    refuse_foreign(out)
    return "humanml"


def kinds() -> list[str]:
    """Return the words of ``--to``: datasets, then formats of files."""
    files = listed("mpl", *WRITTEN)
    return [*get_args(DatasetKind), *(form.name for form in files)]


def no_kind(to: str, known: Iterable[str]) -> MotionkitError:
    """Return the error for a word of ``--to`` that is none of the known ones."""
    if absent := packages.owner_of_format(to):
        why, fix = f"the package {absent} has it, and is not installed.", INSTALL_FIX
    else:
        why, fix = "", f"one of {', '.join(known)}"
    return MotionkitError(f"--to {to} is not a format that motions are written in.", why=why, fix=fix)


def _refuse_for_datasets(target: FeatureTarget, options: OutputOptions) -> None:
    """Raise MotionkitError for options that have no effect on datasets."""
    kind, rate = target.body, target.skeleton.fps
    if options.fps not in (0.0, rate):
        raise MotionkitError(f"--fps {options.fps:g}: {kind} has {rate:g} frames per second.", fix="leave --fps out.")
    if options.min_frames != 1:
        raise MotionkitError(f"--min-frames does not act with --to {kind}.", why="its loaders fix the shortest clip.")
    if options.bvh_unit != "cm":
        raise MotionkitError(f"--bvh-unit does not act with --to {kind}.", fix="leave it out.")
    for name, flag in (("yaw", "--yaw"), ("height", "--height"), ("floor", "--floor"), ("rig", "--rig")):
        if getattr(options.edits, name):
            raise MotionkitError(
                f"{flag} does not act with --to {kind}.",
                why="its clips start facing +Z, stand on the floor, and have one body.",
                fix="leave it out.",
            )


def _refuse_for_files(kind: str, options: OutputOptions, *, single: bool) -> None:
    """Raise MotionkitError for options that have no effect on this format, or on a single file."""
    if not writer_of(kind).rig and options.edits.rig is not None:
        raise MotionkitError(f"--rig does not act on {kind}.", why="they are those of one body.", fix="leave it out.")
    if options.bvh_unit != "cm" and "unit" not in writer_of(kind).options:
        raise MotionkitError(f"--bvh-unit does not act with --to {kind}.", fix="leave it out.")
    if options.long != "cut":
        raise MotionkitError(f"--long does not act with --to {kind}.", why="it is for datasets.", fix="leave it out.")
    if options.min_frames != 1 and single:
        raise MotionkitError(
            "--min-frames does not act where OUT is a single file.",
            why="it leaves short clips out of a folder.",
            fix="leave it out, or give a folder as OUT.",
        )


def refuse_for_check(given: Mapping[str, object]) -> None:
    """Refuse output options together with ``--check``.

    Args:
        given: Options to their values; those that are empty, 0 or False were not given.
    """
    if names := [name for name, value in given.items() if value]:
        raise MotionkitError(
            f"--check does not go together with {', '.join(names)}.",
            why="it writes nothing.",
            fix="check first; then convert with --fix to keep the longest clean run of each clip.",
        )
