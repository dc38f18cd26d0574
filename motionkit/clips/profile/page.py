"""A profile as one page of HTML: its head, its sections in their order, and definitions of all figures.

The last part puts values into bins that are aligned with the grid of the values, for the histograms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from motionkit.clips.faults import KINDS
from motionkit.clips.profile.document import Suggestion, notes
from motionkit.clips.profile.measure import MOVING, SPEED_BINS, YAW_BINS, ClipRow, JointRange, RigSums
from motionkit.clips.profile.settings_file import dump
from motionkit.clips.profile.statistics import Profile, find_outliers, uncompared
from motionkit.page.charts import bars, rose, shares, spans
from motionkit.page.histogram import histogram
from motionkit.page.html import content_rules, definitions, details, figure, grid, html_page, note, table, tiles
from motionkit.page.wording import capped, count, degrees, duration, joined, metres, plain, share
from motionkit.version import __version__

_SHOWN = 0.995
"""Quantile at which an axis ends: with the few larger values most of it would be empty."""

_MOST_BINS = 50
"""Most bins of the speeds."""

_MOST_WORDS, _LONGEST_CAPTION = 12, 40
"""Words that are listed, and number of words from which captions share a bar."""

_SKELETONS = 4
"""Skeletons whose joints are shown."""

_RANGE = "joints: bars from the 5 % to the 95 % quantile"
_FINDINGS, _OPEN_FINDINGS = 60, 12
"""Most findings that are listed, and most with which the list is open at first."""

_FURTHEST = 4
"""Outliers listed for each figure."""

_DEFINITIONS = {
    "length": "seconds are frames over the clip's own frame rate. Bins of the histogram are whole steps of the lengths "
    "that occur.",
    "avg_seq_len, median_seq_len": "frames per clip, at the clips' own rates.",
    "yaw_mean_deg, yaw_std_deg": "|yaw| over all frames, unwrapped: RootYaw where a file has it, else the angle turned "
    "since the clip's first frame (line across hips and shoulders).",
    "yaw_circular_*": "of the direction faced since the first frame: circular mean, std = sqrt(-2 ln R), R = length of "
    "the mean vector.",
    "speed_mean, speed_std": "m/s of the root along the floor: RootVelocityXY where a file has it, else its steps.",
    "bone_angle_*": "degrees between each joint's local rotation and the rest pose, root and end sites left out; only "
    "for files with rotations.",
    "contact_ratio": "part of both feet's frames whose soft contact is above 0.5.",
    "complexity": "min(2, (yaw_std / 30° + speed_std / 0.3 m/s) / 2); uncapped is without the 2.",
    "jerk, skate": "mean third difference over joints in m/s³ and sliding speed of feet near the floor in m/s, both at "
    "20 frames per second.",
    "outlier": "modified z-score 0.6745 (x - median) / MAD of the logarithm above 3.5; jerk, skate and speed only "
    "upwards; for each figure one clip in twenty at most, since more are a second group. Compared from 8 clips on.",
    "square-root scale": "where one bar would flatten all others, heights are square roots; a bar of twice the height "
    "then stands for four times the number.",
}


def profile_page(
    profile: Profile,
    suggestions: Sequence[Suggestion] = (),
    use: str = "",
    *,
    title: str = "",
    command: str = "",
    made: str = "",
) -> str:
    """Return a whole HTML page.

    Args:
        profile: The statistics.
        suggestions: Settings to list with their reasons.
        use: What the settings are for.
        title: Name of the dataset.
        command: The command line that made it, so that it can be made again.
        made: When, as text.
    """
    body = "".join(
        [
            _head(profile, title, command, made),
            movement(profile),
            captions(profile),
            joints(profile),
            faults(profile),
            unusual(profile),
            inventory(profile),
            settings(suggestions, use),
            f"<h2>Definitions</h2>{definitions(_DEFINITIONS)}",
        ]
    )
    return html_page(f"Profile of {title or 'a dataset'}", body, made_by="profile", rules=content_rules())


def _head(profile: Profile, title: str, command: str, made: str) -> str:
    seconds = sum(row.seconds for row in profile.rows)
    # A long list would make a wide tile; all rates are in the inventory.
    rates = [f"{fps:g}" for fps in profile.fps]
    values = [
        ("clip" if len(profile.rows) == 1 else "clips", f"{len(profile.rows):,}"),
        ("in all", duration(seconds)),
        ("frames", f"{profile.frames:,}"),
        ("frames per second", " / ".join(rates[:3]) + (" / ..." if len(rates) > 3 else "")),
        ("captions", f"{profile.captions.captions:,}"),
        ("mean speed", metres(profile.speed.mean, "m/s")),
        ("contact ratio", plain(profile.contacts.ratio)),
        ("complexity, 0 to 2", capped(profile.complexity, profile.complexity_uncapped)),
    ]
    remarks = "".join(
        f"<li>{f'<b>{escape(remark.head)}</b>' if remark.bad else escape(remark.head)}{escape(remark.rest)}</li>"
        for remark in notes(profile)
    )
    # A span per word, so that a line does not break within an option.
    words = " ".join(f"<span>{escape(word)}</span>" for word in command.split(" "))
    source = f"<code>{words}</code><br>" if command else ""
    when = f"made {escape(made)} by " if made else "made by "
    return (
        f"<header><h1>Profile of {escape(title or 'a dataset')}</h1>"
        f'<p class="sub">{source}{when}motionkit {__version__}; every figure is defined at the end of the page</p>'
        f"</header>{tiles(values)}" + (f'<ul class="notes">{remarks}</ul>' if remarks else "")
    )


def movement(profile: Profile) -> str:
    """Return the section of movement; empty without figures."""
    figures = [*_lengths(profile), *_speed(profile), *_turning(profile), *_directions(profile), *_contacts(profile)]
    return f"<h2>Movement</h2>{grid(figures)}" if figures else ""


def _lengths(profile: Profile) -> Iterator[str]:
    frames, seconds = profile.lengths, [row.seconds for row in profile.rows]
    if len(set(seconds)) < 2:
        return  # a single length needs no histogram: the tiles show it
    bins = bin_lengths(profile.rows)
    marks = {"median": median(seconds), "mean": sum(seconds) / len(seconds)}
    chart = histogram(bins.start, bins.width, bins.counts, label="length", unit="s", of="clips", marks=marks)
    yield figure(
        chart, f"{min(seconds):.1f} to {max(seconds):.1f} s, {min(frames):,} to {max(frames):,} frames a clip."
    )


def _speed(profile: Profile) -> Iterator[str]:
    if not profile.speed.count:
        return
    counts = profile.speed_bins
    reach = SPEED_BINS.quantile(counts[None], _SHOWN)[0]
    used = min(int((reach - SPEED_BINS.start) / SPEED_BINS.width - 1e-9) + 1, SPEED_BINS.count)
    merged = 1 + (used - 1) // _MOST_BINS
    used = -(-used // merged) * merged
    shown = counts[:used].tolist()
    width = SPEED_BINS.width * merged
    heights = [sum(shown[place : place + merged]) for place in range(0, used, merged)]
    marks = {"mean": profile.speed.mean or 0.0, "mean + std": (profile.speed.mean or 0.0) + (profile.speed.std or 0.0)}
    chart = histogram(SPEED_BINS.start, width, heights, label="root speed", unit="m/s", of="frames", marks=marks)
    beyond = int(counts.sum()) - sum(shown)
    tail = f" {share(beyond / profile.speed.count)} of the frames are faster still." if beyond else ""
    yield figure(chart, f"Along the floor, up to {metres(profile.speed.most, 'm/s')}.{tail}")


def _turning(profile: Profile) -> Iterator[str]:
    turned = [row.turned_deg for row in profile.rows if row.turned_deg is not None]
    if len(turned) < 2:
        return
    most = quantile(turned, _SHOWN) or 1.0
    bins = bin_values(turned, most)
    chart = histogram(
        bins.start,
        bins.width,
        bins.counts,
        label="turned",
        unit="°",
        of="clips",
        marks={"median": median(turned)},
        digits=0,
    )
    beyond = len(turned) - sum(bins.counts)
    tail = f" {count(beyond, 'clip')} beyond the axis." if beyond else ""
    yield figure(chart, f"Degrees turned per clip, both ways added up; {max(turned):,.0f}° at most.{tail}")


def _directions(profile: Profile) -> Iterator[str]:
    if sum(facing := whole_circle(profile.yaw_bins.tolist())):
        spread = f"mean {degrees(profile.facing.mean_deg)}, std {degrees(profile.facing.std_deg)} (circular)"
        chart = rose(facing, label="Where bodies face since their first frame", of="frames")
        yield figure(chart, f"Where bodies face, relative to their first frame: {spread}.")
    if sum(travel := whole_circle(profile.travel_bins.tolist())):
        chart = rose(travel, label="Direction of travel relative to the front", of="moving frames")
        yield figure(chart, f"Where they go, relative to their front, while faster than {MOVING:g} m/s.")


def _contacts(profile: Profile) -> Iterator[str]:
    contacts = profile.contacts
    if not contacts.frames:
        return
    rows = [
        ("both feet", contacts.both),
        ("left only", contacts.left - contacts.both),
        ("right only", contacts.right - contacts.both),
        ("neither", contacts.neither),
    ]
    part = contacts.from_file / contacts.frames
    source = "the files' scores" if part == 1 else "from height and speed"
    if 0 < part < 1:
        source = f"{share(part)} the files' scores, the rest from height and speed"
    yield figure(shares(rows, label="Foot contacts"), f"Feet on the floor, by frame ({source}).")


def whole_circle(counts: list[int]) -> list[int]:
    """Return counts from straight ahead round to the left; the two half bins straight back are added."""
    half = (YAW_BINS.count - 1) // 2
    return [*counts[half:-1], counts[0] + counts[-1], *counts[1:half]]


def captions(profile: Profile) -> str:
    """Return the section of captions; empty without captions."""
    words = profile.captions
    if not words.captions:
        return ""
    facts = words.document()
    charts = [
        figure(bars(list(rows.items())[:_MOST_WORDS], label=name), f"{name}, base forms, by number of uses.")
        for name, rows in (
            ("Most frequent verbs", words.top_verbs()),
            ("Most frequent other words", words.top_words()),
        )
        if rows
    ]
    if len(set(words.words)) > 1:
        charts.append(_word_counts(words.words))
    text = (
        f"{count(words.captions, 'caption')}, {facts['different']:,} of them different, for "
        f"{words.clips - words.without:,} of {count(words.clips, 'clip')}; a vocabulary of "
        f"{count(len(words.forms), 'word')}, {facts['words_once']:,} of them used once."
    )
    return f"<h2>Captions</h2><p>{text}</p>{grid(charts)}"


def _word_counts(words: list[int]) -> str:
    """Draw the histogram of words per caption."""
    numbers = Counter(min(number, _LONGEST_CAPTION) for number in words)
    start = min(numbers)
    counts = [numbers[place] for place in range(start, max(numbers) + 1)]
    marks = {"median": float(median(words)), "mean": sum(words) / len(words)}
    # Bars are centred on their numbers, so bins begin half a word below.
    chart = histogram(
        start - 0.5, 1.0, counts, label="length", unit="words", of="captions", marks=marks, digits=1, whole=True
    )
    longest = f", {max(words)} at most" if max(words) > _LONGEST_CAPTION else ""
    return figure(chart, f"Words per caption{longest}.")


def joints(profile: Profile) -> str:
    """Return the section of joints: the most used skeleton, and the next ones in closed details."""
    skeletons = profile.rig_sums()
    if not skeletons:
        return ""
    sections = [
        details(_skeleton(sums), _ranges(sums)) if place else f"<h3>{escape(_skeleton(sums))}</h3>{_ranges(sums)}"
        for place, sums in enumerate(skeletons[:_SKELETONS])
    ]
    left = len(skeletons) - _SKELETONS
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
        ("rotation", "°", "Rotation from the rest pose.", [(joint.joint, joint.angle_deg) for joint in ranges]),
        (
            "height",
            "m",
            "Height above the floor, estimated for each clip.",
            [(joint.joint, joint.height_m) for joint in ranges],
        ),
        (
            "distance",
            "m",
            "Distance from the root, along the floor.",
            [(joint.joint, joint.reach_m) for joint in ranges],
        ),
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
    by_kind = profile.findings()
    if not by_kind:
        return "<h2>Findings</h2><p>The checks found no fault in any clip.</p>"
    kinds = [(kind, KINDS[kind], number["error"], number["warning"]) for kind, number in by_kind.items()]  # type: ignore[index]
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
    """Return the section of outliers, with the figures that too few clips have to be compared."""
    missing = uncompared(profile.rows)
    outliers = profile.outliers()
    parts = [f"<p>{escape(missing)}</p>"] if missing else []
    nearest = find_outliers(profile.rows, 0.0)[:1]
    if not outliers and nearest:
        furthest = f"The furthest: {nearest[0].clip} {nearest[0].reason}"
        parts.append(f"<p>No clip is far from the others in what is compared. {escape(furthest)}</p>")
    rows = []
    for name in dict.fromkeys(outlier.figure for outlier in outliers):
        far = [outlier for outlier in outliers if outlier.figure == name]
        rows += [(item.clip, item.title, item.shown, item.usual, f"{item.z:+.1f}") for item in far[:_FURTHEST]]
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
    values = {suggestion.key: suggestion.value for suggestion in suggestions}
    single = [
        (suggestion.key, suggestion.value, suggestion.reason) for suggestion in suggestions if not suggestion.rows
    ]
    tables = "".join(
        f"<h3>{escape(suggestion.key)}</h3>"
        + table(suggestion.columns, suggestion.rows, numbers=range(1, len(suggestion.columns)))
        + note(f"{suggestion.reason} {suggestion.note}")
        for suggestion in suggestions
        if suggestion.rows
    )
    text = f'<div class="card"><pre tabindex="0">{escape(dump(values, ""))}</pre></div>'
    return (
        f"<h2>Suggested settings for {escape(use)}</h2>"
        + table(("setting", "value", "reason"), single, numbers=(1,), kind="reasons")
        + tables
        + details("as JSON", text)
    )


_MOST = 40
"""Most bins of a histogram."""

_ROUND = (1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100)
"""Numbers of steps that a bin is wide."""


@dataclass(frozen=True)
class Binned:
    """Values in equal bins."""

    start: float  # Lower end of the first bin
    width: float  # Width of each
    counts: list[int]  # Values per bin


def bin_lengths(rows: Sequence[ClipRow]) -> Binned:
    """Put clips into bins by their length in seconds.

    Lengths are whole frames, and often multiples of several (the starter's of four). Bins of any other width hold
    different numbers of possible lengths, so that the histogram shows an artificial comb. So bins are a whole number of
    steps wide and begin half a step below the shortest clip. With several frame rates the coarsest step is taken.
    """
    step = max(_step([row.frames for row in rows if row.fps == fps]) / fps for fps in {row.fps for row in rows})
    seconds = [row.seconds for row in rows]
    start, span = min(seconds) - step / 2, max(seconds) - min(seconds) + step
    steps = _round_up(span / step / _bins(len(rows)))
    width = steps * step
    counts = [0] * max(1, math.ceil(span / width - 1e-9))
    for value in seconds:
        counts[min(int((value - start) / width), len(counts) - 1)] += 1
    return Binned(start, width, counts)


def bin_values(values: Sequence[float], most: float) -> Binned:
    """Put continuous values from 0 to `most` into bins of a round width; larger ones are left out."""
    raw = max(most, 1e-9) / _bins(len(values))
    power = 10.0 ** math.floor(math.log10(raw))
    width = next(part * power for part in (1, 2, 5, 10) if part * power >= raw * (1 - 1e-9))
    counts = [0] * max(1, math.ceil(most / width - 1e-9))
    for value in values:
        if value <= most:
            counts[min(int(value / width), len(counts) - 1)] += 1
    return Binned(0.0, width, counts)


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value that `part` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(math.ceil(part * len(ordered)), len(ordered)) - 1]


def _bins(number: int) -> int:
    """Return the number of bins for so many values: twice the square root, 6 to 40."""
    return min(max(round(2 * math.sqrt(number)), 6), _MOST)


def _step(frames: Sequence[int]) -> int:
    """Return the greatest common divisor of the differences of lengths, if there are at least 8 different ones."""
    least = min(frames)
    step = math.gcd(*(length - least for length in frames))
    return step if len(set(frames)) >= 8 else 1


def _round_up(steps: float) -> int:
    """Return a number of steps for a bin, a round one if possible."""
    least = max(1, math.ceil(steps - 1e-9))
    return next((number for number in _ROUND if number >= least), least)
