"""Which regions a step gets, and in which order they are met: a function of seed and step alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit.datasets.base import HasRegionAreas, NamesAbsent, RegionDataset, Split
from motionkit.evaluation.regions._known import look_up
from motionkit.evaluation.regions._task import Task, Weights, open_task
from motionkit.metrics import region_iou
from motionkit.policies.base import RegionPolicy
from motionkit.trainers._world import OneProcess, World, of_main, share_of
from motionkit.trainers.sa2va_rl._settings import CurriculumSettings

_TOLD = 1  # marks the order of the regions with captions

ENDLESS = 1 << 20
"""Regions from which data are not put in order for each pass."""


class RegionOrder:
    """Opens the regions of each step.

    Without a curriculum every region is met once before any comes again. With one, a step draws several times the
    regions that it needs, ranks them by how easy they are, and takes its own from the easiest part of them; that part
    grows to all of them.

    Args:
        data: The data.
        policy: Sees the images.
        batch: Regions of a step.
        seed: Seed of the run.
        curriculum: What is easy, and for how long it comes first.
        steps: Steps of the run.
        start: Weights of the policy as it started, which says what is ambiguous.
        world: The processes that share a step.
        part: Numbers of the regions whose captions may be read; None where all may. The regions of a step then come
            without captions.
    """

    def __init__(
        self,
        data: RegionDataset,
        policy: RegionPolicy,
        batch: int,
        seed: int,
        curriculum: CurriculumSettings,
        steps: int,
        start: Weights,
        world: World | None = None,
        part: NDArray[np.int64] | None = None,
    ) -> None:
        self._data, self._policy, self._batch, self._seed = data, policy, batch, seed
        self._curriculum, self._start, self._world = curriculum, start, world or OneProcess()
        self._part = part
        self._share = share_of(batch, self._world, what="regions", flag="--batch-size")
        self._until = curriculum.until * steps if curriculum.by != "none" else 0.0
        self.per_epoch = max(1, data.count("train") // batch)

    def at(self, step: int) -> Task:
        """Return this process's regions of a step, counted from 1; without captions where only a part has such."""
        task = self.open("train", self._index(step))
        return task if self._part is None else replace(task, captions=("",) * len(task))

    def told(self, step: int, absent: float = 0.0) -> Task:
        """Return this process's regions with captions: those of the step, or in turn of the part that has captions.

        Args:
            step: Step of the run, counted from 1.
            absent: Share of them that get the caption of what their image does not show, and an empty mask. A region
                whose data know that the image does show it keeps its own.
        """
        index = self._index(step) if self._part is None else self._of_part(self._part, step)
        task = self.open("train", index)
        count = round(absent * len(index))
        if not count or not isinstance(self._data, NamesAbsent):
            return task
        masks, texts = task.masks.clone(), list(task.captions)
        for place, named in enumerate(look_up(self._data, "train", index[:count]).absent):
            if named:  # the image does not show it
                masks[place], texts[place] = False, named
        return replace(task, masks=masks, captions=tuple(texts))

    def _of_part(self, part: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        epoch, place = divmod((step - 1) * self._batch, max(1, len(part) // self._batch) * self._batch)
        order = np.random.default_rng((self._seed, epoch, _TOLD)).permutation(part)
        return np.resize(order[place:], self._batch)[self._share]  # fewer than a step takes come again

    def _index(self, step: int) -> NDArray[np.int64]:
        if step - 1 >= self._until:
            return self._in_turn(step)[self._share]
        draw = np.random.default_rng((self._seed, step))
        pool = self._curriculum.pool
        count = self._data.count("train")
        drawn = draw.choice(count, min(pool * self._batch, count), replace=False)
        ease = self._areas(drawn) if self._curriculum.by == "area" else self._clarity(drawn)
        share = (step - 1) / self._until
        kept = math.ceil(self._batch * (1 + (pool - 1) * share))
        easiest = drawn[np.argsort(-ease, kind="stable")][: max(self._batch, kept)]
        # What is clear is a matter of rounding now and then: the main process decides.
        chosen = np.array(of_main(draw.permutation(easiest)[: self._batch].tolist(), self._world), np.int64)
        return chosen[self._share]

    def open(self, split: Split, index: NDArray[np.int64]) -> Task:
        """Open regions by their numbers."""
        return open_task(self._policy, self._data.regions(split, index))

    def _in_turn(self, step: int) -> NDArray[np.int64]:
        size, count = self._batch, self._data.count("train")
        epoch, place = divmod((step - 1) * size, self.per_epoch * size)
        if count > ENDLESS:
            return np.arange(place, place + size)
        order = np.random.default_rng((self._seed, epoch)).permutation(count)
        return order[place : place + size]

    def _areas(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the share of its image that each region covers: a large one is easy."""
        if isinstance(self._data, HasRegionAreas):
            return self._data.areas("train")[index].astype(np.float64)
        return np.array([mask.mean() for mask in self._data.regions("train", index).masks])

    @torch.no_grad()
    def _clarity(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the IoU of the mask that the policy as it started draws of each caption: high where it is clear."""
        task = self.open("train", index)
        with self._start():
            drawn = self._policy.draw(task.seen, self._policy.prompts(task.seen, task.captions)) > 0
        return np.asarray(region_iou(drawn, task.masks).double().cpu().numpy())
