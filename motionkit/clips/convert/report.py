"""Result of a conversion or a check: the report that counts clips, and its messages and tables for the console."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from motionkit.clips.convert.check_clip import ClipFacts
from motionkit.clips.convert.targets import MAX_FRAMES, Piece
from motionkit.clips.walk import ClipOutcome
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import original
from motionkit.page.wording import count

Message = tuple[Literal["info", "warning"], str]

_MOST = ("residual_max", "flips", "moved_max", "seam_max")
"""Figures that are summarised by their maximum; others by their median."""

_FIT_MEAN, _FIT_MOST = 15.0, 60.0
"""Millimetres between joints and the fitted skeleton's, mean and largest, up to which no message is shown."""

_FIGURES = {
    "skate": "median foot skate, m/s",
    "jerk": "median jerk, m/s^3",
    "residual_mean": "joints moved so that bones keep their length, mean, mm",
    "residual_max": "joints moved so that bones keep their length, at most, mm",
    "flips": "joints that flip over",
}

_EDITED = ("loop_start", "loop_stop", "seam", "seam_max", "seam_cut", "seam_inside", "moved_mean", "moved_max",
           "skate_before", "skate_after", "jerk_before", "jerk_after",
           "rig_hands", "rig_feet", "rig_head", "rig_scale", "rig_contacts")  # fmt: skip
"""Figures of edits, which have rows of their own."""


@dataclass
class ConvertReport:
    """Result of a conversion; every clip that was left out is listed."""

    to: str = ""  # Format written; empty for a check
    written: list[str] = field(default_factory=list)  # Ids of the clips written
    failed: dict[str, str] = field(default_factory=dict)  # Origin and reason of each clip that could not be used
    # Ids of clips left out for being too short, with their number of frames.
    short: dict[str, int] = field(default_factory=dict)
    shortest: str = ""  # The shortest clip that is written, in words: ``40 frames (2 s at 20 fps)``
    # Ids of clips longer than a dataset takes, with the number of parts they were cut into.
    cut: dict[str, int] = field(default_factory=dict)
    copied: int = 0  # Captions without times of those, which every part has
    # Ids of clips longer than a dataset takes of which the first frames were written, or that were left out, with
    # their number of frames.
    long: dict[str, int] = field(default_factory=dict)
    # Ids of clips that were cut to a clean run, with its frames ``[start, stop)``.
    fixed: dict[str, tuple[int, int]] = field(default_factory=dict)
    clips: list[dict[str, Any]] = field(default_factory=list)  # Frames, fps, notes and findings of each clip read
    uncaptioned: list[str] = field(default_factory=list)  # Ids written without a caption (datasets)
    # Ids of clips that are copies of another clip, which share its split, with the id of that one (datasets).
    copies: dict[str, str] = field(default_factory=dict)
    motionless: list[str] = field(default_factory=list)  # Ids of the caption table that no clip has
    skipped: list[str] = field(default_factory=list)  # Files that hold no motion, such as statistics and settings
    warnings: list[str] = field(default_factory=list)  # Messages for the user
    splits: dict[str, int] = field(default_factory=dict)  # Number of clips per split (datasets)
    # Medians over the clips, such as ``skate`` (m/s) and ``jerk`` (m/s^3); ``residual_max`` is the largest.
    figures: dict[str, float] = field(default_factory=dict)
    worst: str = ""  # Where rotations solved from joints are furthest off: joint, frame and clip
    frames: int = 0  # Frames written
    resumed: int = 0  # Sources that an earlier, interrupted conversion had finished
    seconds: float = 0.0  # Wall-clock time
    cpu_seconds: float = 0.0  # Processor time, worker processes included

    def add(self, outcome: ClipOutcome[Any]) -> list[Piece]:
        """Add the outcome of one source; return the pieces that were written."""
        self.failed.update(outcome.failed())
        for result in outcome.results:
            if isinstance(result, ClipFacts):
                self._add_facts(result, outcome.origin)
        pieces = [result for result in outcome.results if isinstance(result, Piece)]
        kept = [piece for piece in pieces if piece.files]
        self.short.update({piece.key: piece.frames for piece in pieces if not (piece.files or piece.long)})
        self.cut.update(Counter(piece.clip for piece in pieces if piece.key.startswith(f"{piece.clip}_p")))
        self.copied += sum(piece.copied for piece in pieces if piece.key == f"{piece.clip}_p0")
        self.long.update({piece.clip: piece.long for piece in pieces if piece.long and piece.key == piece.clip})
        self.written.extend(piece.key for piece in kept)
        self.frames += sum(piece.frames for piece in kept)
        return kept

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the wall-clock and processor time of the block."""
        wall, cpu = time.perf_counter(), _cpu_seconds()
        yield
        self.seconds, self.cpu_seconds = time.perf_counter() - wall, _cpu_seconds() - cpu

    def conclude(self, pieces: Sequence[Piece]) -> None:
        """Compute `figures` from all pieces written, and add what their writers say."""
        names = {name for piece in pieces for name in piece.figures}
        for name in sorted(names):
            values = [piece.figures[name] for piece in pieces if name in piece.figures]
            self.figures[name] = max(values) if name in _MOST else median(values)
        self.warnings.extend(f"{piece.key}: {text}" for piece in pieces for text in piece.warnings)
        self.worst = max(pieces, key=lambda piece: piece.figures.get("residual_max", -1.0)).worst if pieces else ""

    def reasons(self) -> list[str]:
        """Return why clips were not used; the origin is added where a message lacks it."""
        return [reason if name in reason else f"{name}: {reason}" for name, reason in self.failed.items()]

    def nothing(self, number: int) -> MotionkitError:
        """Return the error of a conversion in which none of `number` clips could be used, with a few of the reasons."""
        reasons = self.reasons()[:3]
        if self.short:
            some = ", ".join(f"{key} ({frames} frames)" for key, frames in list(self.short.items())[:3])
            reasons.append(f"{count(len(self.short), 'clip')} shorter than {self.shortest}: {some}.")
        if self.long:
            reasons.append(f"{count(len(self.long), 'clip')} longer than {MAX_FRAMES} frames, left out by --long drop.")
        return MotionkitError(
            f"0 of {count(number, 'clip')} could be used, so nothing was written.", why=" ".join(reasons)
        )

    def failure(self, out: object) -> MotionkitError | None:
        """Return the error at the end of a conversion in which clips could not be used."""
        if not self.failed:
            return None
        return MotionkitError(
            f"{count(len(self.failed), 'clip')} could not be used; the other {len(self.written)} are in {out}.", code=1
        )

    def check_failure(self) -> MotionkitError | None:
        """Return the error at the end of a check in which a clip has errors or could not be read."""
        bad = [clip for clip in self.clips if any(finding["severity"] == "error" for finding in clip["findings"])]
        if not (bad or self.failed):
            return None
        return MotionkitError(
            f"something is wrong in {len(bad)} of {count(len(self.clips), 'clip')}, "
            f"{len(self.failed)} could not be read.",
            fix="motionkit convert IN... OUT --fix keeps the longest clean run of each.",
            code=1,
        )

    def _add_facts(self, clip: ClipFacts, origin: str) -> None:
        self.clips.append(
            {
                **clip.facts(),
                "clip": clip.key,
                "origin": origin,
                "frames": clip.frames,
                "fps": clip.fps,
                "findings": list(clip.findings),
            }
        )
        self.warnings.extend(f"{clip.key}: {warning}" for warning in clip.warnings)
        if clip.kept is not None:
            self.fixed[clip.key] = clip.kept


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def check_messages(report: ConvertReport) -> list[Message]:
    """Return the messages of a check: what was not read, and warnings."""
    return [("warning", f"not used: {reason}") for reason in report.reasons()] + _grouped(report, report.warnings)


def messages(report: ConvertReport, *, fixed: bool) -> list[Message]:
    """Return the messages of a conversion: clips left out, cut or changed, and warnings.

    Args:
        report: Its result.
        fixed: Whether clips are cut to their longest clean run (``--fix``).
    """
    rows = check_messages(report)
    rows += _grouped(
        report,
        [
            f"{clip['clip']}: {finding['detail']}"
            for clip in report.clips
            for finding in clip["findings"]
            if finding["severity"] == "error" and finding["kind"] != "rest-pose" and clip["clip"] not in report.fixed
        ],
    )
    if report.short:
        some = listed([f"{key} ({frames} frames)" for key, frames in report.short.items()])
        rows.append(("warning", f"{_counted(report, report.short)} shorter than {report.shortest}, left out: {some}"))
    if fixed:
        frames = {clip["clip"]: clip["frames"] for clip in report.clips}
        cuts = listed([f"{key} (frames {a}-{b - 1} of {frames[key]})" for key, (a, b) in report.fixed.items()])
        clips = count(len(report.fixed), "clip")
        rows.append(("info", f"{clips} cut to the longest clean run: {cuts or 'none had to be'}"))
    if report.cut:
        clips, parts, some = count(len(report.cut), "clip"), sum(report.cut.values()), listed(list(report.cut))
        rows.append(("info", f"{clips} longer than {MAX_FRAMES} frames, cut into {parts} parts: {some}"))
    if report.copied:
        text = count(report.copied, "caption without times stays", "captions without times stay")
        fix = "Give them times (columns start, end), or add --long first or drop."
        rows.append(("warning", f"{text} with every part, also where it shows something else. {fix}"))
    written = set(report.written)
    first = [f"{key} ({frames} frames)" for key, frames in report.long.items() if key in written]
    dropped = [f"{key} ({frames} frames)" for key, frames in report.long.items() if key not in written]
    if first:
        text = f"longer than {MAX_FRAMES} frames, the first {MAX_FRAMES} kept"
        rows.append(("info", f"{count(len(first), 'clip')} {text}: {listed(first)}"))
    if dropped:
        text = f"longer than {MAX_FRAMES} frames, left out"
        rows.append(("warning", f"{count(len(dropped), 'clip')} {text}: {listed(dropped)}"))
    if report.copies:
        some = listed([f"{copy} (of {clip})" for copy, clip in report.copies.items()])
        text = "put into the split of the same motion under another name"
        rows.append(("info", f"{count(len(report.copies), 'copy', 'copies')} {text}: {some}"))
    if report.resumed:
        rows.append(("info", f"{count(report.resumed, 'clip')} done before the last run was interrupted."))
    if report.uncaptioned:
        text = f"{_counted(report, report.uncaptioned)} without a caption; training on text needs one (--captions CSV)."
        rows.append(("warning", text))
    if report.motionless:
        lines = count(len(report.motionless), "caption row")
        rows.append(("warning", f"{lines} without a clip: {listed(report.motionless)}"))
    return rows


def summary_line(report: ConvertReport, *, always: bool = False) -> str:
    """Return a line on a single clip: its length, and the fit of solved rotations as `fit_text` returns it."""
    return ", ".join(filter(None, (f"{report.frames} frames", fit_text(report, always=always))))


def fit_text(report: ConvertReport, *, always: bool = False) -> str:
    """Return a text on the residuals of solved rotations; empty if they are small, unless `always`.

    Bones of a file have one length. Where those of the joints do not, as of generated motions, joints are moved.
    """
    if "residual_max" not in report.figures:
        return ""
    mean, most = (1000 * report.figures[name] for name in ("residual_mean", "residual_max"))
    flips = report.figures["flips"]
    if mean <= _FIT_MEAN and most <= _FIT_MOST and not flips and not always:
        return ""
    where = f", {report.worst}" if report.worst else ""
    bad = mean > _FIT_MEAN or most > _FIT_MOST
    verdict = "look there: this can be seen" if bad else "too little to be seen"
    spins = f"; {count(int(flips), 'joint flips', 'joints flip')} over, which can be seen" if flips else ""
    return (
        f"joints were moved {mean:.0f} mm in the mean, {most:.0f} mm at most{where}, so that bones keep their length: "
        f"{verdict}{spins}"
    )


def edit_rows(figures: Mapping[str, float]) -> list[tuple[str, object]]:
    """Return rows on changes: repairs before and after, and the seam of a loop; lengths in millimetres.

    Args:
        figures: Of `motionkit.clips.edits.edited`, or medians of such.
    """
    rows: list[tuple[str, object]] = []
    for name, label, places in (("skate", "foot skate, m/s", 3), ("jerk", "jerk, m/s^3", 0)):
        if f"{name}_before" in figures:
            before, after = (f"{figures[f'{name}_{when}']:.{places}f}" for when in ("before", "after"))
            rows.append((label, f"{before} before, {after} after"))
    if "moved_mean" in figures:
        mean, most = (1000 * figures[name] for name in ("moved_mean", "moved_max"))
        rows.append(("joints moved, mm", f"{mean:.1f} mean, {most:.0f} at most"))
    if "seam" in figures:
        seam, most, cut, inside = (1000 * figures[name] for name in ("seam", "seam_max", "seam_cut", "seam_inside"))
        rows.append(("joints at the seam, mm", f"{seam:.1f} apart (one {most:.0f}); {cut:.1f} without blending"))
        rows.append(("from frame to frame, mm", f"{inside:.1f} in the same measure"))
    if "rig_scale" in figures:
        hands, feet, head = (1000 * figures[f"rig_{end}"] for end in ("hands", "feet", "head"))
        rows.append(("on the rig: off by, mm", f"hands {hands:.0f}, feet {feet:.1f}, head {head:.0f}"))
        rows.append(("on the rig: legs", f"{figures['rig_scale']:.2f} times as long"))
    if "rig_contacts" in figures:
        rows.append(("on the rig: contacts kept", f"{100 * figures['rig_contacts']:.1f} %"))
    return rows


def summary_rows(report: ConvertReport) -> list[tuple[str, object]]:
    """Return the rows of a table of a conversion's numbers; residuals in millimetres."""
    plain = {name: value for name, value in report.figures.items() if name not in _EDITED}
    return [
        ("clips", len(report.written)),
        *report.splits.items(),
        ("frames", report.frames),
        ("left out", len(report.short) + len(report.failed) + len(report.long.keys() - set(report.written))),
        *(
            (_FIGURES.get(name, name), 1000 * value if name.startswith("residual") else value)
            for name, value in plain.items()
        ),
        *([("furthest off", report.worst)] if report.worst else []),
        *edit_rows(report.figures),
        ("seconds", round(report.seconds, 1)),
        ("CPU-seconds", round(report.cpu_seconds, 1)),
    ]


def _grouped(report: ConvertReport, warnings: Sequence[str]) -> list[Message]:
    return [("warning", text) for text in grouped({clip["clip"] for clip in report.clips}, warnings)]


def grouped(clips: Collection[str], warnings: Sequence[str]) -> list[str]:
    """Return warnings ``ID: text``; equal ones of several clips are merged into one with their ids.

    Args:
        clips: Ids of all clips.
        warnings: The warnings; those that begin with no id stay as they are.
    """
    groups: dict[str, list[str]] = {}
    for warning in warnings:
        key, _, text = warning.partition(": ")
        key, text = (key, text) if key in clips else ("", warning)
        groups.setdefault(text, []).append(key)
    return [
        f"{len(keys)} clips ({listed(keys)}): {text}" if len(keys) > 1 else ": ".join(filter(None, (*keys, text)))
        for text, keys in groups.items()
    ]


def _counted(report: ConvertReport, keys: Collection[str]) -> str:
    """Return the numbers of clips, mirror images and parts of long clips among ids, in words."""
    clips = {clip["clip"] for clip in report.clips}
    whole_clips = sum(key in clips for key in keys)
    images = sum(key not in clips and original(key, clips) in clips for key in keys)
    numbers = ((whole_clips, "clip"), (images, "mirror image"), (len(keys) - whole_clips - images, "part"))
    return " and ".join(count(number, name) for number, name in numbers if number)


def listed(names: Sequence[object], most: int = 10) -> str:
    """Return names joined by commas, with an ellipsis if not all are shown."""
    return ", ".join(map(str, [*names[:most], *(["..."] if len(names) > most else [])]))


def finding_text(report: ConvertReport) -> str:
    """Return the findings of all clips: a block for each clip that has some, then the clips without any."""
    faulty = [clip for clip in report.clips if clip["findings"]]
    clean = [clip["clip"] for clip in report.clips if not clip["findings"]]
    blocks = []
    for clip in faulty:
        about = f"{clip['frames']} frames, {clip['fps']:g} fps"
        blocks.append(f"{clip['clip']}: {', '.join(filter(None, (about, clip.get('format'))))}")
        blocks += [f"  {finding['severity']}, {finding['kind']}: {finding['detail']}" for finding in clip["findings"]]
    if clean:
        blocks.append(f"nothing found in {len(clean)} of {count(len(report.clips), 'clip')}: {listed(clean)}")
    return "\n".join(blocks)
