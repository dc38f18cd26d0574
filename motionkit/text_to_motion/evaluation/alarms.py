"""Alarms in words: what a reward curve looks like when something is wrong."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from motionkit.metrics.paired import Paired
from motionkit.tracking import LEAST_MOVEMENT, MIN_RATIO, MOST_STATUES

PATIENCE = 20
_TOLERANCE = 1e-6
_STILL = 0.3  # share of its jerk that a motion keeps when all that is left of it is trembling
_LOST = {"movement": 0.1, "diversity": 0.25, "speed": 0.25, "path": 0.25}  # largest relative loss without an alarm


class RewardAlarms:
    """Watches the reward over `PATIENCE` steps.

    Args:
        bounds: Lowest and highest value the mix can take, where known.
    """

    def __init__(self, bounds: tuple[float, float] | None = None) -> None:
        self._bounds = bounds
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=PATIENCE)
        self._said: set[str] = set()

    def look(self, metrics: Mapping[str, float]) -> list[str]:
        """Take one step's metrics in; return what is new and worth saying."""
        self._recent.append((metrics["reward/mean"], metrics["reward/min"], metrics["reward/max"]))
        found = []
        if len(self._recent) == PATIENCE:
            lows, highs = [low for _, low, _ in self._recent], [high for _, _, high in self._recent]
            if max(highs) - min(lows) < _TOLERANCE:
                found.append(
                    f"the reward has been constant ({lows[-1]:.4g}) for {PATIENCE} steps: nothing can be learnt from it"
                )
            elif self._bounds is not None:
                found += self._pinned(self._bounds)
        found += [
            f"the reward {name} gave no sample a finite score; it is left out of such steps (metric reward/left_out)"
            for name in _dead(metrics)
        ]
        if math.isnan(metrics["reward/mean"]) or metrics.get("reward/nan", 0.0) > 0:
            found.append("some samples have no finite reward; they are left out of the update")
        fresh = [text for text in found if text not in self._said]
        self._said.update(fresh)
        return fresh

    def _pinned(self, bounds: tuple[float, float]) -> list[str]:
        ends = ((bounds[0], "lower"), (bounds[1], "upper"))
        return [
            f"the mean reward has been at the {name} end of its range ({end:g}) for {PATIENCE} steps"
            for end, name in ends
            if all(abs(mean - end) < 1e-3 * (bounds[1] - bounds[0]) for mean, _, _ in self._recent)
        ]


def _dead(metrics: Mapping[str, float]) -> list[str]:
    """Return the names of the rewards whose own mean, ``reward/<name>/mean``, is not a number though they apply."""
    parts = [(key.split("/"), value) for key, value in metrics.items()]
    found = [
        part[1] for part, value in parts if len(part) == 3 and part[::2] == ["reward", "mean"] and math.isnan(value)
    ]
    return [name for name in found if metrics.get(f"reward/{name}/applies") != 0.0]


def drift_alarms(found: Mapping[str, Paired], *, most: float = 0.3) -> list[str]:
    """Return what the held-out comparison has to say against the run.

    Args:
        found: Paired quantities by name (``reward``, ``judge``, ``movement``, ``skate``, ``jerk``).
        most: Relative rise of jerk or skate that is worth an alarm.
    """
    texts = []
    for name in ("jerk", "skate"):
        paired = found.get(name)
        if paired is not None and paired.n and paired.delta > most * paired.before:
            change = f"{name} rose from {paired.before:.3g} to {paired.after:.3g}"
            texts.append(f"{change}: the reward may be paid for with bad physics")
    for name, most_lost in _LOST.items():
        paired = found.get(name)
        if paired is not None and paired.n and paired.delta < -most_lost * paired.before:
            texts.append(f"{name} fell from {paired.before:.3g} to {paired.after:.3g}: {_MEANING[name]}")
    jerk = found.get("jerk")
    if jerk is not None and jerk.n and jerk.after < _STILL * jerk.before:
        change = f"jerk fell from {jerk.before:.3g} to {jerk.after:.3g}"
        texts.append(f"{change}: the motions have all but stopped, the reward may be won by standing still")
    reward, judge = found.get("reward"), found.get("judge")
    texts += [
        f"no held-out prompt has a finite {name} both before and after: nothing can be said about it"
        for name, paired in (("reward", reward), ("judge", judge))
        if paired is not None and not paired.n
    ]
    if reward is not None and judge is not None and (ratio := judge_ratio(reward, judge)) is not None:
        if judge.ci95[1] < 0:
            change = f"the reward rose by {reward.delta:.3f} while the judge fell by {-judge.delta:.3f}"
            texts.append(f"{change}: the reward is being gamed")
        elif ratio < MIN_RATIO:
            change = (
                f"the reward gained {reward.delta:+.3f} and the judge {judge.delta:+.3f}, less than {MIN_RATIO} of it"
            )
            texts.append(f"{change}: part of the gain pleases the reward alone")
    return texts


def still_alarms(found: Mapping[str, Paired]) -> list[str]:
    """Return what is wrong with how much the motions move after training, whatever they did before.

    Args:
        found: Paired quantities by name (``movement``, ``statues``).
    """
    texts = []
    movement, statues = found.get("movement"), found.get("statues")
    if movement is not None and movement.n and movement.after < LEAST_MOVEMENT:
        texts.append(
            f"movement is {movement.after:.2f} of that of real clips of the same actions (below {LEAST_MOVEMENT}): "
            "the motions are postures rather than movements"
        )
    if statues is not None and statues.n and statues.after > MOST_STATUES:
        texts.append(
            f"statues are {statues.after:.0%} of the segments (above {MOST_STATUES:.0%}): no joint moves 10 cm where "
            "real ones do"
        )
    return texts


def judge_ratio(reward: Paired, judge: Paired) -> float | None:
    """Return the judge's gain as a share of the reward's; None while the reward has no certain gain.

    Args:
        reward: Held-out reward.
        judge: Held-out judge, on the same prompts.
    """
    return judge.delta / reward.delta if reward.n and judge.n and reward.ci95[0] > 0 else None


_MEANING = {
    "movement": "the motions have become smaller, which a reward may mistake for better",
    "diversity": "the samples of one prompt have become alike",
    "speed": "the motions have become slower, which a reward may mistake for better",
    "path": "the motions cover less ground, which a reward may mistake for better",
}
