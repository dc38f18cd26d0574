"""Clips that are far from the others, by robust z-scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from motionkit.motion.profile._measure import Row

FAR = 3.5
"""Iglewicz and Hoaglin (1993): a modified z-score above 3.5 marks an outlier."""

_TO_SIGMA = 0.6745
_LEAST_SPREAD = 0.2
"""Where most clips agree, as standing ones do in their speed, a fifth more or less is no difference."""

_MOST = 20
"""Of so many clips one is listed for a figure at most: beyond that they are no outliers but a second group."""

_FEWEST = 8
"""With fewer clips, a median says nothing about what is usual."""


@dataclass(frozen=True)
class Outlier:
    """One clip that is unusual in one way.

    Attributes:
        clip: Its id.
        figure: ``seconds``, ``speed``, ``jerk`` or ``skate``.
        value: Its own value.
        median: That of all clips.
        z: Modified z-score of the logarithm; negative below the median.
        reason: A sentence.
    """

    clip: str
    figure: str
    value: float
    median: float
    z: float
    reason: str


_FIGURES: tuple[tuple[str, Callable[[Row], float | None], float, str], ...] = (
    ("seconds", lambda row: row.seconds, 0.05, "lasts {:.1f} s; half of the clips last less than {:.1f} s"),
    ("speed", lambda row: row.speed_mean, 0.05, "moves at {:.2f} m/s on average; the median clip at {:.2f} m/s"),
    ("jerk", lambda row: row.jerk, 1.0, "has a jerk of {:.0f} m/s^3, the median clip {:.0f}: {}"),
    ("skate", lambda row: row.skate, 0.05, "has feet that slide at {:.2f} m/s, the median clip {:.2f} m/s"),
)
"""Name, value, a floor added before the logarithm (about the precision of the figure), and words."""


def find_outliers(rows: Sequence[Row], far: float = FAR) -> tuple[Outlier, ...]:
    """Return clips whose length, speed, jerk or skate is far from the median, the furthest first.

    The modified z-score 0.6745 (x - median) / MAD is taken of the logarithm, since all four figures are positive and
    skewed; the MAD is taken as 0.2 at least. Slow clips, smooth clips and
    clips that do not slide are no outliers: only the upper end of speed, jerk and skate counts. One clip in twenty is
    listed for a figure at most, the furthest: more are no outliers but a second group.

    Args:
        rows: All clips.
        far: z-score from which a clip counts.
    """
    found: list[Outlier] = []
    for name, value, floor, words in _FIGURES:
        known = [(row.clip, number) for row in rows if (number := value(row)) is not None and math.isfinite(number)]
        if len(known) < _FEWEST:
            continue
        logs = [math.log(max(number, 0.0) + floor) for _, number in known]
        centre = median(logs)
        spread = max(median(abs(log - centre) for log in logs), _LEAST_SPREAD)
        usual = median(number for _, number in known)
        far_off: list[Outlier] = []
        for (clip, number), log in zip(known, logs, strict=True):
            z = _TO_SIGMA * (log - centre) / spread
            if abs(z) > far and (z > 0 or name == "seconds"):
                hint = "shaking or jumping" if z > 0 else ""
                far_off.append(
                    Outlier(clip, name, number, usual, z, f"{words.format(number, usual, hint)} (z {z:.1f}).")
                )
        found.extend(sorted(far_off, key=_order)[: max(1, len(known) // _MOST)])
    return tuple(sorted(found, key=_order))


def _order(outlier: Outlier) -> tuple[float, str]:
    return -abs(outlier.z), outlier.clip
