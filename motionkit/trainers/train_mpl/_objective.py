"""What an update minimises: a pass with teacher forcing, and a free run."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from motionkit.motion.prediction import MotionState
from motionkit.policies.mpl.api import Course, MplNetwork, Predicted, roll_out, teach
from motionkit.trainers._state import Parts
from motionkit.trainers.train_mpl._batches import WindowBatch, WindowBatches
from motionkit.trainers.train_mpl._data import TrainingData
from motionkit.trainers.train_mpl._settings import TrainMplSettings


class Objective:
    """Losses of a batch, with gradients.

    Args:
        settings: All settings.
        data: Clips.
        network: What is trained.
        batches: Counts epochs, and draws random numbers.
    """

    def __init__(
        self, settings: TrainMplSettings, data: TrainingData, network: MplNetwork, batches: WindowBatches
    ) -> None:
        self._settings, self._data, self._network, self._batches = settings, data, network, batches

    def parts(self) -> Parts:
        """Return what a checkpoint holds of it."""
        return {}

    def backward(self, batch: WindowBatch, step: int, number: int, *, share: float) -> dict[str, float]:
        """Add the gradients of one batch.

        Args:
            batch: Windows.
            step: Number of the update, from 1.
            number: Number of the batch in the update.
            share: Part of the update that the batch is.

        Returns:
            Metrics.
        """
        generator = self._batches.generator("losses", step * 1024 + number)
        epoch = (step - 1) / self._batches.per_epoch
        settings = self._settings
        end = settings.run.epochs * 0.6
        rise = min(1.0, epoch / end)
        horizon = round(
            settings.freerun.first_horizon + (settings.freerun.horizon - settings.freerun.first_horizon) * rise
        )
        forced = max(0.0, 1.0 - epoch / (settings.run.epochs * 0.65))
        total, found = self._losses(batch, settings.teacher.frames, forced, generator)
        free, parts = self._losses(batch, horizon, 0.0, generator)
        loss = total + settings.freerun.weight * free
        (share * loss).backward()
        return {"loss/total": float(loss.detach()), "loss/freerun": float(free.detach()), **found}

    def _losses(
        self, batch: WindowBatch, frames: int, forced: float, generator: torch.Generator
    ) -> tuple[Tensor, dict[str, float]]:
        settings = self._settings
        count = len(batch.valid)
        frames = min(frames, batch.truth.frames)
        latest = (batch.valid - 1).clamp(0, batch.truth.frames - frames)
        start = (torch.rand(count, generator=generator).to(latest.device) * (latest + 1)).long()
        part = batch.later(start, frames)
        given = torch.rand(count, generator=generator).to(latest.device) < settings.train.path_share
        command = settings.model.command
        course = None
        if command != "none":
            ahead = self._network.ahead
            longest = batch.later(start, min(frames + max(ahead), batch.truth.frames - 0)) if False else part
            course = Course(longest.truth.steps, ahead, given=given if command == "both" else None)
        noise = settings.augmentation.noise_std
        if forced >= 1.0:
            predicted = teach(self._network, part.known, part.truth, course=course, noise=noise)
        else:
            keep = torch.rand(count, frames, generator=generator).to(latest.device) < forced
            predicted = roll_out(
                self._network, part.known, frames, course=course, truth=part.truth, forced=keep, noise=noise
            )
        mask = part.mask()
        return self._joint(predicted, part, mask)

    def _joint(self, predicted: Predicted, part: WindowBatch, mask: Tensor) -> tuple[Tensor, dict[str, float]]:
        state, truth = predicted.state, part.truth
        away = ((state.rotations - truth.rotations).square().sum((-1, -2)) + 1e-6).sqrt() / 2**0.5
        count = mask.sum().clamp_min(1)
        geo = torch.where(mask, away.mean(-1), 0).sum() / count
        net = self._network
        start = 6 * net.joints
        scale = net.pose_std[start : start + 4]
        steps = ((state.steps - truth.steps) * net.fps / scale[:3]).abs().mean(-1)
        heights = ((state.heights - truth.heights) / scale[3]).abs()
        root = torch.where(mask, steps + heights, 0).sum() / count
        feet = torch.where(mask, (state.contacts - truth.contacts).abs().mean(-1), 0).sum() / count
        loss = self._settings.loss
        total = loss.rot_geo * geo + loss.root * root + loss.contacts * feet
        return total, {
            "loss/rot_geo": float(geo.detach()),
            "loss/root": float(root.detach()),
            "loss/contacts": float(feet.detach()),
        }
