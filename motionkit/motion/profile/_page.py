"""A profile as one page of HTML: plots, tables, suggested settings; it loads nothing from anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from statistics import median

from motionkit._version import __version__
from motionkit.motion.checks import KINDS
from motionkit.motion.profile import _svg
from motionkit.motion.profile._edit_json import dump
from motionkit.motion.profile._measure import SPEED_BINS, YAW_BINS
from motionkit.motion.profile._outliers import find_outliers
from motionkit.motion.profile._profile import JointRange, Profile
from motionkit.motion.profile._style import STYLE
from motionkit.motion.profile._suggest import Suggestion, schedule_problems

_SHOWN_OUTLIERS = 30
_SHOWN_CLIPS = 60
_SHOWN_RIGS = 4


def profile_page(profile: Profile, suggestions: Sequence[Suggestion] = (), *, title: str = "") -> str:
    """Return a whole HTML page.

    Args:
        profile: The statistics.
        suggestions: Settings to list with their reasons.
        title: Name of the data set.
    """
    body = "".join(
        [
            _head(profile, title),
            _lengths_and_speed(profile),
            _directions(profile),
            _captions(profile),
            _joints(profile),
            _findings(profile),
            _outliers(profile),
            _inventory(profile),
            _settings(suggestions),
            _definitions(),
        ]
    )
    name = escape(title or "dataset")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Profile of {name}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _head(profile: Profile, title: str) -> str:
    seconds = sum(row.seconds for row in profile.rows)
    ratio = profile.contacts.ratio
    tiles = [
        ("clips", f"{len(profile.rows):,}"),
        ("minutes", f"{seconds / 60:.3g}"),
        ("frames", f"{profile.frames:,}"),
        ("frames per second", " / ".join(f"{fps:g}" for fps in list(profile.fps)[:3])),
        ("captions", f"{profile.captions.captions:,}"),
        ("mean speed, m/s", _number(profile.speed.mean)),
        ("contact ratio", _number(ratio)),
        ("complexity, 0 to 2", _number(profile.complexity)),
    ]
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)
    notes = "".join(f"<li>{note}</li>" for note in _notes(profile))
    return (
        f"<h1>Profile of {escape(title or 'the dataset')}</h1>"
        f'<p class="sub">made by motionkit {__version__}; every figure is defined at the end of the page</p>'
        f'<dl class="tiles">{cells}</dl>' + (f'<ul class="notes">{notes}</ul>' if notes else "")
    )


def _notes(profile: Profile) -> Iterable[str]:
    """Yield what a person should know before anything else."""
    if profile.failed:
        yield f'<span class="bad">{len(profile.failed)} file(s) could not be read</span> and are not in the figures.'
    bad = sum(any(finding.severity == "error" for finding in row.findings) for row in profile.rows)
    if bad:
        yield f'<span class="bad">{bad} clip(s) have a fault</span> that spoils part of them: see Findings.'
    if leaks := profile.leaks():
        names = f"so held-out figures flatter: {escape(', '.join(leaks[:5]))}."
        yield f'<span class="bad">{len(leaks)} group(s) are in several splits</span>, {names}'
    if len(profile.fps) > 1:
        yield "Clips have different frame rates; lengths in frames mix them, lengths in seconds do not."
    if profile.captions.captions and profile.captions.without:
        yield f"{profile.captions.without} clip(s) have no caption."


def _lengths_and_speed(profile: Profile) -> str:
    seconds = [row.seconds for row in profile.rows]
    if not seconds:
        return ""
    top = max(seconds)
    width = next(step for step in (0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 1e9) if top / step <= 40)
    counts = [0] * (int(top / width) + 1)
    for value in seconds:
        counts[int(value / width)] += 1
    lengths = _svg.histogram(
        0.0,
        width,
        counts,
        label="length",
        unit="s",
        of="clips",
        marks={"median": median(seconds), "mean": sum(seconds) / len(seconds)},
    )
    steps = profile.speed_bins.tolist()
    used = max((place for place, number in enumerate(steps) if number), default=0) + 1
    marks = {} if profile.speed.mean is None else {"mean": profile.speed.mean, "mean + std": _sum(profile)}
    speed = _svg.histogram(
        0.0, SPEED_BINS.width, steps[:used], label="root speed", unit="m/s", of="frames", marks=marks
    )
    about = f"{min(seconds):.1f} to {top:.1f} s; {min(profile.lengths)} to {max(profile.lengths)} frames."
    deviation = f"Along the floor; standard deviation {_number(profile.speed.std)} m/s."
    return f'<h2>Length and speed</h2><div class="grid2">{_figure(lengths, about)}{_figure(speed, deviation)}</div>'


def _sum(profile: Profile) -> float:
    return (profile.speed.mean or 0.0) + (profile.speed.std or 0.0)


def _directions(profile: Profile) -> str:
    figures = []
    if sum(facing := _round(profile.yaw_bins.tolist())):
        drawn = _svg.rose(facing, label="Where bodies face since their first frame", of="frames")
        spread = f"circular mean {_number(profile.facing.mean_deg)}°, circular std {_number(profile.facing.std_deg)}°"
        figures.append(_figure(drawn, f"Facing, relative to each clip's first frame: {spread}."))
    if sum(travel := _round(profile.travel_bins.tolist())):
        drawn = _svg.rose(travel, label="Direction of travel relative to the front", of="moving frames")
        figures.append(
            _figure(drawn, "Direction of travel relative to the front, where the root moves (over 0.2 m/s).")
        )
    contacts = profile.contacts
    if contacts.frames:
        rows = [
            ("both feet", contacts.both),
            ("left only", contacts.left - contacts.both),
            ("right only", contacts.right - contacts.both),
            ("neither", contacts.neither),
        ]
        own = contacts.from_file / contacts.frames
        source = "the files' own scores" if own == 1 else "worked out from height and speed"
        if 0 < own < 1:
            source = f"{100 * own:.0f} % the files' own scores, the rest worked out from height and speed"
        figures.append(_figure(_svg.shares(rows, label="Foot contacts"), f"Foot contacts by frame ({source})."))
    return f'<h2>Direction and contact</h2><div class="grid3">{"".join(figures)}</div>' if figures else ""


def _round(counts: list[int]) -> list[int]:
    """Return counts from straight ahead round to the left; the halves straight back are put together."""
    half = (YAW_BINS.count - 1) // 2
    return [*counts[half:-1], counts[0] + counts[-1], *counts[1:half]]


def _captions(profile: Profile) -> str:
    captions = profile.captions
    if not captions.captions:
        return ""
    facts = captions.document()
    charts = [
        _figure(_svg.bars(list(rows.items())[:15], label=name), f"{name}, base forms, by number of uses.")
        for name, rows in (
            ("Most frequent verbs", captions.top_verbs()),
            ("Most frequent other words", captions.top_words()),
        )
        if rows
    ]
    text = (
        f"{captions.captions} captions, {facts['different']} of them different, for "
        f"{captions.clips - captions.without} of {captions.clips} clips; {facts['words_mean']:.1f} words each, at most "
        f"{facts['words_max']}; a vocabulary of {facts['vocabulary']} words, {facts['words_once']} of them used once."
    )
    return f'<h2>Captions</h2><p>{escape(text)}</p><div class="grid2">{"".join(charts)}</div>'


def _joints(profile: Profile) -> str:
    sections = []
    rigs = list(profile.rigs())
    for place, (rig, clips, frames, ranges) in enumerate(rigs[:_SHOWN_RIGS]):
        charts = []
        if ranges and ranges[0].angle_deg:
            rows = [(joint.joint, joint.angle_deg) for joint in ranges]
            drawn = _svg.spans(rows, label="rotation from the rest pose", unit="degrees", low=0.0)
            charts.append(_figure(drawn, "5 % to 95 % quantile, tick at the median."))
        rows = [(joint.joint, joint.height_m) for joint in ranges]
        drawn = _svg.spans(rows, label="height above the floor", unit="m", low=0.0)
        charts.append(_figure(drawn, "5 % to 95 % quantile, tick at the median; the floor is estimated per clip."))
        if not rig.rotations:
            rows = [(joint.joint, joint.reach_m) for joint in ranges]
            drawn = _svg.spans(rows, label="distance from the root, along the floor", unit="m", low=0.0)
            charts.append(_figure(drawn, "5 % to 95 % quantile, tick at the median."))
        head = f"{escape(rig.name)}: {clips} clips, {frames:,} frames"
        inside = f'<div class="grid2">{"".join(charts)}</div>{_range_table(ranges)}'
        # The most used skeleton is shown, the others are a click away.
        sections.append(
            f"<details><summary>{head}</summary>{inside}</details>" if place else f"<h3>{head}</h3>{inside}"
        )
    left = len(rigs) - _SHOWN_RIGS
    more = f'<p class="cap">{left} more skeleton(s) are in the JSON.</p>' if left > 0 else ""
    return f"<h2>Joints</h2>{''.join(sections)}{more}"


def _range_table(ranges: Sequence[JointRange]) -> str:
    rows = [
        (joint.joint, _three(joint.angle_deg, 0), _three(joint.height_m, 2), _three(joint.reach_m, 2))
        for joint in ranges
    ]
    columns = ("joint", "rotation, degrees", "height, m", "distance from the root, m")
    return f"<details><summary>the numbers</summary>{_table(columns, rows)}</details>"


def _findings(profile: Profile) -> str:
    found = profile.findings()
    if not found:
        return "<h2>Findings</h2><p>No clip has a fault that the checks know.</p>"
    rows = [(kind, KINDS[kind], count["error"], count["warning"]) for kind, count in found.items()]  # type: ignore[index]
    listed = [
        (row.clip, finding.kind, finding.severity, finding.detail)
        for row in profile.rows
        for finding in row.findings
        if finding.severity == "error"
    ]
    rest = [
        (row.clip, finding.kind, finding.severity, finding.detail)
        for row in profile.rows
        for finding in row.findings
        if finding.severity != "error"
    ]
    shown = (listed + rest)[:_SHOWN_CLIPS]
    more = len(listed) + len(rest) - len(shown)
    note = f'<p class="cap">{more} more are in the JSON.</p>' if more else ""
    return (
        "<h2>Findings</h2>"
        + _table(("kind", "meaning", "clips with an error", "clips with a warning"), rows, numbers=(2, 3))
        + f"<details{' open' if len(shown) <= 12 else ''}><summary>clip by clip</summary>"
        + _table(("clip", "kind", "severity", "what"), shown)
        + f"{note}</details>"
    )


def _outliers(profile: Profile) -> str:
    outliers = profile.outliers()
    if not outliers:
        nearest = find_outliers(profile.rows, 0.0)[:1]
        furthest = f" The furthest: {escape(nearest[0].clip)} {escape(nearest[0].reason)}" if nearest else ""
        return f"<h2>Outliers</h2><p>No clip is far from the others in length, speed, jerk or foot skate.{furthest}</p>"
    rows = [(outlier.clip, outlier.figure, outlier.reason) for outlier in outliers[:_SHOWN_OUTLIERS]]
    more = len(outliers) - len(rows)
    note = f'<p class="cap">{more} more are in the JSON.</p>' if more > 0 else ""
    return f"<h2>Outliers</h2>{_table(('clip', 'figure', 'why'), rows)}{note}"


def _inventory(profile: Profile) -> str:
    total = max(len(profile.rows), 1)
    groups = [
        ("split", profile.splits()),
        ("frames per second", {f"{fps:g}": clips for fps, clips in profile.fps.items()}),
        ("format", _formats(profile)),
        ("skeleton", {rig.name: clips for rig, clips, _, _ in profile.rigs()}),
    ]
    rows = [
        (kind if place == 0 else "", name, clips, f"{100 * clips / total:.0f} %")
        for kind, counts in groups
        for place, (name, clips) in enumerate(counts.items())
    ]
    failed = "".join(f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in profile.failed.items())
    return (
        "<h2>Inventory</h2>"
        + _table(("", "", "clips", "share"), rows, numbers=(2, 3))
        + (f'<h3 class="bad">Could not be read</h3><ul>{failed}</ul>' if failed else "")
    )


def _formats(profile: Profile) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in profile.rows:
        counts[row.format or "unknown"] = counts.get(row.format or "unknown", 0) + 1
    return counts


def _settings(suggestions: Sequence[Suggestion]) -> str:
    if not suggestions:
        return ""
    plain = [(s.key, _value(s.value), s.reason) for s in suggestions if not isinstance(s.value, list)]
    values = {s.key: s.value for s in suggestions}
    stages, reason = "", ""
    for s in suggestions:
        if isinstance(s.value, list):
            rows = [
                (
                    stage["label"],
                    f"{stage['range'][0]} to {stage['range'][1]}",
                    stage["trainer"]["freerun_weight"],
                    stage["trainer"]["freerun_horizon"],
                    stage["trainer"]["w_latent_consistency"],
                    stage["loss_groups"]["core"]["w_fk_pos"],
                    stage["loss_groups"]["aux"]["w_limb_geo"],
                )
                for stage in s.value
            ]
            columns = (
                "stage", "epochs", "freerun_weight", "freerun_horizon", "w_latent_consistency", "w_fk_pos, w_rot_local",
                "w_limb_geo",
            )  # fmt: skip
            stages, reason = _table(columns, rows, numbers=(2, 3, 4, 5, 6)), s.reason
            problems = schedule_problems(s.value, int(values["epochs"]))
            reason += " " + (" ".join(problems) if problems else "Free-run weights only rise, and end above 0.3.")
    text = escape(dump(values, ""))
    return (
        "<h2>Suggested settings for the motion predictor</h2>"
        + _table(("setting", "value", "reason"), plain, numbers=(1,))
        + f"<h3 style='margin-top:16px'>freerun_stage_schedule</h3>{stages}<p class='cap'>{escape(reason)}</p>"
        + f'<details><summary>as JSON</summary><div class="scroll"><pre>{text}</pre></div></details>'
    )


_DEFINITIONS = {
    "avg_seq_len, median_seq_len": "frames per clip, at the clips' own rates.",
    "yaw_mean_deg, yaw_std_deg": "|yaw| over all frames, unwrapped: RootYaw where a file has it, else the angle turned "
    "since the clip's first frame (line across hips and shoulders).",
    "yaw_circular_*": "of the direction faced since the first frame: circular mean, std = sqrt(-2 ln R), R = length of "
    "the mean vector.",
    "speed_mean, speed_std": "m/s of the root along the floor: RootVelocityXY where a file has it, else its steps.",
    "bone_angle_*": "degrees between each joint's local rotation and the rest pose, root and end sites left out; only "
    "for files with rotations.",
    "contact_ratio": "part of both feet's frames whose soft contact is above 0.5.",
    "complexity": "min(2, (yaw_std / 30° + speed_std / 0.3 m/s) / 2).",
    "jerk, skate": "mean third difference over joints in m/s³ and sliding speed of feet near the floor in m/s, both at "
    "20 frames per second.",
    "outlier": "modified z-score 0.6745 (x - median) / MAD of the logarithm above 3.5; jerk, skate and "
    "speed only upwards.",
}


def _definitions() -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in _DEFINITIONS.items())
    return f'<h2>Definitions</h2><dl class="defs">{rows}</dl>'


def _figure(chart: str, caption: str) -> str:
    return f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> str:
    def cell(tag: str, place: int, value: object) -> str:
        mark = ' class="n"' if place in numbers else ""
        text = escape(str(value))
        if tag == "td" and text in ("error", "warning"):
            mark = f' class="{"bad" if text == "error" else "warn"}"'
        return f"<{tag}{mark}>{text}</{tag}>"

    head = "".join(cell("th", place, name) for place, name in enumerate(columns))
    body = "".join(f"<tr>{''.join(cell('td', place, v) for place, v in enumerate(row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _three(values: Sequence[float], digits: int) -> str:
    return " · ".join(f"{value:.{digits}f}" for value in values) or "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _value(value: object) -> str:
    return json.dumps(value) if not isinstance(value, str) else value
