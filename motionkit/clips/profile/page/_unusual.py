"""Outliers: for each figure what is usual, and the clips furthest from it."""

from __future__ import annotations

from html import escape

from motionkit.clips.profile._outliers import find_outliers, uncompared
from motionkit.clips.profile._profile import Profile
from motionkit.page.elements import note, table
from motionkit.page.wording import count

_FURTHEST = 4


def unusual(profile: Profile) -> str:
    """Return the section; it never says that all is well of what it could not compare."""
    missing = uncompared(profile.rows)
    found = profile.outliers()
    said = [f"<p>{escape(missing)}</p>"] if missing else []
    nearest = find_outliers(profile.rows, 0.0)[:1]
    if not found and nearest:
        furthest = f"The furthest: {nearest[0].clip} {nearest[0].reason}"
        said.append(f"<p>No clip is far from the others in what is compared. {escape(furthest)}</p>")
    rows = []
    for figure in dict.fromkeys(outlier.figure for outlier in found):
        far = [outlier for outlier in found if outlier.figure == figure]
        rows += [(one.clip, one.title, one.shown, one.usual, f"{one.z:+.1f}") for one in far[:_FURTHEST]]
        if len(far) > _FURTHEST:
            rows.append((f"and {count(len(far) - _FURTHEST, 'more clip')}", far[0].title, "", far[0].usual, ""))
    if rows:
        said.append(table(("clip", "figure", "its own", "median clip", "z"), rows, numbers=(2, 3, 4)))
        said.append(note("z: robust distance of the logarithm from the median; above 3.5 a clip is listed."))
    return f"<h2>Outliers</h2>{''.join(said)}"
