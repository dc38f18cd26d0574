"""An update of the motion predictor."""

from __future__ import annotations

from motionkit.training.learner import Learner, cosine_rate
from motionkit.training.world import OneProcess, World, sum_over
from motionkit_predictor.data.clips import ClipSet
from motionkit_predictor.evaluation.measure import Body
from motionkit_predictor.policy import MplPredictor
from motionkit_predictor.training.batches import Augmentation, WindowBatches
from motionkit_predictor.training.objective import Objective
from motionkit_predictor.training.schedule import values_at
from motionkit_predictor.training.settings import TrainMplSettings


class MplTraining:
    """A motion predictor with its losses and its learner; `step` does one update.

    Args:
        settings: Sizes, weights and schedules; `run.epochs` and `run.num_steps` are those of the whole run.
        predictor: What is trained, in place; an encoder of its own stays as it is.
        clips: Their skeleton and rate.
        batches: The windows of each update.
        world: The processes that train together; each takes whole batches.
    """

    def __init__(
        self,
        settings: TrainMplSettings,
        predictor: MplPredictor,
        clips: ClipSet,
        batches: WindowBatches,
        *,
        world: World | None = None,
    ) -> None:
        self.settings, self.predictor, self.batches, self.world = settings, predictor, batches, world or OneProcess()
        network, changes = predictor.network, settings.augmentation
        self.augment = Augmentation(
            clips.names, fps=clips.fps, conditioned=settings.conditioned, mirror=changes.mirror,
            speeds=changes.speed_scale_range, bend=changes.bend, yaw=changes.yaw,
        )  # fmt: skip
        self.objective = Objective(settings, Body.of(clips.names, clips.parents, clips.fps), network, batches)
        self.learner = Learner(
            predictor, settings.optim, self.rate, ema=settings.train.ema, world=self.world, frozen=network.encoder
        )

    def rate(self, update: int) -> float:
        """Return the learning rate of an update, from 0: warm-up and cosine, times what a stage sets."""
        settings, optim = self.settings, self.settings.optim
        total, final = settings.run.num_steps, settings.train.final_rate
        base = cosine_rate(optim.learning_rate, optim.warmup_steps, total, final)
        return base(update) * values_at(settings, update / self.batches.per_epoch).rate

    def step(self, step: int) -> dict[str, float]:
        """Do update number `step`, from 1; return metrics, defined in `motionkit.tracking`."""
        network, objective, learner = self.predictor.network, self.objective, self.learner
        network.train()
        draws = self.batches.generator("augmentation", step)
        # Updates of the one-shot head alone come before the update of both
        alone = self.settings.train.shot_batches - 1 if network.shot else 0
        for number in range(alone):
            # The heads share no parameter: those of the delta head have no gradient here, and stay as they are.
            learner.zero_grad()
            drawn = self.augment(self.batches.drawn(draws), draws)
            objective.backward_shot(drawn, step, number, share=1 / self.world.size)  # the same in all processes
            learner.descend(step - 1, average=False)
        learner.zero_grad()
        batches = self.batches(step)
        total: dict[str, float] = {}
        for number, batch in enumerate(batches):
            shots = self.augment(self.batches.drawn(draws), draws) if network.shot else None
            changed = self.augment(batch, draws)
            if number % self.world.size != self.world.rank:  # another process's batch; only its draws are made here
                continue
            metrics = objective.backward(changed, step, number, shots=shots, share=1 / len(batches))
            total = {name: total.get(name, 0.0) + value / len(batches) for name, value in metrics.items()}
        return sum_over(total, self.world) | objective.settle() | learner.descend(step - 1)
