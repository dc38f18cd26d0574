"""Sharing clips out among train, val and test without letting related clips meet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

SHARES = {"test": 0.15, "val": 0.05}
"""Parts of the clips that are held out, as in HumanML3D; the rest is train."""


def assign_splits(groups: Mapping[str, str]) -> dict[str, str]:
    """Give each clip a split by its group, the same on every machine.

    Groups are taken in the order of a hash of their names and fill test, then val; whatever remains is train. With
    three groups or more every split has at least one.

    Args:
        groups: Clip id to group.

    Returns:
        Clip id to ``train``, ``val`` or ``test``.
    """
    members: dict[str, list[str]] = {}
    for clip, group in groups.items():
        members.setdefault(group, []).append(clip)
    order = sorted(members, key=lambda group: hashlib.sha256(group.encode()).hexdigest())
    splits: dict[str, str] = {}
    for split, share in SHARES.items():
        wanted, taken = share * len(groups), 0
        while len(order) > 1 and taken < wanted and (taken == 0 or taken + len(members[order[0]]) / 2 <= wanted):
            group = order.pop(0)
            taken += len(members[group])
            splits.update(dict.fromkeys(members[group], split))
    for group in order:
        splits.update(dict.fromkeys(members[group], "train"))
    return {clip: splits[clip] for clip in groups}
