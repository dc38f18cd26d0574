"""Decide from paths and options what to convert to, and refuse what cannot work before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from motionkit.clips.convert._dataset_target import FeatureTarget
from motionkit.clips.convert._files import FileKind, kind_of
from motionkit.clips.convert._pipeline import convert
from motionkit.clips.convert._report import ConvertReport
from motionkit.clips.convert._single import convert_file
from motionkit.clips.convert._targets import FileTarget
from motionkit.clips.convert._wishes import DatasetKind, Wishes, refuse_for_datasets, refuse_for_files
from motionkit.errors import MotionkitError
from motionkit.motion._clip import ClipSource
from motionkit.motion.corpus._caption_table import CaptionTable

_FOREIGN = (".fbx", ".gltf", ".usd", ".usdz", ".c3d", ".obj", ".mov", ".avi", ".webm", ".pkl", ".json", ".csv", ".zip")


@dataclass(frozen=True)
class Request:
    """A conversion whose options fit together.

    Attributes:
        out: File or folder to make.
        target: Writer of each clip of a folder; for a single file its options.
        file: Format of `out` if it is a single file; None for a folder.
        wishes: Output options.
    """

    out: Path
    target: FeatureTarget | FileTarget
    file: FileKind | None
    wishes: Wishes


def plan_conversion(
    out: Path, inputs: Sequence[str], to: FileKind | DatasetKind | None = None, wishes: Wishes | None = None
) -> Request:
    """Choose the target and check the options.

    Args:
        out: File or folder to make; without `to` its ending decides, and a folder becomes a HumanML3D dataset.
        inputs: Names of the input files: an npz made from JSON files only has the predictor's layout.
        to: Format to write.
        wishes: Output options.

    Raises:
        MotionkitError: `to` and the name of `out` contradict each other, the format cannot be written, or an option
            has no effect.
    """
    wishes = wishes or Wishes()
    kind = _kind(to, out, inputs)
    if kind == "humanml" or kind == "kit":
        refuse_for_datasets(kind, wishes)
        return Request(out, FeatureTarget(kind, wishes.mirror), None, wishes)
    single = kind_of(out) is not None and not out.is_dir()
    refuse_for_files(kind, wishes, single=single)
    target = FileTarget(kind, wishes.fps, wishes.bvh_unit, wishes.min_frames)
    return Request(out, target, kind if single else None, wishes)


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
    wishes = request.wishes
    if request.file is None:
        return convert(
            sources,
            request.out,
            request.target,
            table=table,
            fix=wishes.fix,
            overwrite=wishes.overwrite,
            jobs=jobs,
            progress=progress,
        )
    if table is not None:
        raise MotionkitError("--captions needs a folder as OUT.", why=f"{request.out} is a single file.")
    return convert_file(
        sources,
        request.out,
        request.file,
        fps=wishes.fps,
        unit=wishes.bvh_unit,
        fix=wishes.fix,
        overwrite=wishes.overwrite,
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
