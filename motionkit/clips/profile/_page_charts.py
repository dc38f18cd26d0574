"""The page's charts of movement: length, speed, turning, directions and contacts."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from motionkit.clips.profile._movement import MOVING, SPEED_BINS, YAW_BINS
from motionkit.clips.profile._page_bins import bin_lengths, bin_values, quantile
from motionkit.clips.profile._profile import Profile
from motionkit.page import count, degrees, figure, grid, histogram, metres, rose, share, shares

_SHOWN = 0.995
"""Part of the values inside the axis: the few beyond it would make most of the axis empty."""

_MOST_BINS = 50


def movement(profile: Profile) -> str:
    """Return the section of movement; empty without figures."""
    figures = [*_lengths(profile), *_speed(profile), *_turning(profile), *_directions(profile), *_contacts(profile)]
    return f"<h2>Movement</h2>{grid(figures)}" if figures else ""


def _lengths(profile: Profile) -> Iterator[str]:
    frames, seconds = profile.lengths, [row.seconds for row in profile.rows]
    if len(set(seconds)) < 2:
        return  # a single length needs no histogram: the tiles show it
    found = bin_lengths(profile.rows)
    marks = {"median": median(seconds), "mean": sum(seconds) / len(seconds)}
    chart = histogram(found.start, found.width, found.counts, label="length", unit="s", of="clips", marks=marks)
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
    found = bin_values(turned, most)
    chart = histogram(
        found.start,
        found.width,
        found.counts,
        label="turned",
        unit="°",
        of="clips",
        marks={"median": median(turned)},
        digits=0,
    )
    beyond = len(turned) - sum(found.counts)
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
    own = contacts.from_file / contacts.frames
    source = "the files' own scores" if own == 1 else "from height and speed"
    if 0 < own < 1:
        source = f"{share(own)} of it the files' own scores, the rest from height and speed"
    yield figure(shares(rows, label="Foot contacts"), f"Feet on the floor, by frame ({source}).")


def whole_circle(counts: list[int]) -> list[int]:
    """Return counts from straight ahead round to the left; the two half bins straight back are added."""
    half = (YAW_BINS.count - 1) // 2
    return [*counts[half:-1], counts[0] + counts[-1], *counts[1:half]]
