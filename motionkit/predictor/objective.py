"""The loss of an update: a pass with teacher forcing, a free run, and a shot of all frames at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.predictor.batches import WindowBatch, WindowBatches
from motionkit.predictor.evaluation.measure import Body
from motionkit.predictor.features import Course, Predicted, periods
from motionkit.predictor.heads import Delta, OneShot, Trunk
from motionkit.predictor.losses import Frames, JointLoss, Skeleton, frame_weights, group_shares, latent_consistency
from motionkit.predictor.network import PredictorNetwork, roll_out, teach
from motionkit.predictor.schedule import Values, values_at
from motionkit.predictor.train_settings import GROUPS, AdaptiveSettings, TrainMplSettings
from motionkit.training.steps import Parts, State

# Adaptive weights of losses: GradNorm, uncertainty, dynamic weight averaging.
#
# They multiply the user's weights, so that a group that was switched off stays off.


_LEAST = 1e-3  # smallest factor of a loss: none is switched off


def build_adaptive(settings: AdaptiveSettings, terms: Sequence[str], per_epoch: int) -> Adaptive | None:
    """Return the chosen method for some losses; None for ``none``."""
    if settings.method == "none":
        return None
    chosen = tuple(settings.terms or terms)
    if unknown := [name for name in chosen if name not in terms]:
        raise MotionkitError(
            f"--adaptive-terms has {unknown[0]}, which is not a loss with a weight above 0.",
            why=f"these have one: {', '.join(terms)}.", fix=f"--set loss.{unknown[0]}=0.1, or leave it out.",
        )  # fmt: skip
    if len(chosen) < 2:
        raise MotionkitError(
            f"--adaptive-loss {settings.method} balances two losses or more, and there is {chosen[0]} alone.",
            fix="name others by --adaptive-terms, or leave --adaptive-loss out.",
        )
    if settings.method == "gradnorm":
        return GradNorm(chosen, alpha=settings.alpha, rate=settings.learning_rate)
    if settings.method == "uncertainty":
        return Uncertainty(chosen, rate=settings.learning_rate)
    return DWA(chosen, temperature=settings.temperature, per_epoch=per_epoch)


class Adaptive(ABC):
    """Factors of some losses.

    An update calls `total` for each of its batches, and `settle` after the gradients are there.
    """

    def __init__(self, terms: Sequence[str]) -> None:
        self.terms = tuple(terms)
        self._seen: list[Tensor] = []

    @abstractmethod
    def factors(self) -> Tensor:
        """Return the factors ``[K]`` of the losses, without gradients."""

    def total(
        self,
        losses: Mapping[str, Tensor],  # weighted losses by name
        shared: Tensor,  # parameter that all of them depend on: the last shared layer
    ) -> Tensor:
        """Return the sum of all losses, those of `terms` with their factors."""
        values = torch.stack([losses[name] for name in self.terms])
        self._seen.append(values.detach())
        self.look(values, shared)
        rest = [value for name, value in losses.items() if name not in self.terms]
        return torch.stack([*rest, self.combined(values)]).sum()

    def combined(self, values: Tensor) -> Tensor:
        """Return the sum of ``[K]`` losses with their factors."""
        return (self.factors().to(values) * values).sum()

    def look(self, values: Tensor, shared: Tensor) -> None:
        """Measure what the method needs in the graph of the losses; by default nothing."""
        return

    def settle(self) -> None:
        """Change the factors by the losses since the last call."""
        seen, self._seen = self._seen, []
        values = torch.stack(seen).mean(0)
        if bool(values.isfinite().all()):
            self.update(values)

    @abstractmethod
    def update(self, values: Tensor) -> None:
        """Change the factors; `values` ``[K]`` are the losses of the update."""

    @abstractmethod
    def state(self) -> State:
        """Return what a checkpoint holds."""

    @abstractmethod
    def load_state(self, state: State) -> None:
        """Put it back."""

    def metrics(self) -> dict[str, float]:
        """Return the factor of each loss."""
        pairs = zip(self.terms, self.factors().tolist(), strict=True)
        return {f"adaptive_loss/{name}/weight": factor for name, factor in pairs}


class _Learned(Adaptive):
    """Factors by a learned number for each loss, with an Adam of its own."""

    def __init__(self, terms: Sequence[str], start: float, rate: float) -> None:
        super().__init__(terms)
        self.numbers = nn.Parameter(torch.full((len(self.terms),), start))
        self._optimizer = torch.optim.Adam([self.numbers], lr=rate)

    def state(self) -> State:
        """Return the numbers and both moments."""
        moments = self._optimizer.state.get(self.numbers, {})
        return State({"numbers": self.numbers.detach(), **moments})

    def load_state(self, state: State) -> None:
        """Put them back."""
        with torch.no_grad():
            self.numbers.copy_(state.tensors["numbers"])
        if moments := {name: value.clone() for name, value in state.tensors.items() if name != "numbers"}:
            self._optimizer.state[self.numbers] = moments


class GradNorm(_Learned):
    """Chen et al., "GradNorm" (ICML 2018): gradients of all losses at the shared layer become alike.

    The norm of each is moved towards their mean times the relative inverse training rate to the power `alpha`: a loss
    that has fallen less than the others gets a larger gradient. The factors add up to their number.
    """

    def __init__(self, terms: Sequence[str], *, alpha: float, rate: float) -> None:
        super().__init__(terms, 1.0, rate)
        self._alpha = alpha
        self._first: Tensor | None = None
        self._norms: list[Tensor] = []

    def factors(self) -> Tensor:
        """Return the factors."""
        return self.numbers.detach()

    def look(self, values: Tensor, shared: Tensor) -> None:
        """Measure the gradient of each loss at the shared layer."""
        norms = []
        for value in values:
            (gradient,) = torch.autograd.grad(value, shared, retain_graph=True, allow_unused=True)
            norms.append(values.new_zeros(()) if gradient is None else gradient.norm())
        self._norms.append(torch.stack(norms).detach().cpu())

    def update(self, values: Tensor) -> None:
        """Move each factor one step towards its aim."""
        values, norms = values.cpu(), torch.stack(self._norms).mean(0)
        self._norms = []
        if self._first is None:
            self._first = values.clamp_min(1e-12)
        trained = values / self._first
        slow = (trained / trained.mean().clamp_min(1e-12)) ** self._alpha
        scaled = self.factors() * norms
        # The gradient of sum |w_i n_i - aim_i| in w_i, with constant aims.
        self.numbers.grad = torch.sign(scaled - scaled.mean() * slow) * norms / norms.mean().clamp_min(1e-12)
        self._optimizer.step()
        with torch.no_grad():
            self.numbers.clamp_(min=_LEAST)
            self.numbers.mul_(len(self.terms) / self.numbers.sum())

    def state(self) -> State:
        """Return the factors, their moments, and the first losses."""
        kept = super().state()
        first = {} if self._first is None else {"first": self._first}
        return State({**kept.tensors, **first})

    def load_state(self, state: State) -> None:
        """Put them back."""
        tensors = dict(state.tensors)
        self._first = tensors.pop("first", None)
        super().load_state(State(tensors))


class Uncertainty(_Learned):
    """Kendall et al., "Multi-Task Learning Using Uncertainty" (CVPR 2018): ``sum exp(-s_i) L_i + s_i``, s learned.

    At rest ``exp(s_i)`` is the loss itself, so that each contributes 1.
    """

    def __init__(self, terms: Sequence[str], *, rate: float) -> None:
        super().__init__(terms, 0.0, rate)

    def factors(self) -> Tensor:
        """Return ``exp(-s)``."""
        return (-self.numbers.detach()).exp()

    def update(self, values: Tensor) -> None:
        """Move s along its own gradient, ``1 - exp(-s_i) L_i``."""
        self.numbers.grad = 1 - self.factors() * values.cpu()
        self._optimizer.step()


class DWA(Adaptive):
    """Liu et al., "End-to-End Multi-Task Learning with Attention" (CVPR 2019): by how fast each loss fell of late.

    ``w_i = K softmax(L_i(t - 1) / L_i(t - 2) / T)`` with the mean losses of the last two epochs; 1 in the first two.
    """

    def __init__(self, terms: Sequence[str], *, temperature: float, per_epoch: int) -> None:
        super().__init__(terms)
        self._temperature, self._per_epoch = temperature, per_epoch
        self._sum, self._count = torch.zeros(len(self.terms)), 0
        self._means = torch.zeros(0, len(self.terms))

    def factors(self) -> Tensor:
        """Return the factors of this epoch."""
        if len(self._means) < 2:
            return torch.ones(len(self.terms))
        fell = self._means[-1] / self._means[-2].clamp_min(1e-12)
        return len(self.terms) * (fell / self._temperature).softmax(0)

    def update(self, values: Tensor) -> None:
        """Add to the means of this epoch."""
        self._sum, self._count = self._sum + values.cpu(), self._count + 1
        if self._count == self._per_epoch:
            self._means = torch.cat([self._means, (self._sum / self._count)[None]])[-2:]
            self._sum, self._count = torch.zeros_like(self._sum), 0

    def state(self) -> State:
        """Return the means of the last epochs and the sums of this one."""
        return State({"sum": self._sum, "means": self._means}, {"count": self._count})

    def load_state(self, state: State) -> None:
        """Put them back."""
        self._sum, self._means = state.tensors["sum"].clone(), state.tensors["means"].clone()
        self._count = int(state.values["count"])


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


def _part(batch: WindowBatch, frames: int, generator: torch.Generator) -> tuple[Tensor, WindowBatch]:
    """Draw a start in each window for `frames` frames, at most all; return starts and the windows from there."""
    frames = min(frames, batch.truth.frames)
    latest = (batch.valid.clamp_max(batch.future) - frames).clamp_min(0)
    drawn = torch.rand(len(latest), generator=generator).to(latest.device)
    start = (drawn * (latest + 1)).long().clamp_max(batch.truth.frames - frames)
    return start, batch.later(start, frames)


def _total(parts: Mapping[str, Tensor], values: Values) -> Tensor:
    return torch.stack([values.weights[name] * value for name, value in parts.items()]).sum()


def _logged(parts: Mapping[str, Tensor]) -> dict[str, float]:
    return {f"loss/{name}": float(value.detach()) for name, value in parts.items() if name in GROUPS}
