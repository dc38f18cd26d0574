"""Long runs of motion predictors: how they move after many seconds, and how they follow a path."""

from motionkit.evaluation.mpl.long._figures import RealLabel, looks, real_labels
from motionkit.evaluation.mpl.long._matching import Matching
from motionkit.evaluation.mpl.long._measure import LongRuns, LongSettings, measure_long
from motionkit.evaluation.mpl.long._paths import DRAWN, DrawnPath
from motionkit.evaluation.mpl.long._result import (
    FAR_OFF,
    long_alarms,
    long_document,
    long_metrics,
    long_tables,
)

__all__ = [
    "DRAWN",
    "FAR_OFF",
    "DrawnPath",
    "LongRuns",
    "LongSettings",
    "Matching",
    "RealLabel",
    "long_alarms",
    "long_document",
    "long_metrics",
    "long_tables",
    "looks",
    "measure_long",
    "real_labels",
]
