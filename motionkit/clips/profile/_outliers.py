"""Clips that are far from the others, by robust z-scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from motionkit.clips.profile._measure import ClipRow
from motionkit.page import count, metres, plain

FAR = 3.5
"""Iglewicz and Hoaglin (1993): a modified z-score above 3.5 marks an outlier."""

FEWEST = 8
"""Fewest clips to compare: the median of fewer is no estimate of the usual value."""

_TO_SIGMA = 0.6745
_LEAST_SPREAD = 0.2
"""Least spread of the logarithm: where most clips agree, a difference of a fifth is no outlier."""

_MOST = 20
"""At most one outlier per 20 clips is listed for each figure; more would be a second group of clips."""


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

    @property
    def title(self) -> str:
        """Return the name of the figure for tables."""
        return _FIGURES[self.figure].title

    @property
    def shown(self) -> str:
        """Return its own value with a unit."""
        return _FIGURES[self.figure].write(self.value)

    @property
    def usual(self) -> str:
        """Return the median with a unit."""
        return _FIGURES[self.figure].write(self.median)


@dataclass(frozen=True)
class _Figure:
    title: str
    value: Callable[[ClipRow], float | None]
    floor: float
    """Added before the logarithm; about the precision of the figure."""
    write: Callable[[float], str]
    words: str


_FIGURES = {
    "seconds": _Figure(
        "length",
        lambda row: row.seconds,
        0.05,
        lambda value: f"{value:.1f} s",
        "lasts {}; half of the clips last less than {}",
    ),
    "speed": _Figure(
        "mean speed",
        lambda row: row.speed_mean,
        0.05,
        lambda value: metres(value, "m/s"),
        "moves at {} on average, the median clip at {}",
    ),
    "jerk": _Figure(
        "jerk",
        lambda row: row.jerk,
        1.0,
        lambda value: f"{plain(value, 0)} m/s³",
        "has a jerk of {}, the median clip {}: shaking or jumping",
    ),
    "skate": _Figure(
        "foot skate",
        lambda row: row.skate,
        0.05,
        lambda value: metres(value, "m/s"),
        "has feet that slide at {}, the median clip {}",
    ),
}


def find_outliers(rows: Sequence[ClipRow], far: float = FAR) -> tuple[Outlier, ...]:
    """Return clips whose length, speed, jerk or skate is far from the median, the furthest first.

    The modified z-score 0.6745 (x - median) / MAD is taken of the logarithm, since all four figures are positive and
    skewed; the MAD is taken as 0.2 at least. Slow clips, smooth clips and clips that do not slide are no outliers:
    only the upper end of speed, jerk and skate counts. At most one clip in twenty is listed for each figure,
    the furthest: more would be a second group. A figure that fewer than `FEWEST` clips have is not compared;
    `uncompared` says so.

    Args:
        rows: All clips.
        far: z-score from which a clip counts.
    """
    found: list[Outlier] = []
    for name, figure in _FIGURES.items():
        known = _known(rows, figure)
        if len(known) < FEWEST:
            continue
        logs = [math.log(max(number, 0.0) + figure.floor) for _, number in known]
        centre = median(logs)
        spread = max(median(abs(log - centre) for log in logs), _LEAST_SPREAD)
        usual = median(number for _, number in known)
        far_off: list[Outlier] = []
        for (clip, number), log in zip(known, logs, strict=True):
            z = _TO_SIGMA * (log - centre) / spread
            if abs(z) > far and (z > 0 or name == "seconds"):
                reason = figure.words.format(figure.write(number), figure.write(usual))
                far_off.append(Outlier(clip, name, number, usual, z, f"{reason} (z {z:.1f})."))
        found.extend(sorted(far_off, key=_order)[: max(1, len(known) // _MOST)])
    return tuple(sorted(found, key=_order))


def uncompared(rows: Sequence[ClipRow]) -> str:
    """Return a sentence that names the figures with too few clips to compare; empty if there are none."""
    if len(rows) < FEWEST:
        return f"Too few clips to compare: {count(len(rows), 'clip')}, and {FEWEST} are needed to say what is usual."
    known = {figure.title: len(_known(rows, figure)) for figure in _FIGURES.values()}
    few = [f"{title} (known of {count(number, 'clip')})" for title, number in known.items() if number < FEWEST]
    return f"Not compared, since {FEWEST} clips are needed: {', '.join(few)}." if few else ""


def _known(rows: Sequence[ClipRow], figure: _Figure) -> list[tuple[str, float]]:
    """Return the clips that have a figure, with its value."""
    values = [(row.clip, figure.value(row)) for row in rows]
    return [(clip, number) for clip, number in values if number is not None and math.isfinite(number)]


def _order(outlier: Outlier) -> tuple[float, str]:
    return -abs(outlier.z), outlier.clip
