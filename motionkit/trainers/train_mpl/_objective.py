"""What an update minimises: a pass with teacher forcing, a free run, and a shot of all frames at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from motionkit.evaluation.mpl._figures import Body
from motionkit.policies.mpl._course import Course
from motionkit.policies.mpl._delta import Delta
from motionkit.policies.mpl._network import PredictorNetwork
from motionkit.policies.mpl._one_shot import OneShot
from motionkit.policies.mpl._period import periods
from motionkit.policies.mpl._predicted import Predicted
from motionkit.policies.mpl._roll_out import roll_out, teach
from motionkit.policies.mpl._trunk import Trunk
from motionkit.trainers._state import Parts
from motionkit.trainers.train_mpl._adaptive import build_adaptive
from motionkit.trainers.train_mpl._batches import WindowBatch, WindowBatches
from motionkit.trainers.train_mpl._settings import GROUPS, TrainMplSettings
from motionkit.trainers.train_mpl._values import Values, values_at
from motionkit.trainers.train_mpl.losses._frames import Frames, Skeleton, frame_weights
from motionkit.trainers.train_mpl.losses._joint import JointLoss, group_shares
from motionkit.trainers.train_mpl.losses._motion import latent_consistency

_SHARES = "loss_group"


class Objective:
    """Losses of a batch, with gradients.

    Args:
        settings: All settings.
        body: The skeleton.
        network: What is trained.
        batches: Counts epochs, and draws random numbers.
    """

    def __init__(
        self, settings: TrainMplSettings, body: Body, network: PredictorNetwork, batches: WindowBatches
    ) -> None:
        self._settings, self._network, self._batches = settings, network, batches
        root = network.pose_std[6 * network.joints :][:4]
        self._joint = JointLoss(settings.loss, Skeleton(body.parents, body.limbs, body.feet, body.fps, root))
        self._adaptive = build_adaptive(settings.adaptive, _weighted_terms(settings, network), batches.per_epoch)

    def parts(self) -> Parts:
        """Return what a checkpoint holds of it."""
        return {} if self._adaptive is None else {"adaptive": self._adaptive}

    def settle(self) -> dict[str, float]:
        """Change adaptive weights, once all batches of an update have their gradients; returns metrics."""
        if self._adaptive is None:
            return {}
        self._adaptive.settle()
        return self._adaptive.metrics()

    def backward(
        self, batch: WindowBatch, step: int, number: int, *, shots: WindowBatch | None, share: float
    ) -> dict[str, float]:
        """Add the gradients of one batch.

        Args:
            batch: Windows.
            step: Number of the update, from 1.
            number: Number of the batch in the update.
            shots: Windows of the one-shot head, where there is one.
            share: Part of the update that the batch is.

        Returns:
            Metrics.
        """
        generator = self._batches.generator("losses", step * 1024 + number)
        values = self._values(step)
        weighted: dict[str, Tensor] = {}
        metrics: dict[str, float] = {}
        if (delta := self._network.delta) is not None:
            metrics |= {
                "teacher/share": values.teacher,
                "freerun/weight": values.freerun_weight,
                "freerun/horizon": values.freerun_horizon,
            }
            if (weight := self._settings.teacher.weight) > 0:
                taught = self._delta(delta, batch, self._settings.teacher.frames, values.teacher, values, generator)
                weighted |= {name: weight * values.weights[name] * value for name, value in taught.items()}
                metrics |= _logged(taught)
            if values.freerun_weight > 0:
                free = self._delta(delta, batch, values.freerun_horizon, 0.0, values, generator)
                total = _total(free, values)
                weighted["freerun"] = values.freerun_weight * total
                metrics |= {} if weighted.keys() > {"freerun"} else _logged(free)
                metrics["loss/freerun"] = float(total.detach())
        if self._network.shot is not None and shots is not None:
            shot = self._shot(self._network.shot, shots, values, generator)
            for name, value in shot.items():
                weighted[name] = weighted.get(name, 0.0) + values.weights[name] * value
            metrics["loss/one_shot"] = float(_total(shot, values).detach())
        if self._adaptive is None:
            loss = torch.stack(list(weighted.values())).sum()
        else:
            loss = self._adaptive.total(weighted, self._network.last_shared)
            factors = dict(zip(self._adaptive.terms, self._adaptive.factors().tolist(), strict=True))
            weighted = {name: value * factors.get(name, 1.0) for name, value in weighted.items()}
        (share * loss).backward()
        shares = group_shares({name: float(value.detach()) for name, value in weighted.items()})
        metrics |= {f"{_SHARES}/{group}": part for group, part in shares.items()}
        return {"loss/total": float(loss.detach()), **metrics}

    def backward_shot(self, shots: WindowBatch, step: int, number: int, *, share: float = 1.0) -> None:
        """Add the gradients of a batch of the one-shot head alone, with the weights that are in force.

        Args:
            shots: Windows.
            step: Number of the update, from 1.
            number: Number of the batch among those of the update.
            share: Factor of the gradient.
        """
        assert self._network.shot is not None
        values = self._values(step)
        generator = self._batches.generator("shots", step * 1024 + number)
        found = self._shot(self._network.shot, shots, values, generator)
        weighted = {name: values.weights[name] * value for name, value in found.items()}
        if self._adaptive is not None:
            factors = dict(zip(self._adaptive.terms, self._adaptive.factors().tolist(), strict=True))
            weighted = {name: value * factors.get(name, 1.0) for name, value in weighted.items()}
        (share * torch.stack(list(weighted.values())).sum()).backward()

    def _values(self, step: int) -> Values:
        return values_at(self._settings, (step - 1) / self._batches.per_epoch)

    def _delta(
        self,
        network: Delta,
        batch: WindowBatch,
        frames: int,
        forced: float,
        values: Values,
        generator: torch.Generator,
    ) -> dict[str, Tensor]:
        """Return the losses of frames that are predicted one by one, a share of them from true frames."""
        start, part = _part(batch, frames, generator)
        course = self._course(batch, start, network.ahead, part.truth.frames, generator)
        noise = self._settings.augmentation.noise_std
        if forced >= 1.0:
            predicted = teach(network, part.known, part.truth, course=course, noise=noise)
        else:
            drawn = torch.rand(len(start), part.truth.frames, generator=generator).to(start.device)
            predicted = roll_out(
                network, part.known, part.truth.frames, course=course, truth=part.truth, forced=drawn < forced,
                noise=noise,
            )  # fmt: skip
        return self._losses(network.trunk, predicted, part, values, fade=self._settings.freerun.fade)

    def _shot(
        self, network: OneShot, batch: WindowBatch, values: Values, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return the losses of all frames at once."""
        start, part = _part(batch, network.frames, generator)
        course = self._course(batch, start, network.ahead, network.frames, generator)
        condition = None
        if course is not None:
            here = part.truth.steps.new_zeros(len(start), 2)
            condition = course.at(here, here[:, 0], 0)
        predicted = network(part.known, condition, noise=self._settings.augmentation.noise_std)
        return self._losses(network.trunk, predicted.first(part.truth.frames), part, values, fade=0.0)

    def _losses(
        self, trunk: Trunk, predicted: Predicted, part: WindowBatch, values: Values, *, fade: float
    ) -> dict[str, Tensor]:
        last = part.known.part(part.known.frames - 1)
        weights = frame_weights(part.mask(), fade)
        frames = Frames(predicted, part.truth, last, weights, part.offsets, part.contacts_known, part.told)
        found = self._joint(frames, values.weights)
        if (encoder := self._network.encoder) is not None and values.weights["latent_consistency"] > 0:
            with torch.no_grad():  # of the true frames, which the encoder reads as they are
                period = periods(encoder, part.known.then(part.truth), part.known.frames)
            away = latent_consistency(
                trunk.told_period(predicted.hidden), period, cosine=self._settings.loss.latent_cosine
            )  # fmt: skip
            found["latent_consistency"] = frames.mean(away)
        return found

    def _course(
        self, batch: WindowBatch, start: Tensor, ahead: Sequence[int], frames: int, generator: torch.Generator
    ) -> Course | None:
        if self._settings.model.command == "none":
            return None
        away = torch.randn(len(start), 3, generator=generator).to(start.device)
        path = batch.steps_from(start, frames + max(ahead))
        course = Course(path, ahead, given=batch.told)
        scale = self._settings.train.path_off
        return course if not scale else course.off(scale * away, max(ahead))


def _weighted_terms(settings: TrainMplSettings, network: PredictorNetwork) -> list[str]:
    """Return the losses that have a weight in every epoch: those that an adaptive method may balance."""
    epochs = [values_at(settings, float(epoch)) for epoch in range(settings.run.epochs)]
    found = [name for name in GROUPS if name != "freerun" and all(one.weights[name] > 0 for one in epochs)]
    if network.delta is not None and all(one.freerun_weight > 0 for one in epochs):
        found.append("freerun")
    return [name for name in found if name != "latent_consistency"]


def _part(batch: WindowBatch, frames: int, generator: torch.Generator) -> tuple[Tensor, WindowBatch]:
    """Choose where in each window to predict `frames`, at most all; return the beginnings and the windows there."""
    frames = min(frames, batch.truth.frames)
    latest = (batch.valid.clamp_max(batch.future) - frames).clamp_min(0)
    drawn = torch.rand(len(latest), generator=generator).to(latest.device)
    start = (drawn * (latest + 1)).long().clamp_max(batch.truth.frames - frames)
    return start, batch.later(start, frames)


def _total(parts: Mapping[str, Tensor], values: Values) -> Tensor:
    return torch.stack([values.weights[name] * value for name, value in parts.items()]).sum()


def _logged(parts: Mapping[str, Tensor]) -> dict[str, float]:
    return {f"loss/{name}": float(value.detach()) for name, value in parts.items() if name in GROUPS}
