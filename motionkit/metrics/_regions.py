"""Overlap of regions."""

from __future__ import annotations

import torch
from torch import Tensor


def region_iou(masks: Tensor, references: Tensor) -> Tensor:
    """Return the intersection over union ``[N]`` of masks ``[N, h, w]`` bool; 1 where both are empty.

    Example:
        >>> one = torch.tensor([[[True, True, False, False]]])
        >>> region_iou(one, one.flip(-1)).item(), region_iou(one & False, one & False).item()
        (0.0, 1.0)
    """
    both = (masks & references).flatten(1).sum(1)
    either = (masks | references).flatten(1).sum(1)
    return torch.where(either > 0, both / either.clamp(min=1), 1.0)


def cumulative_iou(masks: Tensor, references: Tensor) -> float:
    """Return cIoU: all intersections over all unions; large regions count more. 1 where all are empty."""
    either = int((masks | references).sum())
    return int((masks & references).sum()) / either if either else 1.0


def box_iou(masks: Tensor, references: Tensor) -> Tensor:
    """Return the overlap ``[N]`` of the boxes around regions; 1 where both are empty."""
    return region_iou(_boxes(masks), _boxes(references))


def _boxes(masks: Tensor) -> Tensor:
    """Fill the box around each region."""
    found = []
    for axis in (2, 1):
        line = masks.any(axis).int()  # [N, h], then [N, w]
        found.append((line.cummax(1).values & line.flip(1).cummax(1).values.flip(1)).bool())
    return found[0][:, :, None] & found[1][:, None, :]
