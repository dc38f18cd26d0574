"""Metrics of embeddings, retrieval, movement and classifiers: pure functions on tensors."""

from motionkit.metrics._classification import (
    AtThreshold,
    ScoreCounts,
    average_precision,
    classifier_auroc,
    pr_curve,
    roc_curve,
    threshold_for_f,
    threshold_for_precision,
)
from motionkit.metrics._contacts import CONTACT, LEVELS, auroc, f1_terms, score_levels, slide_terms
from motionkit.metrics._distribution import (
    FrechetReference,
    diversity,
    frechet,
    interval,
    kid,
    moments,
    multimodality,
    random_pairs,
)
from motionkit.metrics._floor import floor_distance
from motionkit.metrics._matching import distances, match_hits, matching_score, r_precision
from motionkit.metrics._movement import joint_jerk, joint_speed, root_path, sample_spread
from motionkit.metrics._regions import box_iou, cumulative_iou, region_iou
from motionkit.metrics._reliability import (
    BINS,
    Calibration,
    Reliability,
    calibration_error,
    episode_interval,
    fit_calibration,
)
from motionkit.metrics._retrieval import (
    RECALLS,
    Ties,
    dissimilar,
    guo_batches,
    ranks,
    retrieval,
    retrieval_guo,
    retrieval_subset,
)
from motionkit.metrics._rotation import geodesic_degrees, yaw_degrees
from motionkit.metrics._spectrum import npss_terms

__all__ = [
    "BINS",
    "CONTACT",
    "LEVELS",
    "RECALLS",
    "AtThreshold",
    "Calibration",
    "FrechetReference",
    "Reliability",
    "ScoreCounts",
    "Ties",
    "auroc",
    "average_precision",
    "box_iou",
    "calibration_error",
    "classifier_auroc",
    "cumulative_iou",
    "dissimilar",
    "distances",
    "diversity",
    "episode_interval",
    "f1_terms",
    "fit_calibration",
    "floor_distance",
    "frechet",
    "geodesic_degrees",
    "guo_batches",
    "interval",
    "joint_jerk",
    "joint_speed",
    "kid",
    "match_hits",
    "matching_score",
    "moments",
    "multimodality",
    "npss_terms",
    "pr_curve",
    "r_precision",
    "random_pairs",
    "ranks",
    "region_iou",
    "retrieval",
    "retrieval_guo",
    "retrieval_subset",
    "roc_curve",
    "root_path",
    "sample_spread",
    "score_levels",
    "slide_terms",
    "threshold_for_f",
    "threshold_for_precision",
    "yaw_degrees",
]
