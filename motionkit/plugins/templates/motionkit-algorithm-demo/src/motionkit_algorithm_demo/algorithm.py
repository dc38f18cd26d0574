"""Algorithm 'demo': the heavy half."""

from __future__ import annotations

from collections.abc import Mapping

from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.credit import assign_credit, frame_weights
from motionkit.text_to_motion.grpo.algorithms.matching import Matching, MatchingUpdate, mean_frames
from motionkit.text_to_motion.rewards.mix import Scored
from torch import Tensor

from motionkit_algorithm_demo import Objective


class DemoAlgorithm(Matching):
    """An example to replace: samples are noised and predicted again, weighted by their advantage within `most`.

    `Matching` samples, holds the policy to its reference, and takes the passes; `update` says what is minimised.
    """

    settings: Objective

    def update(self, batch: Samples, scored: Scored, number: int) -> MatchingUpdate:
        """Turn the rewards of N samples into the loss of one update."""
        credit = assign_credit(scored, batch, self.settings, number, world=self.world, shuffle_seed=self.shuffle_seed)
        most = self.settings.most
        weights = frame_weights(credit.values, credit.bounds, batch.mask).clamp(-most, most)  # [N, T]
        noised = self.noised(batch, number)

        def losses(sample: Tensor, draw: Tensor) -> Mapping[str, Tensor]:
            """Return [M] values by metric, of rows of the batch and the numbers of their draws, both [M]."""
            states = noised.at(sample, draw)
            errors, valid = noised.errors(noised.predict(states), states), batch.mask[sample]  # [M, T]
            scale = mean_frames(errors.detach(), valid).clamp(min=1e-8)
            return {"loss/policy": mean_frames(weights[sample] * errors, valid) / scale}

        count = len(batch.lengths)
        total = count * self.world.size  # samples of all processes
        return MatchingUpdate(self, batch, number, losses, units=count, total=total, metrics=credit.metrics)
