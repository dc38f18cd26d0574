"""An update of a success classifier: its loss, and the class that descends it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from motionkit.training.device import autocast
from motionkit.training.learner import Learner, cosine_rate
from motionkit.training.settings import OptimSettings
from motionkit.training.world import OneProcess, World, share_of, sum_over
from motionkit_success.classifier import SuccessClassifier
from motionkit_success.train_data import Seen
from motionkit_success.train_settings import RewardTrainSettings


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the binary cross-entropy of logits, the mean over frames; in float32."""
    # Labels are stored as floats; above a half is a success
    return F.binary_cross_entropy_with_logits(logits.float(), (labels > 0.5).to(torch.float32))


class ClassifierTraining:
    """A success classifier with its learner; `step` does one update.

    Args:
        classifier: What is trained, in place; not its encoders where its card says that they are frozen.
        labels: ``[F]`` of all frames; above a half is a success.
        batches: Returns the numbers of the frames of a step, counted from 1.
        optim: The optimiser.
        updates: Updates of the whole run, for a cosine learning rate; 0 keeps the rate at its peak.
        final: Last learning rate of the cosine, as a share of the peak.
        precision: ``fp32``, or ``bf16`` for the network's body.
        world: The processes that train together; each takes its share of a batch.
    """

    def __init__(
        self,
        classifier: SuccessClassifier,
        labels: Tensor,
        batches: Callable[[int], NDArray[np.int64]],
        *,
        optim: OptimSettings | None = None,
        updates: int = 0,
        final: float = 0.02,
        precision: str = "fp32",
        world: World | None = None,
    ) -> None:
        self.classifier, self.labels, self.batches = classifier, labels, batches
        self.precision, self.world = precision, world or OneProcess()
        optim = optim or RewardTrainSettings.model_fields["optim"].default
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, updates, final)
        frozen = nn.ModuleList(classifier.network.backbones()) if classifier.card.frozen else None
        self.learner = Learner(classifier, optim, rate, world=self.world, frozen=frozen)

    def step(self, seen: Seen, number: int, *, offset: int = 0) -> dict[str, float]:
        """Descend the loss of a batch; return metrics, defined in `motionkit.tracking`.

        Args:
            seen: Gives the logits of frames by their numbers.
            number: Number of the step, from 1.
            offset: Steps before the first one; changes of images follow from their number.
        """
        self.learner.zero_grad()
        self.classifier.network.train()
        # [B] places of frames; of a batch that processes share, this one's
        index = self.batches(number)
        index = index[share_of(len(index), self.world, what="frames", flag="--batch-size")]
        device = self.classifier.device
        with autocast(device, self.precision):
            logits = seen.logits(index, step=offset + number)
        # Of a batch that processes share, each adds its part of the mean.
        loss = loss_of(logits, self.labels[index].to(device)) / self.world.size
        loss.backward()
        moved = self.learner.descend(number - 1)
        return {**sum_over({"loss/total": float(loss.detach())}, self.world), **moved}
