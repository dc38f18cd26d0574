"""What a report says to people."""

from __future__ import annotations

from typing import Any, Literal

from motionkit.motion.convert._dataset_target import MAX_FRAMES
from motionkit.motion.convert._report import ConvertReport

Message = tuple[Literal["info", "warning"], str]

_FIGURES = {
    "skate": "median foot skate, m/s",
    "jerk": "median jerk, m/s^3",
    "residual_mean": "joints to rotations: median of mean residuals, m",
    "residual_max": "joints to rotations: largest residual, m",
    "flips": "joints to rotations: flips",
}


def check_messages(report: ConvertReport) -> list[Message]:
    """Return what was not read, and what a person should look at."""
    return [("warning", f"not used: {reason}") for reason in report.reasons()] + [
        ("warning", text) for text in report.warnings
    ]


def messages(report: ConvertReport, *, fixed: bool) -> list[Message]:
    """Return everything that a conversion did besides writing clips as they are.

    Args:
        report: What it did.
        fixed: Whether it was asked to cut clips to their longest clean run.
    """
    said = check_messages(report)
    for clip in report.clips:
        for finding in clip["findings"]:
            if finding["severity"] == "error" and finding["kind"] != "rest-pose" and clip["clip"] not in report.fixed:
                said.append(("warning", f"{clip['clip']}: {finding['detail']}"))
    if report.short:
        listed = ", ".join(f"{key} ({frames})" for key, frames in report.short.items())
        said.append(("warning", f"{len(report.short)} clip(s) are too short and were left out: {listed}"))
    if fixed:
        frames = {clip["clip"]: clip["frames"] for clip in report.clips}
        cuts = ", ".join(f"{key} ({a}-{b - 1} of {frames[key]})" for key, (a, b) in report.fixed.items())
        said.append(
            ("info", f"{len(report.fixed)} clip(s) were cut to their longest clean run: {cuts or 'none had to be'}")
        )
    if report.cut:
        listed = ", ".join(report.cut)
        said.append(("info", f"{len(report.cut)} clip(s) were longer than {MAX_FRAMES} frames and were cut: {listed}"))
    if report.resumed:
        said.append(("info", f"{report.resumed} clip(s) were done before the last run was interrupted."))
    if report.uncaptioned:
        text = f"{len(report.uncaptioned)} clip(s) have no caption; training on text needs one (--captions CSV)."
        said.append(("warning", text))
    if report.motionless:
        listed = ", ".join(report.motionless[:10])
        said.append(("warning", f"{len(report.motionless)} caption row(s) have no clip: {listed}"))
    return said


def summary_rows(report: ConvertReport) -> list[tuple[str, object]]:
    """Return the numbers of a conversion, each with its name."""
    return [
        ("clips", len(report.written)),
        *report.splits.items(),
        ("frames", report.frames),
        ("left out", len(report.short) + len(report.failed)),
        *((_FIGURES.get(name, name), value) for name, value in report.figures.items()),
        ("seconds", report.seconds),
        ("CPU-seconds", report.cpu_seconds),
    ]


FINDING_COLUMNS = ("clip", "frames", "fps", "format", "finding", "where", "what")


def finding_rows(report: ConvertReport) -> list[tuple[object, ...]]:
    """Return what was found in each clip, a row per finding under `FINDING_COLUMNS`."""
    return [row for clip in report.clips for row in _of_clip(clip)]


def _of_clip(clip: dict[str, Any]) -> list[tuple[object, ...]]:
    facts = (clip["clip"], clip["frames"], clip["fps"], clip.get("format", ""))
    findings = clip["findings"] or [{"kind": "-", "frames": [], "detail": ""}]
    return [
        (*(facts if number == 0 else ("", "", "", "")), finding["kind"], _where(finding["frames"]), finding["detail"])
        for number, finding in enumerate(findings)
    ]


def _where(frames: list[list[int]]) -> str:
    shown = ", ".join(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in frames[:4])
    return f"{shown}, ..." if len(frames) > 4 else shown
