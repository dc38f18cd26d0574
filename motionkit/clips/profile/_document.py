"""A profile as plain data: the figures of a settings file, and the whole document of ``--json``."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from statistics import median

from motionkit.clips.profile._movement import SPEED_BINS, YAW_BINS
from motionkit.clips.profile._profile import Profile


def profile_statistics(profile: Profile) -> dict[str, object]:
    """Return the figures that go into a settings file; keys are stable, None for unknown figures."""
    seconds = [row.seconds for row in profile.rows]
    lengths, number = profile.lengths, len(profile.rows)
    return {
        "n_clips": number,
        "total_frames": profile.frames,
        "total_seconds": round(sum(seconds), 3),
        "avg_seq_len": round(profile.frames / number, 3) if number else 0.0,
        "median_seq_len": median(lengths) if number else 0.0,
        "min_seq_len": min(lengths, default=0),
        "max_seq_len": max(lengths, default=0),
        "avg_seconds": round(sum(seconds) / number, 3) if number else 0.0,
        "median_seconds": round(median(seconds), 3) if number else 0.0,
        "yaw_mean_deg": _rounded(profile.yaw.mean),
        "yaw_std_deg": _rounded(profile.yaw.std),
        "yaw_circular_mean_deg": _rounded(profile.facing.mean_deg),
        "yaw_circular_std_deg": _rounded(profile.facing.std_deg),
        "yaw_resultant": _rounded(profile.facing.length),
        "speed_mean": _rounded(profile.speed.mean),
        "speed_std": _rounded(profile.speed.std),
        "speed_max": _rounded(profile.speed.most if profile.speed.count else None),
        "bone_angle_mean_deg": _rounded(profile.bone_angle.mean),
        "bone_angle_std_deg": _rounded(profile.bone_angle.std),
        "contact_ratio": _rounded(profile.contacts.ratio),
        "complexity": round(profile.complexity, 4),
        "complexity_uncapped": round(profile.complexity_uncapped, 4),
    }


def profile_document(profile: Profile) -> dict[str, object]:
    """Return everything for JSON: `profile_statistics`, distributions, findings and clips."""
    return {
        **profile_statistics(profile),
        "contacts": asdict(profile.contacts),
        "captions": profile.captions.document(),
        "splits": profile.splits(),
        "leaks": profile.leaks(),
        "listed_twice": {clip: list(splits) for clip, splits in profile.listed_twice().items()},
        "fps": {f"{fps:g}": clips for fps, clips in profile.fps.items()},
        "formats": dict(Counter(row.format for row in profile.rows if row.format).most_common()),
        "skeletons": [sums.document() for sums in profile.rig_sums()],
        "histograms": {
            "speed": {"start": 0.0, "width": SPEED_BINS.width, "counts": profile.speed_bins.tolist()},
            "yaw": {"start": YAW_BINS.start, "width": YAW_BINS.width, "counts": profile.yaw_bins.tolist()},
            "travel": {"start": YAW_BINS.start, "width": YAW_BINS.width, "counts": profile.travel_bins.tolist()},
        },
        "findings": profile.findings(),
        "outliers": [asdict(outlier) for outlier in profile.outliers()],
        "clips": [
            {**asdict(row), "findings": [finding.document() for finding in row.findings]} for row in profile.rows
        ],
        "failed": dict(profile.failed),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
