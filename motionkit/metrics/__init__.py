"""Metrics of embeddings, retrieval and movement: pure functions on tensors."""

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
from motionkit.metrics._movement import joint_speed, root_path, sample_spread
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

__all__ = [
    "RECALLS",
    "FrechetReference",
    "Ties",
    "dissimilar",
    "distances",
    "diversity",
    "floor_distance",
    "frechet",
    "guo_batches",
    "interval",
    "joint_speed",
    "kid",
    "match_ranks",
    "matching_score",
    "moments",
    "multimodality",
    "r_precision",
    "random_pairs",
    "ranks",
    "retrieval",
    "retrieval_guo",
    "retrieval_subset",
    "root_path",
    "sample_spread",
]
