"""Metrics of embeddings, retrieval and movement: pure functions on tensors."""

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
from motionkit.metrics._matching import distances, match_ranks, matching_score, r_precision
from motionkit.metrics._movement import joint_jerk, joint_speed, root_path, sample_spread
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
    "CONTACT",
    "LEVELS",
    "RECALLS",
    "FrechetReference",
    "Ties",
    "auroc",
    "dissimilar",
    "distances",
    "diversity",
    "f1_terms",
    "floor_distance",
    "frechet",
    "geodesic_degrees",
    "guo_batches",
    "interval",
    "joint_jerk",
    "joint_speed",
    "kid",
    "match_ranks",
    "matching_score",
    "moments",
    "multimodality",
    "npss_terms",
    "r_precision",
    "random_pairs",
    "ranks",
    "retrieval",
    "retrieval_guo",
    "retrieval_subset",
    "root_path",
    "sample_spread",
    "score_levels",
    "slide_terms",
    "yaw_degrees",
]
