"""What the checks found wrong."""

from __future__ import annotations

from motionkit.clips.checks import KINDS
from motionkit.clips.profile._profile import Profile
from motionkit.page.elements import details, note, table

_SHOWN = 60
_OPEN = 12
"""So many findings are shown at once; more are a click away."""


def faults(profile: Profile) -> str:
    """Return the section."""
    found = profile.findings()
    if not found:
        return "<h2>Findings</h2><p>No clip has a fault that the checks know.</p>"
    kinds = [(kind, KINDS[kind], number["error"], number["warning"]) for kind, number in found.items()]  # type: ignore[index]
    listed = [
        (row.clip, finding.kind, finding.severity, finding.detail) for row in profile.rows for finding in row.findings
    ]
    listed.sort(key=lambda entry: entry[2] != "error")
    more = len(listed) - _SHOWN
    inside = table(("clip", "kind", "severity", "what"), listed[:_SHOWN])
    inside += note(f"{more:,} more in the JSON, and in motionkit convert --check." if more > 0 else "")
    return (
        "<h2>Findings</h2>"
        + table(("kind", "meaning", "clips with an error", "clips with a warning"), kinds, numbers=(2, 3))
        + details("clip by clip", inside, opened=len(listed) <= _OPEN)
    )
