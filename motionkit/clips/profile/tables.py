"""A profile as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from motionkit.clips.profile.document import Suggestion, profile_statistics
from motionkit.clips.profile.statistics import Profile, uncompared
from motionkit.page import UNKNOWN, capped, count, degrees, duration, joined, metres, plain

_SHOWN = 3
"""Outliers listed for each figure; the page and ``--json`` have more."""

_WORDS = 10


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
    if found := profile.findings():
        kinds: list[tuple[object, ...]] = [(kind, many["error"], many["warning"]) for kind, many in found.items()]
        yield Table("findings (convert --check lists them)", ("kind", "clips with an error", "with a warning"), kinds)
    if outliers := _outliers(profile):
        yield Table(
            "outliers, the furthest of each figure", ("figure", "clip", "its own", "median clip", "z"), outliers
        )
    if suggestions:
        yield Table(
            f"suggested settings for {use} (--write-config FILE merges them into yours)",
            ("setting", "value", "reason"),
            [(one.key, one.short, one.reason) for one in suggestions if not one.rows],
        )
    for one in suggestions:
        if one.rows:
            # A column for each row: the names of settings are too long for heads at 80 characters.
            head, *rows = zip(one.columns, *one.rows, strict=True)
            yield Table(f"{one.key}: {one.reason}", tuple(map(str, head)), rows)


def remarks(profile: Profile) -> Iterator[str]:
    """Yield notes on statistics that could not be computed, whose tables are therefore missing."""
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
    found = profile.captions.document()
    verbs = list(profile.captions.top_verbs().items())[:_WORDS]
    return [
        ("captions", f"{found['count']:,}"),
        ("different", f"{found['different']:,}"),
        ("per clip", f"{found['per_clip']:.1f}"),
        ("clips without", f"{found['clips_without']:,}"),
        ("words, mean", f"{found['words_mean']:.1f}"),
        ("words, median", f"{found['words_median']:g}"),
        ("words, most", f"{found['words_max']:,}"),
        ("vocabulary", f"{found['vocabulary']:,}"),
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
    found = profile.outliers()
    rows: list[tuple[object, ...]] = []
    for figure in dict.fromkeys(one.figure for one in found):
        far = [one for one in found if one.figure == figure]
        rows += [(one.title, one.clip, one.shown, one.usual, f"{one.z:+.1f}") for one in far[:_SHOWN]]
        if len(far) > _SHOWN:
            rows.append((far[0].title, f"and {count(len(far) - _SHOWN, 'more clip')}", "", far[0].usual, ""))
    return rows
