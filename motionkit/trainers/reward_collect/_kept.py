"""What a run keeps of the episodes that it collected: their quota and their counts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from motionkit.datasets.episodes import Collector, Quota
from motionkit.trainers.base import Figure
from motionkit.trainers.reward_collect._settings import QuotaSettings

KEPT = (
    Figure("with success", ("episodes/positive",), count=True),
    Figure("without", ("episodes/negative",), count=True),
)
"""What the progress line of a run that collects shows."""

_logger = logging.getLogger("motionkit.reward_collect")


def quota_of(settings: QuotaSettings) -> Quota:
    """Return the quota that settings mean, where 0 is all."""
    limits = settings.positive, settings.negative, settings.positive_frames, settings.negative_frames
    return Quota(*(limit or None for limit in limits))


def kept_of(collector: Collector) -> dict[str, float]:
    """Return the number of kept episodes of each class, by metric name."""
    return {f"episodes/{name}": float(one["trajectories"]) for name, one in collector.counts.items()}


def result_of(counts: Mapping[str, Mapping[str, int]], left_out: Mapping[str, int]) -> dict[str, Any]:
    """Return the summary of a run that collected: counts of each class, with a table and a sentence."""
    rows = [
        [name, *(str(one[key]) for key in ("trajectories", "frames", "success_frames")), str(left_out[name])]
        for name, one in counts.items()
    ]
    missing = [name for name, one in counts.items() if not one["trajectories"]]
    positive, negative = (counts[name]["trajectories"] for name in ("positive", "negative"))
    said = f"{positive} episodes with a success and {negative} without."
    if missing:
        said += f" There is no {missing[0]} one: a classifier cannot be trained on them alone."
        _logger.warning("%s", said)
    else:
        _logger.info("%s", said)
    table = {
        "title": "Episodes",
        "columns": ["", "kept", "frames", "with success", "over the quota"],
        "rows": rows,
        "numbers": [1, 2, 3, 4],
    }
    labels = {"1": sum(one["success_frames"] for one in counts.values())}
    labels["0"] = sum(one["frames"] for one in counts.values()) - labels["1"]
    return {
        "positive": dict(counts["positive"]), "negative": dict(counts["negative"]), "labels": labels,
        "left_out": dict(left_out), "table": table, "verdict": said,
    }  # fmt: skip
