"""Convert clips to one file: one clip in any format, or several clips in one page or film."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from motionkit.clips._walk import walk
from motionkit.clips.convert._check_clip import ClipFacts, check_clip
from motionkit.clips.convert._report import ConvertReport
from motionkit.clips.convert._resumable_folder import refuse_sources
from motionkit.clips.convert._targets import FileTarget, Piece
from motionkit.clips.convert._write_file import PICTURES, FileKind, write_file, write_pictures
from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip, ClipSource
from motionkit.runs import require_writable

MOST_PICTURES = {"html": 64, "mp4": 6, "gif": 6}
"""How many clips one page or film can show side by side."""


def convert_file(
    sources: Sequence[ClipSource],
    out: Path,
    kind: FileKind,
    *,
    fps: float = 0.0,
    unit: Literal["m", "cm"] = "cm",
    fix: bool = False,
    overwrite: bool = False,
    progress: Callable[[str], None] = lambda key: None,
) -> ConvertReport:
    """Write one file.

    Args:
        sources: One clip; for pages and films several, which are shown side by side.
        out: The file.
        kind: Its format.
        fps: As in `FileTarget`.
        unit: Unit of a BVH file.
        fix: Cut each clip to its longest clean run.
        overwrite: Replace `out`.
        progress: Called with each source's id when it is read.

    Returns:
        What was done.

    Raises:
        MotionkitError: `out` exists or is a source, no clip can be used, or there are too many for one file. If only
            some clips cannot be used, the report lists them and the others are written.

    Example:
        >>> from motionkit.datasets.export import dataset_sources
        >>> from motionkit import load_dataset
        >>> report = convert_file(dataset_sources(load_dataset("starter"))[:1], Path("clip.npz"), "npz")
        >>> Path("clip.npz").is_file(), report.frames == report.clips[0]["frames"]
        (True, True)
    """
    require_file(out, kind, len(sources), overwrite=overwrite)
    refuse_sources(out, sources)
    report = ConvertReport(to=kind)
    shown: list[_Shown] = []
    problems: list[MotionkitError] = []
    with report.timed():
        step = partial(_read_clip, target=FileTarget(kind, fps, unit), fix=fix)
        with closing(walk(sources, step, progress=progress)) as outcomes:
            for outcome in outcomes:
                report.add(outcome)
                shown += [result for result in outcome.results if isinstance(result, _Shown)]
                problems += outcome.problems.values()
                _check_number(len(shown), kind)
        if not shown:
            raise problems[0] if len(problems) == 1 else report.nothing(len(problems))
        figures: dict[str, float] = {}
        try:
            if kind in PICTURES:
                write_pictures(out, shown)
            else:
                figures = write_file(out, kind, shown[0].clip, unit=unit)
        except OSError as error:
            raise MotionkitError(f"{out} cannot be written: {error.strerror or error}.", code=1) from error
        report.written = [title for _, title in shown]
        report.frames = sum(clip.motion.frames for clip, _ in shown)
        report.conclude([Piece(report.written[0], report.frames, figures=figures)])
    return report


class _Shown(NamedTuple):
    """A clip at the rate to write, and its title."""

    clip: Clip
    title: str


def _read_clip(clip: Clip, key: str, origin: str, *, target: FileTarget, fix: bool) -> list[ClipFacts | _Shown]:
    clip, facts = check_clip(clip, key, target=target, fix=fix)
    return [facts, _Shown(clip.resample(target.rate or clip.motion.fps), key)]


def require_file(out: Path, kind: FileKind, count: int, *, overwrite: bool = False) -> None:
    """Refuse, before any work, a file that cannot be written.

    Args:
        out: The file.
        kind: Its format.
        count: Clips to go into it, as far as that is known.
        overwrite: Whether an existing file may be replaced.

    Raises:
        MotionkitError: It exists, cannot be written, or cannot hold so many clips.
    """
    require_writable(out)
    if out.exists() and not overwrite:
        raise MotionkitError(f"{out} already exists.", fix="choose another OUT, or add --overwrite.")
    _check_number(count, kind)


def _check_number(count: int, kind: FileKind) -> None:
    most = MOST_PICTURES.get(kind, 1)
    if count > most:
        several = f"a .{kind} file shows at most {most} clips" if most > 1 else "such a file holds one clip"
        raise MotionkitError(
            f"{count} clips do not fit into one file.",
            why=f"{several}.",
            fix=f"give a folder as OUT and --to {kind}: it gets a file per clip.",
        )
