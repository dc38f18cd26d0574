"""Metric definitions, metrics.jsonl, results in words and the bridge to experiment trackers. Imports no torch."""

from motionkit.tracking._bridge import Tracker, Trackers, flatten, require_trackers
from motionkit.tracking._jsonl import JsonlWriter, finite, read_metrics
from motionkit.tracking._metrics import METRICS, Metric, definition
from motionkit.tracking._results import RESULT_COLUMNS, Result, headline, result_rows, results
from motionkit.tracking._series import binned, series, smoothed, sparkline

__all__ = [
    "METRICS",
    "RESULT_COLUMNS",
    "JsonlWriter",
    "Metric",
    "Result",
    "Tracker",
    "Trackers",
    "binned",
    "definition",
    "finite",
    "flatten",
    "headline",
    "read_metrics",
    "require_trackers",
    "result_rows",
    "results",
    "series",
    "smoothed",
    "sparkline",
]
