"""The statistics of a dataset, added up clip by clip: `Profile`, its counts over captions, and its outliers.

An outlier is a clip that is far from the others in a figure, by robust z-scores.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from statistics import median

from motionkit.clips.profile.measure import ClipRow, Measure, RigSums, Sums, measure
from motionkit.clips.walk import walk
from motionkit.motion.clip import Clip, ClipSource
from motionkit.motion.corpus.captions import CaptionTable
from motionkit.motion.corpus.tagger import tag_words
from motionkit.page.wording import count, metres, plain

_SHOWN = 20
"""Most frequent words that are listed."""

_DULL = frozenset({"be", "have", "do", "seem", "appear"})
"""Verbs of almost every caption, which are not listed."""


@dataclass
class CaptionCount:
    """Counts over captions; add them one clip at a time."""

    clips: int = 0  # Clips seen
    without: int = 0  # Clips that have no caption
    captions: int = 0  # Captions seen
    words: list[int] = field(default_factory=list)  # Number of words of each caption
    different: set[str] = field(default_factory=set)  # Captions that differ from all others
    forms: Counter[str] = field(default_factory=Counter)  # Words as they are written, in lower case
    verbs: Counter[str] = field(default_factory=Counter)  # Verbs by their base form
    nouns: Counter[str] = field(default_factory=Counter)  # Nouns and directions by their base form

    def add(self, texts: tuple[str, ...]) -> None:
        """Count one clip's captions."""
        self.clips += 1
        self.without += not texts
        self.captions += len(texts)
        for text in texts:
            self.different.add(text.strip().lower())
            tokens = [token.rpartition("/") for token in tag_words(text)]
            self.words.append(len(tokens))
            self.forms.update(word for word, _, _ in tokens)
            self.verbs.update(word for word, _, tag in tokens if tag == "VERB" and word not in _DULL)
            self.nouns.update(word for word, _, tag in tokens if tag in ("NOUN", "ADV", "ADJ"))

    def top_verbs(self) -> dict[str, int]:
        """Return the most frequent verbs with their numbers."""
        return _top(self.verbs)

    def top_words(self) -> dict[str, int]:
        """Return the most frequent other words (nouns, adjectives, adverbs) with their numbers."""
        return _top(self.nouns)

    def document(self) -> dict[str, object]:
        """Return the figures for JSON."""
        return {
            "clips_without": self.without,
            "count": self.captions,
            "different": len(self.different),
            "per_clip": self.captions / self.clips if self.clips else 0.0,
            "words_mean": sum(self.words) / len(self.words) if self.words else 0.0,
            "words_median": median(self.words) if self.words else 0,
            "words_max": max(self.words, default=0),
            "vocabulary": len(self.forms),
            "words_once": sum(number == 1 for number in self.forms.values()),
            "verbs": self.top_verbs(),
            "other_words": self.top_words(),
        }


def _top(counts: Counter[str]) -> dict[str, int]:
    """Return the most frequent words, equal ones in the order of the alphabet."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN])


FAR = 3.5
"""Iglewicz and Hoaglin (1993): a modified z-score above 3.5 marks an outlier."""

FEWEST = 8
"""Fewest clips to compare: the median of fewer is not a usual value."""

_TO_SIGMA = 0.6745
"""Median absolute deviation of a normal distribution, in standard deviations."""

_LEAST_SPREAD = 0.2
"""Least spread of the logarithm: if most clips agree, a difference of a fifth is not an outlier."""

_MOST = 20
"""At most one outlier per 20 clips is listed for each figure; more would be a second group of clips."""


@dataclass(frozen=True)
class Outlier:
    """One clip that is unusual in one way."""

    clip: str  # Its id
    figure: str  # ``seconds``, ``speed``, ``jerk`` or ``skate``
    value: float  # Its value
    median: float  # That of all clips
    z: float  # Modified z-score of the logarithm; negative below the median
    reason: str  # A sentence

    @property
    def title(self) -> str:
        """Name of the figure, for tables."""
        return _FIGURES[self.figure].title

    @property
    def shown(self) -> str:
        """Its value with a unit."""
        return _FIGURES[self.figure].write(self.value)

    @property
    def usual(self) -> str:
        """The median with a unit."""
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

    The modified z-score 0.6745 (x - median) / MAD is of the logarithm, since all four figures are positive and skewed;
    the MAD is 0.2 at least. Only the upper end of speed, jerk and skate counts: slow, smooth and planted clips are not
    outliers. At most one clip in twenty is listed for each figure, the furthest: more would be a second group. A figure
    that fewer than `FEWEST` clips have is not compared (`uncompared`).
    """
    outliers: list[Outlier] = []
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
        outliers.extend(sorted(far_off, key=_order)[: max(1, len(known) // _MOST)])
    return tuple(sorted(outliers, key=_order))


def uncompared(rows: Sequence[ClipRow]) -> str:
    """Return a sentence that names the figures with too few clips to compare; empty if there are none."""
    if len(rows) < FEWEST:
        return f"Too few clips to compare: {count(len(rows), 'clip')}, and {FEWEST} are needed."
    known = {figure.title: len(_known(rows, figure)) for figure in _FIGURES.values()}
    few = [f"{title} (known of {count(number, 'clip')})" for title, number in known.items() if number < FEWEST]
    return f"Not compared, since {FEWEST} clips are needed: {', '.join(few)}." if few else ""


def _known(rows: Sequence[ClipRow], figure: _Figure) -> list[tuple[str, float]]:
    """Return the clips that have a figure, with its value."""
    values = [(row.clip, figure.value(row)) for row in rows]
    return [(clip, number) for clip, number in values if number is not None and math.isfinite(number)]


def _order(outlier: Outlier) -> tuple[float, str]:
    return -abs(outlier.z), outlier.clip


_TRAIN = "train"


@dataclass
class Profile(Sums):
    """Statistics of a dataset; `add` takes one clip's measure at a time."""

    rows: list[ClipRow] = field(default_factory=list)  # Figures of each clip
    failed: dict[str, str] = field(default_factory=dict)  # Origin and reason of what could not be read
    captions: CaptionCount = field(default_factory=CaptionCount)  # Counts over captions
    skeletons: dict[str, RigSums] = field(default_factory=dict)  # Sums of each skeleton by its name
    of_train: Sums = field(default_factory=Sums)  # Sums of the clips that the train split lists

    def add(self, measured: Measure) -> None:
        """Add one clip."""
        self.rows.append(measured.row)
        self.add_sums(measured)
        if _TRAIN in measured.row.listed:
            self.of_train.add_sums(measured)
        self.captions.add(measured.texts)
        if (sums := self.skeletons.get(measured.joints.rig.name)) is not None:
            sums.add(measured.joints)
        else:
            self.skeletons[measured.joints.rig.name] = replace(measured.joints)

    def training(self) -> Profile:
        """Return the statistics of the train split, without captions and skeletons; of all clips if it is empty."""
        rows = [row for row in self.rows if _TRAIN in row.listed]
        if not rows:
            return self
        profile = Profile(rows=rows)
        profile.add_sums(self.of_train)
        return profile

    @property
    def frames(self) -> int:
        """Frames of all clips."""
        return sum(row.frames for row in self.rows)

    @property
    def lengths(self) -> list[int]:
        """Frames of each clip."""
        return [row.frames for row in self.rows]

    @property
    def fps(self) -> dict[float, int]:
        """Clips by their frame rate, the most frequent first."""
        return dict(Counter(row.fps for row in self.rows).most_common())

    @property
    def complexity(self) -> float:
        """`complexity_uncapped`, 2 at most: 0 for one straight walk, 2 for varied motion."""
        return min(2.0, self.complexity_uncapped)

    @property
    def complexity_uncapped(self) -> float:
        """``(yaw_std / 30 degrees + speed_std / 0.3 m/s) / 2``."""
        return 0.5 * ((self.yaw.std or 0.0) / 30.0 + (self.speed.std or 0.0) / 0.3)

    def outliers(self) -> tuple[Outlier, ...]:
        """Return the clips that are far from the others in a figure."""
        return find_outliers(self.rows)

    def rig_sums(self) -> list[RigSums]:
        """Return the sums of each skeleton, the most used first."""
        return sorted(self.skeletons.values(), key=lambda sums: -sums.frames)

    def splits(self) -> dict[str, int]:
        """Return the number of clips per split; clips without one are under ``none``."""
        return dict(Counter(split for row in self.rows for split in row.listed or ("none",)).most_common())

    def leaks(self) -> list[str]:
        """Return groups, and ids of clips without one, that are in several splits."""
        splits_of: dict[str, set[str]] = {}
        for row in self.rows:
            splits_of.setdefault(row.group or row.clip, set()).update(row.listed)
        return sorted(name for name, splits in splits_of.items() if len(splits) > 1)

    def listed_twice(self) -> dict[str, tuple[str, ...]]:
        """Return the clips that several splits list, with those splits."""
        return {row.clip: row.splits for row in self.rows if len(row.splits) > 1}

    def leaked_by_splits(self) -> dict[tuple[str, ...], list[str]]:
        """Return the same clips by the splits that list them."""
        clips_by_splits: dict[tuple[str, ...], list[str]] = {}
        for clip, splits in self.listed_twice().items():
            clips_by_splits.setdefault(splits, []).append(clip)
        return clips_by_splits

    def findings(self) -> dict[str, dict[str, int]]:
        """Return for each kind of fault the clips that have it as an error and as a warning."""
        counts: dict[str, dict[str, int]] = {}
        for row in self.rows:
            for kind, severity in {(finding.kind, finding.severity) for finding in row.findings}:
                counts.setdefault(kind, {"error": 0, "warning": 0})[severity] += 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1]["error"], -item[1]["warning"], item[0])))


def profile_sources(
    sources: Sequence[ClipSource],
    *,
    table: CaptionTable | None = None,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda key: None,
) -> Profile:
    """Load and measure every clip; clips that cannot be used are listed in `Profile.failed`.

    Args:
        sources: The clips.
        table: Captions, splits and groups; they take precedence over those of the source.
        jobs: Worker processes; 1 uses this process.
        progress: Called with each source's id when it is done.

    Example:
        >>> from motionkit import load_dataset
        >>> from motionkit.contracts.dataset import dataset_sources
        >>> profile = profile_sources(dataset_sources(load_dataset("starter", clips=8))[:3])
        >>> len(profile.rows), profile.splits(), profile.fps
        (3, {'train': 3}, {20.0: 3})
    """
    rows, _ = table.deal({source.key: source.origin for source in sources}) if table is not None else ({}, [])
    profile = Profile()
    with closing(walk(sources, _measured, rows=rows, jobs=jobs, progress=progress)) as outcomes:
        for outcome in outcomes:
            for measured in outcome.results:
                profile.add(measured)
            for name, reason in outcome.failed().items():
                # The name is shown before the reason.
                start = f"{outcome.origin} "
                profile.failed[name] = reason.removeprefix(f"{outcome.origin}: ").removeprefix(start)
    return profile


def _measured(clip: Clip, key: str, origin: str) -> list[Measure]:
    return [measure(clip, key, origin)]
