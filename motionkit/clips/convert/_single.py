"""Write a single file: one clip in any format, or several clips in one page or film."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from motionkit.clips.convert._file_source import FileSource
from motionkit.clips.convert._files import PICTURES, FileKind, write_file, write_pictures
from motionkit.clips.convert._load import load_clips
from motionkit.clips.convert._look import look
from motionkit.clips.convert._outcome import Outcome, Piece
from motionkit.clips.convert._place import refuse_sources
from motionkit.clips.convert._report import ConvertReport
from motionkit.clips.convert._targets import FileTarget
from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip, ClipSource, clip_key
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
    """
    wall, cpu = time.perf_counter(), time.process_time()
    require_file(out, kind, len(sources), overwrite=overwrite)
    refuse_sources(out, (source.path for source in sources if isinstance(source, FileSource)))
    report = ConvertReport(to=kind)
    target = FileTarget(kind, fps, unit)
    shown: list[tuple[Clip, str]] = []
    problems: list[MotionkitError] = []

    def fail(source: ClipSource, key: str, error: MotionkitError) -> None:
        problems.append(error)
        report.add(Outcome(source.key, source.origin, problems={key: error.sentence()}))

    for source in sources:
        clips: Sequence[Clip] = ()
        try:
            clips = load_clips(source)
        except MotionkitError as error:
            fail(source, source.key, error)
        for clip in clips:
            key = clip_key(source, clip)
            try:
                clip, found = look(clip, key, target=target, fix=fix)
                shown.append((clip.resample(target.rate or clip.motion.fps), key))
                report.add(Outcome(source.key, source.origin, clips=(found,)))
            except MotionkitError as error:
                fail(source, key, error)
        _check_number(len(shown), kind)
        progress(source.key)
    if len(problems) == 1 and not shown:
        raise problems[0]
    if not shown:
        raise MotionkitError(
            f"none of {len(problems)} clip(s) could be used, so nothing was written.",
            why=" ".join(report.reasons()[:3]),
        )
    figures: dict[str, float] = {}
    try:
        if kind in PICTURES:
            write_pictures(out, shown)
        else:
            figures = write_file(out, kind, shown[0][0], unit=unit)
    except OSError as error:
        raise MotionkitError(f"{out} cannot be written: {error.strerror or error}.", code=1) from error
    report.written = [key for _, key in shown]
    report.frames = sum(clip.motion.frames for clip, _ in shown)
    report.conclude([Piece(report.written[0], report.frames, figures=figures)])
    report.seconds, report.cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    return report


def require_file(out: Path, kind: FileKind, count: int, *, overwrite: bool = False) -> None:
    """Refuse, before any work, a file that cannot be written.

    Args:
        out: The file.
        kind: Its format.
        count: Clips to go into it, as far as that is known.
        overwrite: Whether a file that is there may be replaced.

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
