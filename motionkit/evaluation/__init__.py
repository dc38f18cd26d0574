"""Sampling, scoring and judging of policies: held-out measurement, alarms, generated files."""

from motionkit.evaluation._alarms import (
    PATIENCE,
    RewardAlarms,
    drift_alarms,
    judge_ratio,
    still_alarms,
)
from motionkit.evaluation._calibrate import Calibration, RewardFigures, calibrate
from motionkit.evaluation._fit import require_fit
from motionkit.evaluation._generate import generate
from motionkit.evaluation._heldout import HeldOut, Measured, compare_measured
from motionkit.evaluation._judge import open_judge, open_reward
from motionkit.evaluation._leaks import describe_shared, refuse_one_split, shared_sources
from motionkit.evaluation._quality import Quality, measure_quality
from motionkit.evaluation._real import RealAnswers, RealMotions, real_motions, single_clips
from motionkit.evaluation._retrieval import (
    RetrievalResult,
    measure_retrieval,
    open_retrieval,
    read_nsim,
    retrieval_protocols,
    right_action,
)
from motionkit.evaluation._sets import SetFigure
from motionkit.evaluation._shown import Shown

__all__ = [
    "PATIENCE",
    "Calibration",
    "HeldOut",
    "Measured",
    "Quality",
    "RealAnswers",
    "RealMotions",
    "RetrievalResult",
    "RewardAlarms",
    "RewardFigures",
    "SetFigure",
    "Shown",
    "calibrate",
    "compare_measured",
    "describe_shared",
    "drift_alarms",
    "generate",
    "judge_ratio",
    "measure_quality",
    "measure_retrieval",
    "open_judge",
    "open_retrieval",
    "open_reward",
    "read_nsim",
    "real_motions",
    "refuse_one_split",
    "require_fit",
    "retrieval_protocols",
    "right_action",
    "shared_sources",
    "single_clips",
    "still_alarms",
]
