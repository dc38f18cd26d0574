"""Free runs on the validation clips while training: what the best weights are chosen by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from motionkit.datasets.motions._clips import ClipSet
from motionkit.datasets.motions._windows import Windows
from motionkit.evaluation.mpl._figures import Body
from motionkit.evaluation.mpl._horizons import Horizons
from motionkit.evaluation.mpl._measure import Measured, Row, fit_baselines, measure, measure_row
from motionkit.policies.base import Predictor

MILLISECONDS = (100.0, 200.0, 400.0, 1000.0)


def near_horizons(fps: float, furthest: int) -> Horizons:
    """Return the frames nearest to 100, 200, 400 and 1000 ms that are not beyond frame `furthest`."""
    frames = {f"{wanted:g}": max(1, round(wanted * fps / 1000)) for wanted in MILLISECONDS}
    kept = {key: frame for key, frame in frames.items() if frame <= furthest} or {"100": furthest}
    return Horizons(tuple(kept), tuple(kept.values()))


@dataclass(frozen=True)
class Validation:
    """Validation windows with the baseline that skill is measured against.

    Attributes:
        windows: Windows of the validation clips.
        body: The skeleton.
        horizons: Where.
        hold: What holding the last pose gives there.
    """

    windows: Windows
    body: Body
    horizons: Horizons
    hold: Row

    @classmethod
    def of(cls, clips: ClipSet, windows: Windows) -> Validation:
        """Measure the baseline once."""
        body = Body.of(clips.names, clips.parents, clips.fps)
        horizons = near_horizons(clips.fps, windows.future)
        hold = measure_row(fit_baselines(clips, None)["hold"], windows, body, horizons)
        return cls(windows, body, horizons, hold)

    def measure(self, predictor: Predictor, *, command: bool = False) -> Measured:
        """Measure a predictor; rows ``model`` and ``hold``."""
        row = measure_row(predictor, self.windows, self.body, self.horizons, command=command)
        return measure({"model": row, "hold": self.hold}, len(self.windows.offsets), self.horizons)


def skill_of(measured: Measured) -> float:
    """Return the mean over the horizons of 1 - GeoDeg / GeoDeg of the last pose held."""
    return float(measured.values["model"]["skill"].nanmean())


def logged(measured: Measured) -> Mapping[str, float]:
    """Return the figures of a validation as metrics: each at its horizon, ``mpl/geo_deg/400``, and ``mpl/skill``."""
    found = {"mpl/skill": skill_of(measured)}
    for figure in ("geo_deg", "teacher_geo_deg"):
        values = measured.values["model"][figure]
        found |= {
            f"mpl/{figure}/{key}": float(value) for key, value in zip(measured.horizons.keys, values, strict=True)
        }
    # A horizon that no clip reaches has no figure.
    return {name: value for name, value in found.items() if math.isfinite(value)}
