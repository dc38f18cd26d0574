"""Options of `convert`: what to write from paths and options; options that have no effect are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from motionkit.clips.convert._feature_target import FeatureTarget
from motionkit.clips.convert._report import ConvertReport
from motionkit.clips.convert._targets import FileTarget
from motionkit.clips.convert._to_file import convert_file
from motionkit.clips.convert._to_folder import convert
from motionkit.clips.convert._write_file import FileKind, kind_of
from motionkit.errors import MotionkitError
from motionkit.motion._clip import ClipSource
from motionkit.motion.corpus._caption_table import CaptionTable

DatasetKind = Literal["humanml", "kit"]

_FOREIGN = (".fbx", ".gltf", ".usd", ".usdz", ".c3d", ".obj", ".mov", ".avi", ".webm", ".pkl", ".json", ".csv", ".zip")


@dataclass(frozen=True)
class OutputOptions:
    """Output options; each is refused where it has no effect.

    Attributes:
        fps: Frames per second; 0 keeps each clip's own, joints get 20. Datasets have a fixed rate.
        bvh_unit: Unit of BVH files.
        min_frames: Shorter clips are left out of a folder of files.
        mirror: Datasets: also each clip's mirror image.
        fix: Cut each clip to its longest clean run.
        overwrite: Replace the file, or the files of an earlier conversion in the folder.
    """

    fps: float = 0.0
    bvh_unit: Literal["cm", "m"] = "cm"
    min_frames: int = 1
    mirror: bool = False
    fix: bool = False
    overwrite: bool = False


@dataclass(frozen=True)
class Request:
    """A conversion whose options fit together.

    Attributes:
        out: File or folder to make.
        target: Writer of each clip of a folder; for a single file its options.
        file: Format of `out` if it is a single file; None for a folder.
        options: Output options.
    """

    out: Path
    target: FeatureTarget | FileTarget
    file: FileKind | None
    options: OutputOptions


def plan_conversion(
    out: Path, inputs: Sequence[str], to: FileKind | DatasetKind | None = None, options: OutputOptions | None = None
) -> Request:
    """Choose the target and check the options.

    Args:
        out: File or folder to make; without `to` its ending decides, and a folder becomes a HumanML3D dataset.
        inputs: Names of the input files: an npz made from JSON files only has the predictor's layout.
        to: Format to write.
        options: Output options.

    Raises:
        MotionkitError: `to` and the name of `out` contradict each other, the format cannot be written, or an option
            has no effect.

    Example:
        >>> plan_conversion(Path("walk.glb"), ["walk.bvh"]).target.kind
        'glb'
        >>> plan_conversion(Path("folder"), ["walk.bvh"], options=OutputOptions(mirror=True)).target
        FeatureTarget(body='humanml', mirrored=True)
    """
    options = options or OutputOptions()
    kind = _kind(to, out, inputs)
    if kind == "humanml" or kind == "kit":
        feature = FeatureTarget(kind, options.mirror)
        _refuse_for_datasets(feature, options)
        return Request(out, feature, None, options)
    single = kind_of(out) is not None and not out.is_dir()
    _refuse_for_files(kind, options, single=single)
    target = FileTarget(kind, options.fps, options.bvh_unit, options.min_frames)
    return Request(out, target, kind if single else None, options)


def run_conversion(
    request: Request,
    sources: Sequence[ClipSource],
    *,
    table: CaptionTable | None = None,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda key: None,
) -> ConvertReport:
    """Run a conversion; see `convert` and `convert_file`.

    Raises:
        MotionkitError: A table was given for a single file; also as for these two.
    """
    options = request.options
    if request.file is None:
        return convert(
            sources,
            request.out,
            request.target,
            table=table,
            fix=options.fix,
            overwrite=options.overwrite,
            jobs=jobs,
            progress=progress,
        )
    if table is not None:
        raise MotionkitError("--captions needs a folder as OUT.", why=f"{request.out} is a single file.")
    return convert_file(
        sources,
        request.out,
        request.file,
        fps=options.fps,
        unit=options.bvh_unit,
        fix=options.fix,
        overwrite=options.overwrite,
        progress=progress,
    )


def _kind(to: FileKind | DatasetKind | None, out: Path, inputs: Sequence[str]) -> FileKind | DatasetKind:
    by_name = kind_of(out)
    if to is not None:
        if by_name is not None and by_name != to and not (to == "mpl" and by_name == "npz") and not out.is_dir():
            raise MotionkitError(f"--to {to} does not fit the name {out}.", fix="leave one of them out.")
        return to
    if by_name == "npz" and all(name.lower().endswith(".json") for name in inputs):
        return "mpl"  # what the predictor's own converter makes of its JSON
    if by_name is not None:
        return by_name
    refuse_foreign(out)
    return "humanml"


def refuse_foreign(out: Path) -> None:
    """Refuse a name with the ending of a format that is not written here, rather than make a folder of that name.

    Raises:
        MotionkitError: Its ending is one of those.
    """
    if out.suffix.lower() in _FOREIGN and not out.is_dir():
        raise MotionkitError(
            f"{out.suffix} files cannot be written.",
            why="files that can be: .bvh, .glb, .mp4, .gif, .html, .npy (joints) and .npz; any other name is a folder.",
            fix="Blender and most engines read .glb and .bvh.",
        )


def _refuse_for_datasets(target: FeatureTarget, options: OutputOptions) -> None:
    """Raise MotionkitError for options that have no effect on datasets."""
    kind, rate = target.body, target.skeleton.fps
    if options.fps not in (0.0, rate):
        raise MotionkitError(f"--fps {options.fps:g}: {kind} has {rate:g} frames per second.", fix="leave --fps out.")
    if options.min_frames != 1:
        raise MotionkitError(f"--min-frames does not act with --to {kind}.", why="its loaders fix the shortest clip.")
    if options.bvh_unit != "cm":
        raise MotionkitError(f"--bvh-unit does not act with --to {kind}.", fix="leave it out.")


def _refuse_for_files(kind: FileKind, options: OutputOptions, *, single: bool) -> None:
    """Raise MotionkitError for options that have no effect on this format, or on a single file."""
    if options.mirror:
        raise MotionkitError(f"--mirror does not act with --to {kind}.", fix="it belongs to humanml and kit.")
    if options.bvh_unit != "cm" and kind != "bvh":
        raise MotionkitError(f"--bvh-unit does not act with --to {kind}.", fix="leave it out.")
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

    Raises:
        MotionkitError: One was given.
    """
    if names := [name for name, value in given.items() if value]:
        raise MotionkitError(
            f"--check does not go together with {', '.join(names)}.",
            why="it writes nothing.",
            fix="check first; then convert with --fix to keep the longest clean run of each clip.",
        )
