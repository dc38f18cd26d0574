"""Metrics of embeddings, retrieval, movement and prediction: pure functions on tensors."""

from motionkit.metrics._embeddings import (
    FrechetReference,
    KernelDistance,
    KineticReference,
    diversity,
    frechet,
    interval,
    kid,
    kinetic_features,
    kinetic_fid,
    multimodality,
    random_pairs,
)
from motionkit.metrics._movement import (
    QUIET,
    SHORTEST,
    band_power,
    body_positions,
    floor_distance,
    joint_jerk,
    joint_range,
    joint_speed,
    leading_joint,
    movement,
    movement_share,
    moves_more,
    root_path,
    sample_spread,
    statues,
)
from motionkit.metrics._prediction import (
    CONTACT,
    LEVELS,
    auroc,
    f1_terms,
    geodesic_degrees,
    lower_slide,
    npss_rows,
    npss_terms,
    score_levels,
    slide_terms,
    yaw_degrees,
)
from motionkit.metrics._retrieval import (
    Ties,
    dissimilar,
    distances,
    expected_hits,
    guo_batches,
    match_hits,
    matching_score,
    r_precision,
    ranks,
    retrieval,
    retrieval_guo,
    retrieval_subset,
)

__all__ = [
    "CONTACT", "LEVELS", "QUIET", "SHORTEST", "FrechetReference", "KernelDistance", "KineticReference", "Ties",
    "auroc", "band_power", "body_positions", "dissimilar", "distances", "diversity", "expected_hits", "f1_terms",
    "floor_distance", "frechet", "geodesic_degrees", "guo_batches", "interval", "joint_jerk", "joint_range",
    "joint_speed", "kid", "kinetic_features", "kinetic_fid", "leading_joint", "lower_slide", "match_hits",
    "matching_score", "movement", "movement_share", "moves_more", "multimodality", "npss_rows", "npss_terms",
    "r_precision", "random_pairs", "ranks", "retrieval", "retrieval_guo", "retrieval_subset", "root_path",
    "sample_spread", "score_levels", "slide_terms", "statues", "yaw_degrees",
]  # fmt: skip
