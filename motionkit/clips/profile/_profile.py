"""The statistics of a dataset, added up clip by clip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from motionkit.clips._walk import walk
from motionkit.clips.profile._captions import CaptionCount
from motionkit.clips.profile._measure import ClipRow, Measure, Sums, measure
from motionkit.clips.profile._outliers import Outlier, find_outliers
from motionkit.clips.profile._skeletons import RigSums
from motionkit.motion._clip import Clip, ClipSource
from motionkit.motion.corpus._caption_table import CaptionTable

_TRAIN = "train"


@dataclass
class Profile(Sums):
    """Statistics of a dataset; `add` takes one clip's measure at a time.

    Attributes:
        rows: Figures of each clip.
        failed: Origin and reason of what could not be read.
        captions: Counts over captions.
        skeletons: Sums of each skeleton by its name.
        of_train: Sums of the clips that the train split lists.
    """

    rows: list[ClipRow] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    captions: CaptionCount = field(default_factory=CaptionCount)
    skeletons: dict[str, RigSums] = field(default_factory=dict)
    of_train: Sums = field(default_factory=Sums)

    def add(self, one: Measure) -> None:
        """Take one clip in."""
        self.rows.append(one.row)
        self.add_sums(one)
        if _TRAIN in one.row.listed:
            self.of_train.add_sums(one)
        self.captions.add(one.texts)
        known = self.skeletons.get(one.joints.rig.name)
        if known is not None:
            known.add(one.joints)
        else:
            self.skeletons[one.joints.rig.name] = replace(one.joints)

    def training(self) -> Profile:
        """Return the statistics of the clips of the train split; of all clips where none has it.

        They have no captions, skeletons or failures.
        """
        rows = [row for row in self.rows if _TRAIN in row.listed]
        if not rows:
            return self
        found = Profile(rows=rows)
        found.add_sums(self.of_train)
        return found

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
        """Return the clips that are far from the others in a figure."""
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


def profile_sources(
    sources: Sequence[ClipSource],
    *,
    table: CaptionTable | None = None,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda key: None,
) -> Profile:
    """Load and measure every clip; clips that cannot be used are listed in `Profile.failed`.

    Args:
        sources: The clips.
        table: Captions, splits and groups; they take precedence over those of the source.
        jobs: Worker processes; 1 uses this process.
        progress: Called with each source's id when it is done.

    Raises:
        MotionkitError: A worker process died, or a clip fits several rows of the table.

    Example:
        >>> from motionkit import load_dataset
        >>> from motionkit.datasets.export import dataset_sources
        >>> profile = profile_sources(dataset_sources(load_dataset("starter"))[:3])
        >>> len(profile.rows), profile.splits(), profile.fps
        (3, {'train': 3}, {20.0: 3})
    """
    rows, _ = table.deal({source.key: source.origin for source in sources}) if table is not None else ({}, [])
    profile = Profile()
    with closing(walk(sources, _measured, rows=rows, jobs=jobs, progress=progress)) as outcomes:
        for outcome in outcomes:
            for one in outcome.results:
                profile.add(one)
            for name, reason in outcome.failed().items():
                # The name is put before the reason anyway.
                start = f"{outcome.origin} "
                profile.failed[name] = reason.removeprefix(f"{outcome.origin}: ").removeprefix(start)
    return profile


def _measured(clip: Clip, key: str, origin: str) -> list[Measure]:
    return [measure(clip, key, origin)]
