"""The supervised loss on the clips of a dataset, which keeps what a reward does not see."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from motionkit.contracts.dataset import TextClip
from motionkit.rl import length_mask
from motionkit.text_to_motion.mdm.losses import clip_losses, weighted_loss
from motionkit.text_to_motion.mdm.settings import MdmTrainSettings
from motionkit.text_to_motion.mdm.train import MdmBatches
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.training.world import World, share_of

_RECIPE = MdmTrainSettings()  # weights of the supervised loss


class Denoising:
    """The supervised loss of `motionkit pretrain mdm` on clips of a dataset, text never dropped.

    Args:
        clips: Training clips.
        policy: The policy.
        batch: Clips of an update, of all processes; the processes share them equally.
        seed: Seed of order, captions, crops, timesteps and noise.
        crop: Whether clips longer than the policy's motions are cropped at random.
        world: The processes that train together.
    """

    def __init__(
        self, clips: Sequence[TextClip], policy: DiffusionPolicy, *, batch: int, seed: int, crop: bool, world: World
    ) -> None:
        self.policy, self.world = policy, world
        self._batches = MdmBatches(
            clips,
            policy.normalizer.to("cpu"),
            batch_size=batch,
            steps=len(policy.schedule),
            max_length=policy.max_length,
            seed=seed,
            random_crop=crop,
        )
        self._weight = policy.schedule.snr.clamp(1.0, _RECIPE.max_weight)
        self._share = share_of(batch, world, what="clips", flag="--batch-size")

    def loss(self, number: int) -> Tensor:
        """Return the loss of one batch of clips; `number` is that of the update."""
        policy = self.policy
        device = policy.normalizer.mean.device
        batch = self._batches(number + 1).rows(self._share)
        x0, lengths, timestep = batch.x0.to(device), batch.lengths.to(device), batch.timestep.to(device)
        mask = length_mask(lengths, x0.shape[1])
        noised = policy.schedule.noised(x0, timestep, batch.noise.to(device))
        predicted = policy.predict(noised, timestep, policy.condition(batch.prompts), lengths)
        losses = clip_losses(predicted, x0, mask, policy, joint_velocity=bool(_RECIPE.joint_velocity))
        return weighted_loss(losses, self._weight[batch.timestep], _RECIPE)
