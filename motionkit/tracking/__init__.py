"""Metric definitions, metrics.jsonl, results in words and the bridge to experiment trackers. Imports no torch."""

from motionkit.plugins import Metric
from motionkit.tracking._bridge import Tracker, Trackers, flatten, require_trackers
from motionkit.tracking._jsonl import JsonlWriter, finite, last_metrics, read_metrics
from motionkit.tracking._metrics import METRICS, definition, require_defined
from motionkit.tracking._results import (
    FEWEST,
    HELDOUT_TABLES,
    LEAST_MOVEMENT,
    MIN_RATIO,
    MOST_STATUES,
    Result,
    compared_rows,
    headline,
    label_of,
    other_results,
    result_table,
    results,
    short_result,
    towards,
)
from motionkit.tracking._retrieval import retrieval_table
from motionkit.tracking._series import binned, series, smoothed, sparkline

__all__ = [
    "FEWEST",
    "HELDOUT_TABLES",
    "LEAST_MOVEMENT",
    "METRICS",
    "MIN_RATIO",
    "MOST_STATUES",
    "JsonlWriter",
    "Metric",
    "Result",
    "Tracker",
    "Trackers",
    "binned",
    "compared_rows",
    "definition",
    "finite",
    "flatten",
    "headline",
    "label_of",
    "last_metrics",
    "other_results",
    "read_metrics",
    "require_defined",
    "require_trackers",
    "result_table",
    "results",
    "retrieval_table",
    "series",
    "short_result",
    "smoothed",
    "sparkline",
    "towards",
]
