"""The one rule by which a change is called better, worse or anything; every table and sentence goes through it.

A change has no such word if it is below the digits that are shown, or if its interval as printed contains 0
(`NO_CHANGE`), or if it was measured on fewer than `FEWEST` independent items (`TOO_FEW`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from motionkit.plugins import Direction

FEWEST = 20
"""Fewest independent items for a verdict: prompts, takes, regions, episodes. Samples of one item are one item."""

TOO_FEW, NO_CHANGE, NOT_MEASURED = "too few", "no change", "not measured"

DOUBTED = "n/a"
"""Verdict of what was measured by a model that says little about these data."""

CLOSER, FURTHER = "closer to reference", "further from reference"
"""Verdicts of a quantity that is best where reference motions have it."""

_FEWEST_ENDS = 2  # items of which an interval is shown: a single one resampled is always the same
_LEAST = 0.005  # smallest share of the value before that counts, as sentences show whole percents


def decimals(*values: float) -> int:
    """Return the decimals that show four significant figures of the largest value, three decimals below 10."""
    size = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if size == 0.0:
        return 3
    power = math.floor(math.log10(size))
    return min(max(3 - power if power >= 0 else 2 - power, 0), 6)


def ends_of(pair: object, n: int) -> tuple[float, float] | None:
    """Return the interval of a document; None if it is not a pair of finite numbers, or of fewer than two items."""
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or n < _FEWEST_ENDS:
        return None
    low, high = (float(end) if isinstance(end, (int, float)) else math.nan for end in pair)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def moved(
    delta: float,  # the change, or the difference of two things
    ends: Sequence[float] | None,  # its 95 % interval; None if it has none
    n: int,  # independent items that it was measured on; 0 if it was not
    *,
    digits: int,  # decimals that are shown
    whole: float | None = None,  # value before; a change of less than half a percent of it is none
) -> int | None:
    """Return 1 if something rose, -1 if it fell, 0 for no change; None with fewer than `FEWEST` items.

    Example:
        >>> moved(0.12, (0.1, 0.14), 64, digits=3), moved(0.12, (0.1, 0.14), 19, digits=3)
        (1, None)
        >>> moved(-0.0011, (-0.0018, -0.0004), 64, digits=3), moved(-0.002, (-0.003, -0.001), 64, digits=3, whole=0.5)
        (0, 0)
    """
    if n < FEWEST or not math.isfinite(delta):
        return None
    # Adding zero turns a rounded -0.0 into 0.0.
    change, low, high = (round(value, digits) + 0.0 for value in (delta, *(ends or (delta, delta))))
    if change == 0 or low <= 0 <= high or (whole is not None and abs(delta) < _LEAST * abs(whole)):
        return 0
    return 1 if low > 0 else -1


def word_of(sign: int | None, better: Direction, *, n: int, words: tuple[str, str] = ("lower", "higher")) -> str:
    """Return the verdict: `better`, `worse`, `no change`, `too few`, `not measured`.

    Args:
        sign: What `moved` returned.
        better: The direction of improvement; of ``none`` the verdict is one of `words`, for a fall and a rise.
        n: Items.
        words: See `better`.
    """
    if sign is None:
        return TOO_FEW if n else NOT_MEASURED
    if sign == 0:
        return NO_CHANGE
    if better in ("up", "down"):
        return "better" if (sign > 0) == (better == "up") else "worse"
    return words[sign > 0]


def came_closer(before: float, after: float, reference: float | None) -> bool | None:
    """Return whether a value came closer to that of reference motions, as ratios; None if that cannot be said.

    Example:
        >>> came_closer(40.0, 50.0, 60.0), came_closer(77.0, 90.0, 60.0), came_closer(77.0, 90.0, None)
        (True, False, None)
    """
    if reference is None or not min(before, after, reference) > 0:
        return None
    return abs(math.log(after / reference)) <= abs(math.log(before / reference))
