"""What the data set consists of."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from motionkit.clips.profile._profile import Profile
from motionkit.page.elements import details, grid, table
from motionkit.page.wording import count, joined, share


def inventory(profile: Profile) -> str:
    """Return the section, with what could not be read."""
    total = max(len(profile.rows), 1)
    tables = [
        table(
            (kind, "clips", "share"),
            [(which, f"{n:,}", share(n / total)) for which, n in counts.items()],
            numbers=(1, 2),
            kind="plain",
        )
        for kind, counts in contents(profile).items()
    ]
    twice = [(clip, joined(splits)) for splits, clips in profile.leaked_by_splits().items() for clip in clips]
    leaks = details(f"{count(len(twice), 'clip')} in several splits", table(("clip", "splits"), twice)) if twice else ""
    failed = "".join(f"<li><b>{escape(name)}</b>: {escape(reason)}</li>" for name, reason in profile.failed.items())
    return f"<h2>Inventory</h2>{grid(tables)}{leaks}" + (
        f"<h3>Could not be read</h3><ul>{failed}</ul>" if failed else ""
    )


def contents(profile: Profile) -> dict[str, Mapping[str, int]]:
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
