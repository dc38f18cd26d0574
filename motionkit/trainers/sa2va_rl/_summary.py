"""What a run found: figures before and after, and a verdict."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch

from motionkit.evaluation.regions import NAMES, RegionFigures, change_of
from motionkit.tracking import result_table, results
from motionkit.trainers._state import Kept

_logger = logging.getLogger("motionkit.sa2va_rl")


def keep_figures(kept: Kept, figures: RegionFigures) -> None:
    """Put figures into a part of a checkpoint."""
    kept.tensors = {
        **{name: torch.from_numpy(one) for name, one in figures.scores.items()},
        "masks": torch.from_numpy(figures.masks),
    }
    kept.values = {**kept.values, "captions": figures.captions}


def figures_of(kept: Kept) -> RegionFigures:
    """Return them."""
    scores = {name: kept.tensors[name].numpy() for name in NAMES}
    return RegionFigures(scores, list(kept.values["captions"]), kept.tensors["masks"].numpy())


def summary_of(before: RegionFigures, after: RegionFigures, best_step: int, seed: int) -> dict[str, object]:
    """Return the parts of the summary document; see `motionkit.trainers.base.Trainer.train`."""
    heldout = {name: change_of(before.scores[name], after.scores[name], seed) for name in NAMES}
    count = len(after.captions)
    said = _verdict(heldout)
    _logger.info("%s", said)
    return {
        "heldout": heldout,
        "measured_on": f"{count:,} held-out regions, a sampled caption of each, the same draws before and after. "
        "The interval is a 95 % bootstrap over regions.",
        "table": [result_table(results(heldout), f"{count:,} held-out regions, sampled captions")],
        "verdict": said,
        "best_step": best_step,
    }


def _verdict(heldout: Mapping[str, Mapping[str, Any]]) -> str:
    def said(name: str) -> str:
        one = heldout[name]
        return f"from {one['before']:.3f} to {one['after']:.3f}"

    better = heldout["judge_iou"]["ci95"][0] > 0
    head = "both directions agree more" if better else "the frozen judge sees no clear gain"
    return (
        f"{head}: cycle IoU {said('cycle_iou')} (by the policy as it started {said('judge_iou')}), METEOR "
        f"{said('meteor')}, referring IoU {said('referring_iou')}."
    )
