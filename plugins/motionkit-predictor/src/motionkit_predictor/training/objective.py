"""The loss of an update: a pass with teacher forcing, a free run, and a shot of all frames at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from motionkit.training.steps import Parts
from motionkit_predictor.evaluation.measure import Body
from motionkit_predictor.network.features import Course, Predicted, periods
from motionkit_predictor.network.heads import Delta, OneShot, Trunk
from motionkit_predictor.network.predictor import PredictorNetwork, roll_out, teach
from motionkit_predictor.training.adaptive import build_adaptive
from motionkit_predictor.training.batches import WindowBatch, WindowBatches
from motionkit_predictor.training.losses import (
    Frames,
    JointLoss,
    Skeleton,
    frame_weights,
    group_shares,
    latent_consistency,
)
from motionkit_predictor.training.schedule import Values, values_at
from motionkit_predictor.training.settings import GROUPS, TrainMplSettings

_SHARES = "loss_group"


class Objective:
    """Losses of a batch, with gradients."""

    def __init__(
        self,
        settings: TrainMplSettings,
        body: Body,  # the skeleton
        network: PredictorNetwork,  # what is trained
        batches: WindowBatches,  # counts epochs, and draws random numbers
    ) -> None:
        self._settings, self._network, self._batches = settings, network, batches
        root = network.pose_std[6 * network.joints :][:4]
        self._joint = JointLoss(settings.loss, Skeleton(body.parents, body.limbs, body.feet, body.fps, root))
        self._adaptive = build_adaptive(settings.adaptive, _weighted_terms(settings, network), batches.per_epoch)

    def parts(self) -> Parts:
        """Return the stateful parts for checkpoints."""
        return {} if self._adaptive is None else {"adaptive": self._adaptive}

    def settle(self) -> dict[str, float]:
        """Change adaptive weights, once all batches of an update have their gradients; returns metrics."""
        if self._adaptive is None:
            return {}
        self._adaptive.settle()
        return self._adaptive.metrics()

    def backward(
        self,
        batch: WindowBatch,
        step: int,  # number of the update, from 1
        number: int,  # number of the batch in the update
        *,
        shots: WindowBatch | None,  # windows of the one-shot head, if there is one
        share: float,  # part of the update that the batch is
    ) -> dict[str, float]:
        """Add the gradients of one batch; returns metrics."""
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
        weighted = self._balanced(weighted)
        (share * loss).backward()
        shares = group_shares({name: float(value.detach()) for name, value in weighted.items()})
        metrics |= {f"{_SHARES}/{group}": part for group, part in shares.items()}
        return {"loss/total": float(loss.detach()), **metrics}

    def backward_shot(self, shots: WindowBatch, step: int, number: int, *, share: float = 1.0) -> None:
        """Add the gradients of a batch of the one-shot head alone, with the weights that are in force."""
        assert self._network.shot is not None
        values = self._values(step)
        generator = self._batches.generator("shots", step * 1024 + number)
        losses = self._shot(self._network.shot, shots, values, generator)
        weighted = self._balanced({name: values.weights[name] * value for name, value in losses.items()})
        (share * torch.stack(list(weighted.values())).sum()).backward()

    def _balanced(self, weighted: dict[str, Tensor]) -> dict[str, Tensor]:
        """Multiply losses by their adaptive factors."""
        if self._adaptive is None:
            return weighted
        factors = dict(zip(self._adaptive.terms, self._adaptive.factors().tolist(), strict=True))
        return {name: value * factors.get(name, 1.0) for name, value in weighted.items()}

    def _values(self, step: int) -> Values:
        return values_at(self._settings, (step - 1) / self._batches.per_epoch)

    def _delta(
        self, network: Delta, batch: WindowBatch, frames: int, forced: float, values: Values, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return the losses of frames that are predicted one by one, a share `forced` of them from true frames."""
        start, part = batch.somewhere(frames, generator)
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
        start, part = batch.somewhere(network.frames, generator)
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
        frames = Frames(predicted, part.truth, last, weights, part.offsets, part.contacts_known, part.conditioned)
        losses = self._joint(frames, values.weights)
        if (encoder := self._network.encoder) is not None and values.weights["latent_consistency"] > 0:
            with torch.no_grad():  # the target: the encoder on the true frames
                period = periods(encoder, part.known.then(part.truth), part.known.frames)
            away = latent_consistency(
                trunk.predicted_period(predicted.hidden), period, cosine=self._settings.loss.latent_cosine
            )  # fmt: skip
            losses["latent_consistency"] = frames.mean(away)
        return losses

    def _course(
        self, batch: WindowBatch, start: Tensor, ahead: Sequence[int], frames: int, generator: torch.Generator
    ) -> Course | None:
        if self._settings.model.command == "none":
            return None
        away = torch.randn(len(start), 3, generator=generator).to(start.device)
        path = batch.steps_from(start, frames + max(ahead))
        course = Course(path, ahead, given=batch.conditioned)
        scale = self._settings.train.path_off
        return course if not scale else course.off(scale * away, max(ahead))


def _weighted_terms(settings: TrainMplSettings, network: PredictorNetwork) -> list[str]:
    """Return the losses with a weight in every epoch, which an adaptive method may balance."""
    epochs = [values_at(settings, float(epoch)) for epoch in range(settings.run.epochs)]
    names = [name for name in GROUPS if name != "freerun" and all(values.weights[name] > 0 for values in epochs)]
    if network.delta is not None and all(values.freerun_weight > 0 for values in epochs):
        names.append("freerun")
    return [name for name in names if name != "latent_consistency"]


def _total(parts: Mapping[str, Tensor], values: Values) -> Tensor:
    return torch.stack([values.weights[name] * value for name, value in parts.items()]).sum()


def _logged(parts: Mapping[str, Tensor]) -> dict[str, float]:
    return {f"loss/{name}": float(value.detach()) for name, value in parts.items() if name in GROUPS}
