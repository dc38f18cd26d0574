"""Compares motions of two splits: training motions must not be used for measuring."""

from __future__ import annotations

from collections.abc import Collection

from motionkit.motion import original


def shared_motions(some: Collection[str], others: Collection[str]) -> list[str]:
    """Return the motions that two lists of clip ids have in common, as they are or mirrored; sorted."""
    names = {*some, *others}
    return sorted({original(name, names) for name in some} & {original(name, names) for name in others})
