"""Where joints go, skeleton by skeleton."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from motionkit.clips.profile._profile import Profile
from motionkit.clips.profile._ranges import JointRange, RigSums
from motionkit.page.charts import spans
from motionkit.page.elements import details, figure, grid, note, table
from motionkit.page.wording import count

_SHOWN = 4


def joints(profile: Profile) -> str:
    """Return the section: the most used skeleton, and the next ones a click away."""
    found = profile.rig_sums()
    if not found:
        return ""
    sections = [
        details(skeleton(sums), _ranges(sums)) if place else f"<h3>{escape(skeleton(sums))}</h3>{_ranges(sums)}"
        for place, sums in enumerate(found[:_SHOWN])
    ]
    left = len(found) - _SHOWN
    more = note(f"{count(left, 'more skeleton')} in the JSON.") if left > 0 else ""
    said = note("Bars reach from the 5 % to the 95 % quantile over all frames, a tick marks the median.")
    return f"<h2>Joints</h2>{said}{''.join(sections)}{more}"


def skeleton(sums: RigSums) -> str:
    """Return a skeleton's name, with a clip that has it, and how much there is of it."""
    example = "" if sums.clips == 1 else " and others"
    return f"{sums.rig.label} ({sums.example}{example}): {count(sums.clips, 'clip')}, {count(sums.frames, 'frame')}"


def _ranges(sums: RigSums) -> str:
    ranges = sums.ranges()
    charts = []
    if ranges and ranges[0].angle_deg:
        rows = [(joint.joint, joint.angle_deg) for joint in ranges]
        charts.append(figure(spans(rows, label="rotation", unit="°", low=0.0), "Rotation from the rest pose."))
    rows = [(joint.joint, joint.height_m) for joint in ranges]
    charts.append(
        figure(spans(rows, label="height", unit="m", low=0.0), "Height above the floor, estimated for each clip.")
    )
    rows = [(joint.joint, joint.reach_m) for joint in ranges]
    charts.append(figure(spans(rows, label="distance", unit="m", low=0.0), "Distance from the root, along the floor."))
    return grid(charts) + details("the numbers", _numbers(ranges))


def _numbers(ranges: Sequence[JointRange]) -> str:
    rows = [
        (joint.joint, _three(joint.angle_deg, 0), _three(joint.height_m, 2), _three(joint.reach_m, 2))
        for joint in ranges
    ]
    return table(("joint", "rotation, degrees", "height, m", "distance from the root, m"), rows, numbers=(1, 2, 3))


def _three(values: Sequence[float], digits: int) -> str:
    return " · ".join(f"{value:.{digits}f}" for value in values) or "-"
