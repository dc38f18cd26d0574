"""The statistics of a data set, gathered clip by clip."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from motionkit.clips.profile._captions import CaptionCount
from motionkit.clips.profile._contact_count import Contacts
from motionkit.clips.profile._course import SPEED_BINS, YAW_BINS
from motionkit.clips.profile._measure import Measure
from motionkit.clips.profile._moments import Circle, Counts, Moments
from motionkit.clips.profile._outliers import Outlier, find_outliers
from motionkit.clips.profile._ranges import RigSums
from motionkit.clips.profile._row import Row


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
        skeletons: Sums of each skeleton by its name.
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
    skeletons: dict[str, RigSums] = field(default_factory=dict)

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
        sums = self.skeletons.get(one.rig.name)
        if sums is not None:
            sums.add(one.rig, one.row.frames, one.angles, one.heights, one.reaches)
        else:
            self.skeletons[one.rig.name] = RigSums(
                one.rig, one.row.clip, 1, one.row.frames, one.angles, one.heights, one.reaches
            )

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
        """`complexity_uncapped`, 2 at most: 0 for one straight walk, 2 for varied motion."""
        return min(2.0, self.complexity_uncapped)

    @property
    def complexity_uncapped(self) -> float:
        """``(yaw_std / 30 degrees + speed_std / 0.3 m/s) / 2``."""
        return 0.5 * ((self.yaw.std or 0.0) / 30.0 + (self.speed.std or 0.0) / 0.3)

    def outliers(self) -> tuple[Outlier, ...]:
        """Return the clips that are unlike the others."""
        return find_outliers(self.rows)

    def rig_sums(self) -> list[RigSums]:
        """Return the sums of each skeleton, the most used first."""
        return sorted(self.skeletons.values(), key=lambda sums: -sums.frames)

    def splits(self) -> dict[str, int]:
        """Return clips by split, a clip under each that lists it; clips without one are under ``none``."""
        return dict(Counter(split for row in self.rows for split in row.listed or ("none",)).most_common())

    def leaks(self) -> list[str]:
        """Return groups, and ids of clips without one, that are in several splits."""
        found: dict[str, set[str]] = {}
        for row in self.rows:
            found.setdefault(row.group or row.clip, set()).update(row.listed)
        return sorted(name for name, splits in found.items() if len(splits) > 1)

    def listed_twice(self) -> dict[str, tuple[str, ...]]:
        """Return the clips that several splits list, with those splits."""
        return {row.clip: row.splits for row in self.rows if len(row.splits) > 1}

    def leaked_by_splits(self) -> dict[tuple[str, ...], list[str]]:
        """Return the same clips by the splits that list them."""
        found: dict[tuple[str, ...], list[str]] = {}
        for clip, splits in self.listed_twice().items():
            found.setdefault(splits, []).append(clip)
        return found

    def findings(self) -> dict[str, dict[str, int]]:
        """Return for each kind of fault the clips that have it as an error and as a warning."""
        found: dict[str, dict[str, int]] = {}
        for row in self.rows:
            for kind, severity in {(finding.kind, finding.severity) for finding in row.findings}:
                found.setdefault(kind, {"error": 0, "warning": 0})[severity] += 1
        return dict(sorted(found.items(), key=lambda item: (-item[1]["error"], -item[1]["warning"], item[0])))
