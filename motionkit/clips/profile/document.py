"""A profile as plain data: notes, the document of ``--json``, and suggested settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Protocol

from motionkit.clips.profile.statistics import Profile
from motionkit.clips.profile.sums import SPEED_BINS, YAW_BINS
from motionkit.page import count, joined

# A profile as plain data: the figures of a settings file, and the whole document of ``--json``.


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


@dataclass(frozen=True)
class Note:
    """One remark."""

    head: str  # The problem
    rest: str  # Its effect; continues the sentence of `head`
    bad: bool = True  # Whether figures suffer from it
    about: str = ""  # A word that names its subject

    @property
    def sentence(self) -> str:
        """Return both parts."""
        return self.head + self.rest


def notes(profile: Profile) -> Iterator[Note]:
    """Yield notes, the most serious first."""
    if number := len(profile.failed):
        yield Note(
            f"{count(number, 'file')} could not be read", f" and {_is(number)} not in the figures.", about="failed"
        )
    if number := sum(any(finding.severity == "error" for finding in row.findings) for row in profile.rows):
        yield Note(
            f"{count(number, 'clip')} {_has(number)} a fault", " that spoils a part: see Findings.", about="faults"
        )
    clips: list[str] = []
    if twice := profile.leaked_by_splits():
        splits = [joined(combination) for combination in twice]
        clips = [clip for members in twice.values() for clip in members]
        yield Note(
            f"{count(len(clips), 'clip')} {_is(len(clips))} listed in several splits",
            f" ({'; '.join(splits)}), so held-out figures will flatter: {joined(clips)}.",
        )
    if groups := [name for name in profile.leaks() if name not in clips]:
        yield Note(
            f"{count(len(groups), 'group')} {_has(len(groups))} clips in several splits",
            f", so held-out figures will flatter: {joined(groups)}.",
        )
    if len(profile.fps) > 1:
        rates = ", ".join(f"{fps:g}" for fps in sorted(profile.fps))
        yield Note(
            f"Clips have different frame rates ({rates})",
            "; lengths in frames mix them, lengths in seconds do not.",
            bad=False,
        )
    if profile.captions.captions and (number := profile.captions.without):
        yield Note(f"{count(number, 'clip')} {_has(number)} no caption.", "", bad=False)


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _has(number: int) -> str:
    return "has" if number == 1 else "have"


# Suggested settings, and the protocol of an advisor that suggests them: profile itself knows no trainer.


@dataclass(frozen=True)
class Suggestion:
    """One setting."""

    key: str  # Its name in the configuration
    value: Any  # What to set it to
    reason: str  # Why, with the figure of the dataset it follows from
    columns: tuple[str, ...] = ()  # Heads of a table that shows a value of several parts
    rows: tuple[tuple[object, ...], ...] = ()  # The table's rows; empty for a plain value
    note: str = ""  # What to say below the table

    @property
    def short(self) -> str:
        """The value on one line."""
        return short(self.value)


class Advisor(Protocol):
    """Suggests settings of one trainer for a dataset.

    Attributes:
        title: What the settings are for: ``the motion predictor``.
    """

    @property
    def title(self) -> str:
        """Return what the settings are for."""
        ...

    def suggest(self, profile: Profile, fixed: Mapping[str, Any] | None = None) -> Sequence[Suggestion]:
        """Return settings with reasons, by the clips to train on; those in `fixed` stay, and the others follow them."""
        ...

    def problems(self, kept: Mapping[str, Any], suggestions: Sequence[Suggestion]) -> Sequence[str]:
        """Return the faults of settings that stay in a file, one sentence each."""
        ...


def short(value: object) -> str:
    """Return a setting on one line; a list of stages as their labels and ranges."""
    if isinstance(value, list) and value and all(isinstance(part, dict) and "range" in part for part in value):
        return ", ".join(f"{part.get('label', '?')} {part['range']}" for part in value)
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
