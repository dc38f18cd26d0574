"""Settings that came later: runs recorded before have none, and go on with what was so then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LATER: tuple[tuple[str, str, str, Any], ...] = (
    ("dataset", "shapes", "scenes", "simple"),
)  # fmt: skip
"""Field of a plugin, name of the plugin, its later option, and the value that stands for what was so before."""


def as_recorded(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recorded run, with those that came later filled in.

    Example:
        >>> as_recorded({"dataset": {"name": "shapes", "seed": 1}})
        {'dataset': {'name': 'shapes', 'seed': 1, 'scenes': 'simple'}}
    """
    found = dict(table)
    for field, name, option, value in _LATER:
        own = found.get(field)
        if isinstance(own, Mapping) and own.get("name") == name and option not in own:
            found[field] = {**own, option: value}
    return found
