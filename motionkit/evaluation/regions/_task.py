"""Regions with what a policy saw of their images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from motionkit.datasets.base import Regions
from motionkit.policies.base import RegionPolicy

Weights = Callable[[], AbstractContextManager[None]]
"""Puts other weights into the network for the duration."""


@dataclass(frozen=True)
class Task:
    """N regions, each once.

    Attributes:
        seen: What the policy saw of the images.
        masks: ``[N, h, w]`` bool, at the size of the policy's masks.
        captions: N texts.
        originals: N arrays ``[H, W]`` bool, the masks as the data have them; empty where nothing is measured on them.
        others: ``[N, K, h, w]`` bool, masks of the other objects of each image, empty ones where it has fewer than K.
    """

    seen: Any
    masks: Tensor
    captions: tuple[str, ...]
    originals: Sequence[NDArray[np.bool_]] = ()
    others: Tensor | None = None

    def __len__(self) -> int:
        return len(self.captions)

    def repeated(self, times: int) -> Task:
        """Return every region so many times, one after the other, to be trained on."""
        rows = torch.arange(len(self.captions), device=self.masks.device).repeat_interleave(times)
        texts = tuple(text for text in self.captions for _ in range(times))
        others = None if self.others is None else self.others[rows]
        return Task(self.seen.select(rows), self.masks[rows], texts, others=others)


@torch.no_grad()
def open_task(policy: RegionPolicy, found: Regions) -> Task:
    """Let a policy look at regions."""
    masks = masks_at(found.masks, policy.mask_size).to(policy.device)
    others = _others_at(found.others, policy.mask_size).to(policy.device) if found.others else None
    return Task(policy.see(found.images), masks, found.captions, found.masks, others)


def _others_at(others: Sequence[NDArray[np.bool_]], size: tuple[int, int]) -> Tensor:
    """Return ``[N, K, h, w]`` bool: so many masks as the image with the most of them has."""
    found = torch.zeros(len(others), max(map(len, others)), *size, dtype=torch.bool)
    for place, own in enumerate(others):
        if len(own):
            found[place, : len(own)] = masks_at(list(own), size)
    return found


def masks_at(masks: Sequence[NDArray[np.bool_]], size: tuple[int, int]) -> Tensor:
    """Return ``[N, h, w]`` bool: masks at another size.

    A cell is inside where at least half of it is. A region of which no cell is half covered keeps the cells that it
    covers most: it does not vanish.

    Args:
        masks: N arrays ``[H, W]`` bool.
        size: ``(h, w)``.
    """
    return torch.stack([_mask_at(torch.from_numpy(mask), size) for mask in masks])


def _mask_at(mask: Tensor, size: tuple[int, int]) -> Tensor:
    if tuple(mask.shape) == size:
        return mask
    covered = F.adaptive_avg_pool2d(mask[None, None].float(), size)[0, 0]
    top = covered.max()
    return covered >= torch.clamp(top, min=1e-6, max=0.5)


def overlap(logits: Tensor, originals: Sequence[NDArray[np.bool_]]) -> Tensor:
    """Return ``[N, 2]`` int64 on the CPU: pixels in both masks and in either, at the size that each mask has.

    Args:
        logits: ``[N, h, w]``; they are brought to the size of a mask (bilinear, and smoothed where it is smaller), and
            above 0 is inside.
        originals: N arrays ``[H, W]`` bool.
    """
    found = []
    for one, original in zip(logits.detach(), originals, strict=True):
        wanted = torch.from_numpy(original).to(one.device)
        if one.shape != wanted.shape:
            one = F.interpolate(one[None, None].float(), wanted.shape, mode="bilinear", antialias=True)[0, 0]
        mask = one > 0
        found.append(torch.stack([(mask & wanted).sum(), (mask | wanted).sum()]))
    return torch.stack(found).cpu()


def iou_of(counts: Tensor) -> Tensor:
    """Return the intersection over union ``[N]`` float64 of `overlap`; 1 where both masks are empty."""
    both, either = counts.double().unbind(1)
    return torch.where(either > 0, both / either.clamp(min=1), 1.0)
