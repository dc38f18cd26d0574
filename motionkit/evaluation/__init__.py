"""Sampling, scoring and judging of policies: held-out measurement, alarms, generated files."""

from motionkit.evaluation._alarms import (
    PATIENCE,
    RewardAlarms,
    drift_alarms,
    judge_ratio,
    still_alarms,
)
from motionkit.evaluation._calibrate import Calibration, RewardFigures, calibrate
from motionkit.evaluation._data import dataset_for, protocol_of
from motionkit.evaluation._fit import require_fit
from motionkit.evaluation._folder import RECORD, claim, write_record
from motionkit.evaluation._generate import generate
from motionkit.evaluation._heldout import HeldOut, Measured, compare_measured
from motionkit.evaluation._judge import open_judge, open_reward
from motionkit.evaluation._leaks import describe_shared, refuse_one_split, shared_sources
from motionkit.evaluation._opened import FoundModel, export_model, open_model
from motionkit.evaluation._paired import Paired, compare
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
from motionkit.evaluation._trained_on import trained_on
from motionkit.evaluation.mpl import FreeRunSettings, evaluate_freerun, evaluate_teacher
from motionkit.policies.sampling import Samples, Walk, sample, segment_bounds

__all__ = [
    "PATIENCE",
    "RECORD",
    "Calibration",
    "FoundModel",
    "FreeRunSettings",
    "HeldOut",
    "Measured",
    "Paired",
    "Quality",
    "RealAnswers",
    "RealMotions",
    "RetrievalResult",
    "RewardAlarms",
    "RewardFigures",
    "Samples",
    "SetFigure",
    "Shown",
    "Walk",
    "calibrate",
    "claim",
    "compare",
    "compare_measured",
    "dataset_for",
    "describe_shared",
    "drift_alarms",
    "evaluate_freerun",
    "evaluate_teacher",
    "export_model",
    "generate",
    "judge_ratio",
    "measure_quality",
    "measure_retrieval",
    "open_judge",
    "open_model",
    "open_retrieval",
    "open_reward",
    "protocol_of",
    "read_nsim",
    "real_motions",
    "refuse_one_split",
    "require_fit",
    "retrieval_protocols",
    "right_action",
    "sample",
    "segment_bounds",
    "shared_sources",
    "single_clips",
    "still_alarms",
    "trained_on",
    "write_record",
]
