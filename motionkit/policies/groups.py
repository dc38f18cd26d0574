"""Which weights belong to which part of a region policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase


def names_by_group(groups: Mapping[str, tuple[str, ...]], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of weights that belong to each group, in their order.

    Args:
        groups: Patterns of names by group; see `motionkit.policies.base.RegionPolicy`.
        names: Names of weights.
    """
    names = list(names)
    return {
        group: [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
        for group, patterns in groups.items()
    }
