"""The page's sections beside the charts of movement: captions, joints, findings, outliers, inventory, settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from statistics import median

from motionkit.clips.checks._finding import KINDS
from motionkit.clips.profile._edit_json import dump
from motionkit.clips.profile._outliers import find_outliers, uncompared
from motionkit.clips.profile._profile import Profile
from motionkit.clips.profile._skeletons import JointRange, RigSums
from motionkit.clips.profile._suggestion import Suggestion
from motionkit.page import bars, count, details, figure, grid, histogram, joined, note, share, spans, table

_MOST_WORDS, _LONGEST_CAPTION = 12, 40
_SKELETONS = 4
_RANGE = "joints: bars from the 5 % to the 95 % quantile"
_FINDINGS, _OPEN_FINDINGS = 60, 12
"""Findings listed in all, and up to how many the list is open from the start."""

_FURTHEST = 4
"""Outliers listed for each figure."""


def captions(profile: Profile) -> str:
    """Return the section of captions; empty without captions."""
    found = profile.captions
    if not found.captions:
        return ""
    facts = found.document()
    charts = [
        figure(bars(list(rows.items())[:_MOST_WORDS], label=name), f"{name}, base forms, by number of uses.")
        for name, rows in (
            ("Most frequent verbs", found.top_verbs()),
            ("Most frequent other words", found.top_words()),
        )
        if rows
    ]
    if len(set(found.words)) > 1:
        charts.append(_word_counts(found.words))
    text = (
        f"{count(found.captions, 'caption')}, {facts['different']:,} of them different, for "
        f"{found.clips - found.without:,} of {count(found.clips, 'clip')}; a vocabulary of "
        f"{count(len(found.forms), 'word')}, {facts['words_once']:,} of them used once."
    )
    return f"<h2>Captions</h2><p>{text}</p>{grid(charts)}"


def _word_counts(words: list[int]) -> str:
    """Draw how many words captions have."""
    numbers = Counter(min(number, _LONGEST_CAPTION) for number in words)
    start = min(numbers)
    counts = [numbers[place] for place in range(start, max(numbers) + 1)]
    marks = {"median": float(median(words)), "mean": sum(words) / len(words)}
    # A bar stands over its own number, so bins begin half a word below.
    chart = histogram(
        start - 0.5, 1.0, counts, label="length", unit="words", of="captions", marks=marks, digits=1, whole=True
    )
    longest = f", {max(words)} at most" if max(words) > _LONGEST_CAPTION else ""
    return figure(chart, f"Words per caption{longest}.")


def joints(profile: Profile) -> str:
    """Return the section of joints: the most used skeleton, and the next ones in closed details."""
    found = profile.rig_sums()
    if not found:
        return ""
    sections = [
        details(_skeleton(sums), _ranges(sums)) if place else f"<h3>{escape(_skeleton(sums))}</h3>{_ranges(sums)}"
        for place, sums in enumerate(found[:_SKELETONS])
    ]
    left = len(found) - _SKELETONS
    more = note(f"{count(left, 'more skeleton')} in the JSON.") if left > 0 else ""
    legend = note("Bars reach from the 5 % to the 95 % quantile over all frames, a tick marks the median.")
    return f"<h2>Joints</h2>{legend}{''.join(sections)}{more}"


def _skeleton(sums: RigSums) -> str:
    """Return a skeleton's name, with a clip that has it and the numbers of its clips and frames."""
    example = "" if sums.clips == 1 else " and others"
    return f"{sums.rig.label} ({sums.example}{example}): {count(sums.clips, 'clip')}, {count(sums.frames, 'frame')}"


def _ranges(sums: RigSums) -> str:
    ranges = sums.ranges()
    rows = [
        ("rotation", "°", "Rotation from the rest pose.", [(one.joint, one.angle_deg) for one in ranges]),
        (
            "height",
            "m",
            "Height above the floor, estimated for each clip.",
            [(one.joint, one.height_m) for one in ranges],
        ),
        ("distance", "m", "Distance from the root, along the floor.", [(one.joint, one.reach_m) for one in ranges]),
    ]
    shown = rows if ranges and ranges[0].angle_deg else rows[1:]
    charts = [
        figure(spans(values, label=label, unit=unit, of=_RANGE, low=0.0), caption)
        for label, unit, caption, values in shown
    ]
    return grid(charts) + details("the numbers", _numbers(ranges))


def _numbers(ranges: Sequence[JointRange]) -> str:
    rows = [
        (joint.joint, _three(joint.angle_deg, 0), _three(joint.height_m, 2), _three(joint.reach_m, 2))
        for joint in ranges
    ]
    return table(("joint", "rotation, degrees", "height, m", "distance from the root, m"), rows, numbers=(1, 2, 3))


def _three(values: Sequence[float], digits: int) -> str:
    return " · ".join(f"{value:.{digits}f}" for value in values) or "-"


def faults(profile: Profile) -> str:
    """Return the section of findings, by kind and clip by clip."""
    found = profile.findings()
    if not found:
        return "<h2>Findings</h2><p>No clip has a fault that the checks know.</p>"
    kinds = [(kind, KINDS[kind], number["error"], number["warning"]) for kind, number in found.items()]  # type: ignore[index]
    listed = [
        (row.clip, finding.kind, finding.severity, finding.detail) for row in profile.rows for finding in row.findings
    ]
    listed.sort(key=lambda entry: entry[2] != "error")
    more = len(listed) - _FINDINGS
    inside = table(("clip", "kind", "severity", "what"), listed[:_FINDINGS])
    inside += note(f"{more:,} more in the JSON, and in motionkit convert --check." if more > 0 else "")
    return (
        "<h2>Findings</h2>"
        + table(("kind", "meaning", "clips with an error", "clips with a warning"), kinds, numbers=(2, 3))
        + details("clip by clip", inside, opened=len(listed) <= _OPEN_FINDINGS)
    )


def unusual(profile: Profile) -> str:
    """Return the section of outliers; figures that too few clips have are named as not compared."""
    missing = uncompared(profile.rows)
    found = profile.outliers()
    parts = [f"<p>{escape(missing)}</p>"] if missing else []
    nearest = find_outliers(profile.rows, 0.0)[:1]
    if not found and nearest:
        furthest = f"The furthest: {nearest[0].clip} {nearest[0].reason}"
        parts.append(f"<p>No clip is far from the others in what is compared. {escape(furthest)}</p>")
    rows = []
    for name in dict.fromkeys(outlier.figure for outlier in found):
        far = [outlier for outlier in found if outlier.figure == name]
        rows += [(one.clip, one.title, one.shown, one.usual, f"{one.z:+.1f}") for one in far[:_FURTHEST]]
        if len(far) > _FURTHEST:
            rows.append((f"and {count(len(far) - _FURTHEST, 'more clip')}", far[0].title, "", far[0].usual, ""))
    if rows:
        parts.append(table(("clip", "figure", "its own", "median clip", "z"), rows, numbers=(2, 3, 4)))
        parts.append(note("z: robust distance of the logarithm from the median; above 3.5 a clip is listed."))
    return f"<h2>Outliers</h2>{''.join(parts)}"


def inventory(profile: Profile) -> str:
    """Return the section of splits, rates, formats and skeletons, with the files that could not be read."""
    total = max(len(profile.rows), 1)
    tables = [
        table(
            (kind, "clips", "share"),
            [(which, f"{n:,}", share(n / total)) for which, n in counts.items()],
            numbers=(1, 2),
            kind="plain",
        )
        for kind, counts in _contents(profile).items()
    ]
    twice = [(clip, joined(splits)) for splits, clips in profile.leaked_by_splits().items() for clip in clips]
    leaks = details(f"{count(len(twice), 'clip')} in several splits", table(("clip", "splits"), twice)) if twice else ""
    failed = "".join(f"<li><b>{escape(name)}</b>: {escape(reason)}</li>" for name, reason in profile.failed.items())
    return f"<h2>Inventory</h2>{grid(tables)}{leaks}" + (
        f"<h3>Could not be read</h3><ul>{failed}</ul>" if failed else ""
    )


def _contents(profile: Profile) -> dict[str, Mapping[str, int]]:
    """Return clips by split, frame rate, format and skeleton."""
    formats: dict[str, int] = {}
    for row in profile.rows:
        formats[row.format or "unknown"] = formats.get(row.format or "unknown", 0) + 1
    return {
        "split": {"no split" if name == "none" else name: clips for name, clips in profile.splits().items()},
        "frame rate": {f"{fps:g} per second": clips for fps, clips in profile.fps.items()},
        "format": formats,
        "skeleton": {f"{sums.rig.label} ({sums.example})": sums.clips for sums in profile.rig_sums()},
    }


def settings(suggestions: Sequence[Suggestion], use: str) -> str:
    """Return the section with the suggested settings; empty without suggestions."""
    if not suggestions:
        return ""
    values = {one.key: one.value for one in suggestions}
    single = [(one.key, one.value, one.reason) for one in suggestions if not one.rows]
    tables = "".join(
        f"<h3>{escape(one.key)}</h3>"
        + table(one.columns, one.rows, numbers=range(1, len(one.columns)))
        + note(f"{one.reason} {one.note}")
        for one in suggestions
        if one.rows
    )
    text = f'<div class="card"><pre tabindex="0">{escape(dump(values, ""))}</pre></div>'
    return (
        f"<h2>Suggested settings for {escape(use)}</h2>"
        + table(("setting", "value", "reason"), single, numbers=(1,), kind="reasons")
        + tables
        + details("as JSON", text)
    )
