"""A profile as plain data and as text, for the terminal, the page and ``--json``.

The figures of a settings file and the whole document, notes on what a reader should know first, suggested settings with
the protocol of an `Advisor` (so that profile does not depend on a trainer), and tables for a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Protocol

from motionkit.clips.profile.measure import SPEED_BINS, YAW_BINS
from motionkit.clips.profile.statistics import Profile, uncompared
from motionkit.page.wording import UNKNOWN, capped, count, degrees, duration, joined, metres, plain


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
    bad: bool = True  # Whether figures are affected
    about: str = ""  # Key of its subject

    @property
    def sentence(self) -> str:
        """Both parts."""
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


@dataclass(frozen=True)
class Suggestion:
    """A suggested setting."""

    key: str  # Its name in the configuration
    value: Any  # Its value
    reason: str  # The reason, with the figure of the dataset it follows from
    columns: tuple[str, ...] = ()  # Heads of a table that shows a value of several parts
    rows: tuple[tuple[object, ...], ...] = ()  # The table's rows; empty for a plain value
    note: str = ""  # A note below the table

    @property
    def short(self) -> str:
        """The value on one line."""
        return short(self.value)


class Advisor(Protocol):
    """Suggests settings of one trainer for a dataset."""

    @property
    def title(self) -> str:
        """Name of what the settings are for: ``the motion predictor``."""
        ...

    @property
    def command(self) -> str:
        """The command that reads them."""
        ...

    @property
    def silence(self) -> str:
        """Why no settings are suggested, where none are."""
        ...

    def suggest(self, profile: Profile, fixed: Mapping[str, Any] | None = None) -> Sequence[Suggestion]:
        """Return settings with reasons, by the training clips; those in `fixed` stay and the others follow them."""
        ...

    def problems(self, kept: Mapping[str, Any], suggestions: Sequence[Suggestion]) -> Sequence[str]:
        """Return problems of settings that stay in a file, one sentence each."""
        ...


def short(value: object) -> str:
    """Return a setting on one line; a list of stages as their labels and ranges."""
    if isinstance(value, list) and value and all(isinstance(part, dict) and "range" in part for part in value):
        return ", ".join(f"{part.get('label', '?')} {part['range']}" for part in value)
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_SHOWN, _WORDS = 3, 10
"""Outliers listed for each figure, and verbs; the page and ``--json`` have more."""


@dataclass(frozen=True)
class Table:
    """One table."""

    title: str  # Its title
    columns: tuple[str, ...]  # Heads of its columns; empty ones make a plain list of names and values
    rows: list[tuple[object, ...]]  # Its cells


def profile_tables(profile: Profile, suggestions: Sequence[Suggestion], use: str = "") -> Iterator[Table]:
    """Yield the tables of a profile."""
    figures = profile_statistics(profile)
    yield Table(
        "dataset",
        ("", ""),
        [(name, _shown(write, figures[key])) for key, name, write in _FIGURES] + _bones(profile),
    )
    if profile.captions.captions:
        yield Table("captions", ("", ""), _captions(profile))
    yield Table("inventory", ("what", "which", "clips"), _inventory(profile))
    if faults := profile.findings():
        kinds: list[tuple[object, ...]] = [(kind, many["error"], many["warning"]) for kind, many in faults.items()]
        yield Table("findings (convert --check lists them)", ("kind", "clips with an error", "with a warning"), kinds)
    if outliers := _outliers(profile):
        yield Table(
            "outliers, the furthest of each figure", ("figure", "clip", "its own", "median clip", "z"), outliers
        )
    if suggestions:
        yield Table(
            f"suggested settings for {use} (--write-config FILE merges them into yours)",
            ("setting", "value", "reason"),
            [
                (suggestion.key, suggestion.short, suggestion.reason)
                for suggestion in suggestions
                if not suggestion.rows
            ],
        )
    for suggestion in suggestions:
        if suggestion.rows:
            # Transposed: the names of settings are too long for heads at 80 characters.
            head, *rows = zip(suggestion.columns, *suggestion.rows, strict=True)
            yield Table(f"{suggestion.key}: {suggestion.reason}", tuple(map(str, head)), rows)


def remarks(profile: Profile) -> Iterator[str]:
    """Yield notes on statistics whose tables are missing."""
    if not profile.captions.captions:
        yield "there are no captions."
    if missing := uncompared(profile.rows):
        yield f"outliers: {missing[:1].lower()}{missing[1:]}"
    elif not profile.outliers():
        yield "outliers: no clip is far from the others in length, speed, jerk or foot skate."


_FIGURES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("n_clips", "clips", lambda value: f"{value:,}"),
    ("total_frames", "frames", lambda value: f"{value:,}"),
    ("total_seconds", "duration", duration),
    ("avg_seq_len", "mean length, frames", lambda value: f"{value:,.1f}"),
    ("median_seq_len", "median length, frames", lambda value: f"{value:,g}"),
    ("min_seq_len", "shortest, frames", lambda value: f"{value:,}"),
    ("max_seq_len", "longest, frames", lambda value: f"{value:,}"),
    ("avg_seconds", "mean length", lambda value: metres(value, "s")),
    ("median_seconds", "median length", lambda value: metres(value, "s")),
    ("yaw_mean_deg", "|yaw|, mean", degrees),
    ("yaw_std_deg", "|yaw|, std", degrees),
    ("yaw_circular_mean_deg", "facing, circular mean", degrees),
    ("yaw_circular_std_deg", "facing, circular std", degrees),
    ("yaw_resultant", "facing, resultant length", plain),
    ("speed_mean", "root speed, mean", lambda value: metres(value, "m/s")),
    ("speed_std", "root speed, std", lambda value: metres(value, "m/s")),
    ("speed_max", "root speed, most", lambda value: metres(value, "m/s")),
    ("contact_ratio", "contact ratio", plain),
)


def _shown(write: Callable[[Any], str], value: object) -> str:
    return UNKNOWN if value is None else write(value)


def _bones(profile: Profile) -> list[tuple[object, ...]]:
    """Return the rows of bone angles, which only rotations have, and of the complexity."""
    none = f"{UNKNOWN}: joints only" if profile.bone_angle.mean is None else ""
    return [
        ("bone angle, mean", none or degrees(profile.bone_angle.mean)),
        ("bone angle, std", none or degrees(profile.bone_angle.std)),
        ("complexity, 0 to 2", capped(profile.complexity, profile.complexity_uncapped)),
    ]


def _captions(profile: Profile) -> list[tuple[object, ...]]:
    facts = profile.captions.document()
    verbs = list(profile.captions.top_verbs().items())[:_WORDS]
    return [
        ("captions", f"{facts['count']:,}"),
        ("different", f"{facts['different']:,}"),
        ("per clip", f"{facts['per_clip']:.1f}"),
        ("clips without", f"{facts['clips_without']:,}"),
        ("words, mean", f"{facts['words_mean']:.1f}"),
        ("words, median", f"{facts['words_median']:g}"),
        ("words, most", f"{facts['words_max']:,}"),
        ("vocabulary", f"{facts['vocabulary']:,}"),
        ("most frequent verbs", ", ".join(f"{word} {number}" for word, number in verbs)),
    ]


def _inventory(profile: Profile) -> list[tuple[object, ...]]:
    twice = profile.leaked_by_splits()
    return [
        *(("split", name, number) for name, number in profile.splits().items()),
        *(("in several splits", f"{joined(splits)}: {joined(clips)}", len(clips)) for splits, clips in twice.items()),
        *(("frames per second", f"{fps:g}", number) for fps, number in profile.fps.items()),
        *(("skeleton", f"{sums.rig.label} ({sums.example})", sums.clips) for sums in profile.rig_sums()),
    ]


def _outliers(profile: Profile) -> list[tuple[object, ...]]:
    outliers = profile.outliers()
    rows: list[tuple[object, ...]] = []
    for figure in dict.fromkeys(outlier.figure for outlier in outliers):
        far = [outlier for outlier in outliers if outlier.figure == figure]
        rows += [
            (outlier.title, outlier.clip, outlier.shown, outlier.usual, f"{outlier.z:+.1f}") for outlier in far[:_SHOWN]
        ]
        if len(far) > _SHOWN:
            rows.append((far[0].title, f"and {count(len(far) - _SHOWN, 'more clip')}", "", far[0].usual, ""))
    return rows
