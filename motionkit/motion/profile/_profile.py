"""The statistics of a data set, gathered clip by clip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from statistics import median

from motionkit.motion._clip import Clip
from motionkit.motion._motion import END
from motionkit.motion.profile._captions import CaptionCount
from motionkit.motion.profile._measure import (
    ANGLE_BINS,
    HEIGHT_BINS,
    REACH_BINS,
    SPEED_BINS,
    YAW_BINS,
    Contacts,
    Measure,
    Rig,
    Row,
    measure,
)
from motionkit.motion.profile._moments import Circle, Counts, Moments
from motionkit.motion.profile._outliers import Outlier, find_outliers

_QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class JointRange:
    """Where a joint of one rig goes.

    Attributes:
        joint: Its name.
        angle_deg: 5 %, 50 % and 95 % quantile of its rotation from the rest pose; empty without rotations.
        height_m: The same of its height above the floor.
        reach_m: The same of its distance from the root along the floor.
    """

    joint: str
    angle_deg: tuple[float, ...]
    height_m: tuple[float, ...]
    reach_m: tuple[float, ...]


@dataclass
class _RigSums:
    clips: int = 0
    frames: int = 0
    angles: Counts = field(default_factory=ANGLE_BINS.zeros)
    heights: Counts = field(default_factory=ANGLE_BINS.zeros)
    reaches: Counts = field(default_factory=ANGLE_BINS.zeros)

    def add(self, one: Measure) -> None:
        self.clips += 1
        self.frames += one.row.frames
        if self.clips == 1:
            self.angles, self.heights, self.reaches = one.angles, one.heights, one.reaches
        else:
            # Joints alone and rotations may share names and parents; angles are of the latter only.
            if len(one.angles):
                self.angles = self.angles + one.angles if len(self.angles) else one.angles
            self.heights, self.reaches = self.heights + one.heights, self.reaches + one.reaches

    def ranges(self, rig: Rig) -> tuple[JointRange, ...]:
        """Return the ranges of all joints but end sites."""
        tables = []
        for bins, counts in ((ANGLE_BINS, self.angles), (HEIGHT_BINS, self.heights), (REACH_BINS, self.reaches)):
            columns = [bins.quantile(counts, part) for part in _QUANTILES] if len(counts) else []
            tables.append(list(zip(*columns, strict=True)) if columns else [()] * len(rig.names))
        return tuple(
            JointRange(name, *(table[place] for table in tables))
            for place, name in enumerate(rig.names)
            if not name.endswith(END)
        )


@dataclass
class Profile:
    """Statistics of a data set; `add` takes one clip's measure at a time.

    Attributes:
        rows: Figures of each clip.
        failed: Origin and reason of what could not be read.
        yaw: |yaw| in degrees over all frames.
        facing: Where bodies face, relative to their first frame.
        yaw_bins: Frames by that direction.
        travel_bins: Moving steps by direction of travel relative to the front.
        speed: m/s over all steps.
        speed_bins: Steps by speed.
        bone_angle: Degrees of local rotations.
        contacts: Frames by what touches the floor.
        captions: Counts of captions.
    """

    rows: list[Row] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    yaw: Moments = field(default_factory=Moments)
    facing: Circle = field(default_factory=Circle)
    yaw_bins: Counts = field(default_factory=YAW_BINS.zeros)
    travel_bins: Counts = field(default_factory=YAW_BINS.zeros)
    speed: Moments = field(default_factory=Moments)
    speed_bins: Counts = field(default_factory=SPEED_BINS.zeros)
    bone_angle: Moments = field(default_factory=Moments)
    contacts: Contacts = field(default_factory=Contacts)
    captions: CaptionCount = field(default_factory=CaptionCount)
    _rigs: dict[str, tuple[Rig, _RigSums]] = field(default_factory=dict)

    def add(self, one: Measure) -> None:
        """Take one clip in."""
        self.rows.append(one.row)
        self.yaw += one.yaw
        self.facing += one.facing
        self.yaw_bins = self.yaw_bins + one.yaw_bins
        self.travel_bins = self.travel_bins + one.travel_bins
        self.speed += one.speed
        self.speed_bins = self.speed_bins + one.speed_bins
        self.bone_angle += one.bone_angle
        self.contacts += one.contacts
        self.captions.add(one.texts)
        rig, sums = self._rigs.setdefault(one.rig.name, (one.rig, _RigSums()))
        if one.rig.rotations and not rig.rotations:
            self._rigs[rig.name] = (replace(rig, rotations=True), sums)
        sums.add(one)

    @property
    def frames(self) -> int:
        """Frames of all clips."""
        return sum(row.frames for row in self.rows)

    @property
    def lengths(self) -> list[int]:
        """Frames of each clip."""
        return [row.frames for row in self.rows]

    @property
    def fps(self) -> dict[float, int]:
        """Clips by their frame rate, the most frequent first."""
        return dict(Counter(row.fps for row in self.rows).most_common())

    @property
    def complexity(self) -> float:
        """``min(2, (yaw_std / 30 degrees + speed_std / 0.3 m/s) / 2)``: 0 for one straight walk, 2 at most."""
        return min(2.0, 0.5 * ((self.yaw.std or 0.0) / 30.0 + (self.speed.std or 0.0) / 0.3))

    def outliers(self) -> tuple[Outlier, ...]:
        """Return the clips that are unlike the others."""
        return find_outliers(self.rows)

    def rigs(self) -> Iterable[tuple[Rig, int, int, tuple[JointRange, ...]]]:
        """Yield each skeleton with its clips, frames and joint ranges, the most used first."""
        for rig, sums in sorted(self._rigs.values(), key=lambda item: -item[1].frames):
            yield rig, sums.clips, sums.frames, sums.ranges(rig)

    def statistics(self) -> dict[str, object]:
        """Return the figures that go into a settings file; keys are stable, None where nothing is known."""
        seconds = [row.seconds for row in self.rows]
        number = len(self.rows)
        return {
            "n_clips": number,
            "total_frames": self.frames,
            "total_seconds": round(sum(seconds), 3),
            "avg_seq_len": round(self.frames / number, 3) if number else 0.0,
            "median_seq_len": median(self.lengths) if number else 0.0,
            "min_seq_len": min(self.lengths, default=0),
            "max_seq_len": max(self.lengths, default=0),
            "avg_seconds": round(sum(seconds) / number, 3) if number else 0.0,
            "median_seconds": round(median(seconds), 3) if number else 0.0,
            "yaw_mean_deg": _rounded(self.yaw.mean),
            "yaw_std_deg": _rounded(self.yaw.std),
            "yaw_circular_mean_deg": _rounded(self.facing.mean_deg),
            "yaw_circular_std_deg": _rounded(self.facing.std_deg),
            "yaw_resultant": _rounded(self.facing.length),
            "speed_mean": _rounded(self.speed.mean),
            "speed_std": _rounded(self.speed.std),
            "speed_max": _rounded(self.speed.most if self.speed.count else None),
            "bone_angle_mean_deg": _rounded(self.bone_angle.mean),
            "bone_angle_std_deg": _rounded(self.bone_angle.std),
            "contact_ratio": _rounded(self.contacts.ratio),
            "complexity": round(self.complexity, 4),
        }

    def document(self) -> dict[str, object]:
        """Return everything for JSON: `statistics` and what stands behind it."""
        return {
            **self.statistics(),
            "contacts": asdict(self.contacts),
            "captions": self.captions.document(),
            "splits": self.splits(),
            "leaks": self.leaks(),
            "fps": {f"{fps:g}": clips for fps, clips in self.fps.items()},
            "formats": dict(Counter(row.format for row in self.rows if row.format).most_common()),
            "skeletons": [
                {
                    "name": rig.name,
                    "joints": len(ranges),
                    "clips": clips,
                    "frames": frames,
                    "rotations": rig.rotations,
                    "ranges": [_range(joint) for joint in ranges],
                }
                for rig, clips, frames, ranges in self.rigs()
            ],
            "histograms": {
                "speed": {"start": 0.0, "width": SPEED_BINS.width, "counts": self.speed_bins.tolist()},
                "yaw": {"start": YAW_BINS.start, "width": YAW_BINS.width, "counts": self.yaw_bins.tolist()},
                "travel": {"start": YAW_BINS.start, "width": YAW_BINS.width, "counts": self.travel_bins.tolist()},
            },
            "findings": self.findings(),
            "outliers": [asdict(outlier) for outlier in self.outliers()],
            "clips": [
                {**asdict(row), "findings": [finding.document() for finding in row.findings]} for row in self.rows
            ],
            "failed": dict(self.failed),
        }

    def splits(self) -> dict[str, int]:
        """Return clips by split; clips without one are under ``none``."""
        return dict(Counter(row.split or "none" for row in self.rows).most_common())

    def leaks(self) -> list[str]:
        """Return groups that have clips in several splits."""
        found: dict[str, set[str]] = {}
        for row in self.rows:
            if row.group and row.split:
                found.setdefault(row.group, set()).add(row.split)
        return sorted(group for group, splits in found.items() if len(splits) > 1)

    def findings(self) -> dict[str, dict[str, int]]:
        """Return for each kind of fault the clips that have it as an error and as a warning."""
        found: dict[str, dict[str, int]] = {}
        for row in self.rows:
            for kind, severity in {(finding.kind, finding.severity) for finding in row.findings}:
                found.setdefault(kind, {"error": 0, "warning": 0})[severity] += 1
        return dict(sorted(found.items(), key=lambda item: (-item[1]["error"], -item[1]["warning"], item[0])))


def profile_clips(clips: Iterable[tuple[str, Clip]], failed: Mapping[str, str] | None = None) -> Profile:
    """Profile clips that are loaded already.

    Args:
        clips: Id and clip.
        failed: What could not be read, for the record.
    """
    profile = Profile(failed=dict(failed or {}))
    for key, clip in clips:
        profile.add(measure(clip, key, key))
    return profile


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _range(joint: JointRange) -> dict[str, object]:
    """Return a range for JSON, the three quantiles to two digits."""
    return {
        "joint": joint.joint,
        "angle_deg": [round(value, 1) for value in joint.angle_deg],
        "height_m": [round(value, 2) for value in joint.height_m],
        "reach_m": [round(value, 2) for value in joint.reach_m],
    }
