"""Metric definitions, metrics.jsonl and the bridge to experiment trackers. Imports no torch."""

from motionkit.tracking._bridge import Tracker, TrackerFactory, Trackers, flatten, require_trackers
from motionkit.tracking._jsonl import JsonlWriter, finite, read_metrics
from motionkit.tracking._metrics import METRICS, Metric, definition

__all__ = [
    "METRICS",
    "JsonlWriter",
    "Metric",
    "Tracker",
    "TrackerFactory",
    "Trackers",
    "definition",
    "finite",
    "flatten",
    "read_metrics",
    "require_trackers",
]
