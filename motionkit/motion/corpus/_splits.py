"""Sharing clips out among train, val and test without letting related clips meet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

SPLITS = ("train", "val", "test")
SPLIT_NAMES = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val",
               "test": "test", "testing": "test"}  # fmt: skip
"""What files and tables call the splits, in small letters."""

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


def complete_splits(given: Mapping[str, str], groups: Mapping[str, str]) -> dict[str, str]:
    """Give every clip without a split that of its group, or one of its own where no clip of the group has any.

    Where the clips of a group were given different splits, which is a leak already, the others get the last of
    `SPLITS` among them, so that nothing held out is trained on.

    Args:
        given: Clip id to split; empty where there is none.
        groups: Clip id to group.

    Returns:
        Clip id to ``train``, ``val`` or ``test``.
    """
    known: dict[str, str] = {}
    for clip, split in given.items():
        if split:
            known[groups[clip]] = max(split, known.get(groups[clip], split), key=SPLITS.index)
    splits = {clip: split or known.get(groups[clip], "") for clip, split in given.items()}
    return splits | assign_splits({clip: groups[clip] for clip, split in splits.items() if not split})


def read_split(name: object) -> tuple[str, tuple[str, ...]]:
    """Return the split that a file names, empty when there is no such split, and a warning in that case."""
    text = str(name or "").strip()
    split = SPLIT_NAMES.get(text.lower(), "")
    if split or not text:
        return split, ()
    return "", (f"it names the split {text[:40]!r}, which is none of {', '.join(SPLITS)}; it counts as not given.",)
