"""Console messages and tables of a report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from motionkit.clips.convert.feature_target import MAX_FRAMES
from motionkit.clips.convert.report import ConvertReport
from motionkit.motion.corpus.ids import original

Message = tuple[Literal["info", "warning"], str]

_FIT_MEAN, _FIT_MOST = 15.0, 60.0
"""Millimetres between joints and those of the skeleton that was fitted to them; less is not worth a word."""

_FIGURES = {
    "skate": "median foot skate, m/s",
    "jerk": "median jerk, m/s^3",
    "residual_mean": "joints to rotations: median of mean residuals, mm",
    "residual_max": "joints to rotations: largest residual, mm",
    "flips": "joints to rotations: flips",
}


def check_messages(report: ConvertReport) -> list[Message]:
    """Return the messages of a check: what was not read, and warnings."""
    return [("warning", f"not used: {reason}") for reason in report.reasons()] + _grouped(report, report.warnings)


def messages(report: ConvertReport, *, fixed: bool) -> list[Message]:
    """Return the messages of a conversion: clips left out, cut or changed, and warnings.

    Args:
        report: Its result.
        fixed: Whether clips are cut to their longest clean run (``--fix``).
    """
    found = check_messages(report)
    found += _grouped(
        report,
        [
            f"{clip['clip']}: {finding['detail']}"
            for clip in report.clips
            for finding in clip["findings"]
            if finding["severity"] == "error" and finding["kind"] != "rest-pose" and clip["clip"] not in report.fixed
        ],
    )
    if report.short:
        some = listed([f"{key} ({frames})" for key, frames in report.short.items()])
        found.append(("warning", f"{_counted(report, report.short)} are too short and were left out: {some}"))
    if fixed:
        frames = {clip["clip"]: clip["frames"] for clip in report.clips}
        cuts = listed([f"{key} ({a}-{b - 1} of {frames[key]})" for key, (a, b) in report.fixed.items()])
        found.append(
            ("info", f"{len(report.fixed)} clip(s) were cut to their longest clean run: {cuts or 'none had to be'}")
        )
    if report.cut:
        some = listed(list(report.cut))
        found.append(("info", f"{len(report.cut)} clip(s) were longer than {MAX_FRAMES} frames and were cut: {some}"))
    if report.resumed:
        found.append(("info", f"{report.resumed} clip(s) were done before the last run was interrupted."))
    if report.uncaptioned:
        text = f"{_counted(report, report.uncaptioned)} have no caption; training on text needs one (--captions CSV)."
        found.append(("warning", text))
    if report.motionless:
        found.append(("warning", f"{len(report.motionless)} caption row(s) have no clip: {listed(report.motionless)}"))
    return found


def summary_line(report: ConvertReport, *, always: bool = False) -> str:
    """Return a line on a single clip: its length, and the fit of solved rotations as `fit_text` returns it."""
    return ", ".join(filter(None, (f"{report.frames} frames", fit_text(report, always=always))))


def fit_text(report: ConvertReport, *, always: bool = False) -> str:
    """Return how far the skeleton that rotations were solved for is off the joints, where that is worth a word.

    Args:
        report: What was written; its figures always have the residuals.
        always: Return it however small it is.
    """
    if "residual_max" not in report.figures:
        return ""
    mean, most = (1000 * report.figures[name] for name in ("residual_mean", "residual_max"))
    flips = report.figures["flips"]
    if mean <= _FIT_MEAN and most <= _FIT_MOST and not flips and not always:
        return ""
    return f"skeleton fit: {mean:.0f} mm mean, {most:.0f} mm max{f', {flips:.0f} flips' if flips else ''}"


def summary_rows(report: ConvertReport) -> list[tuple[str, object]]:
    """Return the rows of a table of a conversion's numbers; residuals in millimetres."""
    return [
        ("clips", len(report.written)),
        *report.splits.items(),
        ("frames", report.frames),
        ("left out", len(report.short) + len(report.failed)),
        *(
            (_FIGURES.get(name, name), 1000 * value if name.startswith("residual") else value)
            for name, value in report.figures.items()
        ),
        ("seconds", round(report.seconds, 1)),
        ("CPU-seconds", round(report.cpu_seconds, 1)),
    ]


def _grouped(report: ConvertReport, warnings: Sequence[str]) -> list[Message]:
    """Return warnings; equal warnings of several clips are merged into one with their ids."""
    clips = {clip["clip"] for clip in report.clips}
    groups: dict[str, list[str]] = {}
    for warning in warnings:
        key, _, text = warning.partition(": ")
        key, text = (key, text) if key in clips else ("", warning)
        groups.setdefault(text, []).append(key)
    return [
        (
            "warning",
            f"{len(keys)} clips ({listed(keys)}): {text}" if len(keys) > 1 else ": ".join(filter(None, (*keys, text))),
        )
        for text, keys in groups.items()
    ]


def _counted(report: ConvertReport, keys: Collection[str]) -> str:
    """Return the numbers of clips, mirror images and parts of long clips among ids, in words."""
    clips = {clip["clip"] for clip in report.clips}
    own = sum(key in clips for key in keys)
    images = sum(key not in clips and original(key, clips) in clips for key in keys)
    counts = ((own, "clip(s)"), (images, "mirror image(s)"), (len(keys) - own - images, "part(s)"))
    return " and ".join(f"{count} {name}" for count, name in counts if count)


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
        blocks += [f"  {one['severity']}, {one['kind']}: {one['detail']}" for one in clip["findings"]]
    if clean:
        blocks.append(f"nothing found in {len(clean)} of {len(report.clips)} clip(s): {listed(clean)}")
    return "\n".join(blocks)
