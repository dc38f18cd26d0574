"""Metric definitions, metrics.jsonl and the bridge to experiment trackers. Imports no torch."""

from motionkit.tracking._bridge import Tracker, Trackers, flatten, require_trackers
from motionkit.tracking._jsonl import JsonlWriter, finite, read_metrics
from motionkit.tracking._metrics import METRICS, definition

__all__ = [
    "METRICS",
    "JsonlWriter",
    "Tracker",
    "Trackers",
    "definition",
    "finite",
    "flatten",
    "read_metrics",
    "require_trackers",
]
