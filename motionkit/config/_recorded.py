"""Settings that came later: runs recorded before have none, and go on with what was so then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LATER: tuple[tuple[str, str, str, Any], ...] = (
    ("dataset", "shapes", "scenes", "simple"),
    ("dataset", "shapes", "images", 80_000),  # this one and the next three have no effect there
    ("dataset", "shapes", "captioned", 0.08),
    ("dataset", "shapes", "lapse", 0.1),
    ("dataset", "shapes", "extra", 0.1),
    ("policy", "tiny-sa2va", "resize", False),
    ("loop1", "mask-to-caption", "listen", 0.0),
    ("loop2", "caption-to-mask", "learn", 0.0),
    ("loop2", "caption-to-mask", "absent", 0.0),
)
"""Field of a plugin, name of the plugin, its later option, and the value that stands for what was so before."""


def as_recorded(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recorded run, with those that came later filled in.

    Example:
        >>> as_recorded({"loop1": {"name": "mask-to-caption", "kl": "k3"}})
        {'loop1': {'name': 'mask-to-caption', 'kl': 'k3', 'listen': 0.0}}
    """
    found = dict(table)
    for field, name, option, value in _LATER:
        own = found.get(field)
        if isinstance(own, Mapping) and own.get("name") == name and option not in own:
            found[field] = {**own, option: value}
    return found
