"""What an update minimises: a pass with teacher forcing, and a free run."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.policies.mpl.api import Course, Delta, OneShot, Predicted, PredictorNetwork, roll_out, teach
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
        self, settings: TrainMplSettings, data: TrainingData, network: PredictorNetwork, batches: WindowBatches
    ) -> None:
        self._settings, self._data, self._network, self._batches = settings, data, network, batches
        self._scale = network.pose_std

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
        loss = batch.truth.heights.new_zeros(())
        found: dict[str, float] = {}
        if self._network.delta is not None:
            teacher, found = self._delta(self._network.delta, batch, settings.teacher.frames, forced, generator)
            free, _ = self._delta(self._network.delta, batch, horizon, 0.0, generator)
            loss = loss + teacher + settings.freerun.weight * free
            found["loss/freerun"] = float(free.detach())
        if self._network.shot is not None:
            shot, _ = self._shot(self._network.shot, batch, generator)
            loss = loss + shot
            found["loss/one_shot"] = float(shot.detach())
        (share * loss).backward()
        return {"loss/total": float(loss.detach()), **found}

    def _delta(
        self, network: Delta, batch: WindowBatch, frames: int, forced: float, generator: torch.Generator
    ) -> tuple[Tensor, dict[str, float]]:
        settings = self._settings
        start, part = _part(batch, frames, generator)
        course = self._course(batch, start, network.ahead, part.truth.frames, generator)
        noise = settings.augmentation.noise_std
        if forced >= 1.0:
            predicted = teach(network, part.known, part.truth, course=course, noise=noise)
        else:
            keep = torch.rand(len(start), part.truth.frames, generator=generator).to(start.device) < forced
            predicted = roll_out(
                network, part.known, part.truth.frames, course=course, truth=part.truth, forced=keep, noise=noise
            )
        return self._joint(predicted, part, part.mask())

    def _shot(
        self, network: OneShot, batch: WindowBatch, generator: torch.Generator
    ) -> tuple[Tensor, dict[str, float]]:
        start, part = _part(batch, network.frames, generator)
        course = self._course(batch, start, network.ahead, network.frames, generator)
        condition = None
        if course is not None:
            here = part.truth.steps.new_zeros(len(start), 2)
            condition = course.at(here, here[:, 0], 0)
        predicted = network(part.known, condition, noise=self._settings.augmentation.noise_std)
        return self._joint(predicted.first(part.truth.frames), part, part.mask())

    def _course(
        self, batch: WindowBatch, start: Tensor, ahead: Sequence[int], frames: int, generator: torch.Generator
    ) -> Course | None:
        command = self._settings.model.command
        if command == "none":
            return None
        given = torch.rand(len(start), generator=generator).to(start.device) < self._settings.train.path_share
        path = batch.steps_from(start, frames + max(ahead))
        return Course(path, ahead, given=given if command == "both" else None)

    def _joint(self, predicted: Predicted, part: WindowBatch, mask: Tensor) -> tuple[Tensor, dict[str, float]]:
        state, truth = predicted.state, part.truth
        away = ((state.rotations - truth.rotations).square().sum((-1, -2)) + 1e-6).sqrt() / 2**0.5
        count = mask.sum().clamp_min(1)
        geo = torch.where(mask, away.mean(-1), 0).sum() / count
        net = self._network
        start = 6 * net.joints
        scale = self._scale[start : start + 4]
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


def _part(batch: WindowBatch, frames: int, generator: torch.Generator) -> tuple[Tensor, WindowBatch]:
    """Choose where in each window to predict `frames`, at most all; return the beginnings and the windows there."""
    frames = min(frames, batch.truth.frames)
    latest = (batch.valid - frames).clamp_min(0)
    drawn = torch.rand(len(latest), generator=generator).to(latest.device)
    start = (drawn * (latest + 1)).long().clamp_max(batch.truth.frames - frames)
    return start, batch.later(start, frames)
