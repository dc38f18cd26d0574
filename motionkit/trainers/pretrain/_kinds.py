"""Which changed copies a model is trained against, as settings name them. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

AUTO, NONE, ALL = "auto", "none", "all"

FAMILIES: Mapping[str, Mapping[str, float]] = {
    "stillness": {"mean-pose": 2, "held-frame": 3, "swing-0.3": 3, "swing-0.1": 1},
    "order": {"shuffled-pieces": 12, "reversed": 1},
    "tempo": {"tempo-2": 120, "tempo-0.5": 120},
    "place": {"no-path": 4, "other-direction": 3},
    "side": {"mirrored": 12},
    "text": {"text-side": 1, "text-tempo": 3, "text-direction": 1, "text-order": 1},
}
"""The kinds of each family in the starter's recipe, with their weights. Few captions ask for a tempo: a kind that
seldom applies is drawn nearly always where it does."""


def kinds_of(text: str, *, starter: bool) -> dict[str, float]:
    """Return the weight of each kind that ``train.negatives`` names.

    Args:
        text: ``auto`` (the recipe for the starter dataset, nothing for another one), ``all`` (the recipe), ``none``, or
            ``NAME[=WEIGHT],...`` of kinds and of families of the recipe; a family's weight multiplies those of its
            kinds.
        starter: Whether the dataset is the starter's.

    Raises:
        ValueError: It is none of these; says why.

    Example:
        >>> kinds_of("side=2,swing-0.6", starter=False)
        {'mirrored': 24.0, 'swing-0.6': 1.0}
        >>> kinds_of("auto", starter=False)
        {}
    """
    if text == AUTO:
        text = ALL if starter else NONE
    if text == NONE:
        return {}
    found: dict[str, float] = {}
    for part in (",".join(FAMILIES) if text == ALL else text).split(","):
        name, _, number = (word.strip() for word in part.partition("="))
        weight = _weight(name, number)
        kinds = FAMILIES.get(name, {name: 1.0})
        if twice := sorted(found.keys() & kinds.keys()):
            raise ValueError(f"{twice[0]} is named twice")
        found |= {kind: weight * share for kind, share in kinds.items()}
    return found


def _weight(name: str, number: str) -> float:
    if not name:
        raise ValueError("a kind of change has no name; write NAME or NAME=WEIGHT, separated by commas")
    if name in (AUTO, NONE, ALL):
        raise ValueError(f"{name} stands alone")
    try:
        weight = float(number or 1)
    except ValueError:
        weight = 0.0
    if not 0 < weight < 1e6:
        raise ValueError(f"the weight of {name} is {number}, not a number above 0")
    return weight
