"""What an objective asks of the dataset's clips: the reward that counts at most, and the supervised loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from motionkit.contracts.dataset import TextClip
from motionkit.contracts.policy import DiffusionPolicy
from motionkit.rl import length_mask
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.mdm.settings import MdmTrainSettings
from motionkit.text_to_motion.mdm.train import MdmBatches, diffusion_loss, joint_velocity_loss, velocity_loss
from motionkit.text_to_motion.rewards.mix import RewardMix, Scored
from motionkit.training.world import World, share_of, sum_over

_RECIPE = MdmTrainSettings()  # weights of the supervised loss


class RealClips:
    """The reference clips that training prompts are compared with; each prompt's is scored once.

    Args:
        real: Reference clips of the prompts' split.
        rewards: What they are scored by.
        policy: The policy, whose device is used.
        world: The processes that train together.
    """

    def __init__(self, real: RealMotions, rewards: RewardMix, policy: DiffusionPolicy, world: World) -> None:
        self._real, self._rewards, self._policy, self._world = real, rewards, policy, world
        self._scores: dict[str, dict[str, float]] = {}  # weighted score by the name of the reward, by prompt

    def ceilings(self, prompts: Sequence[Prompt], scored: Scored) -> Tensor:
        """Return the reward up to which each sample counts, ``[N]``.

        It is that of the prompt's reference clip, but at least the mean of these over the update: some clips are bad
        examples of their caption. Where no clip is known it is the mean, and infinity if none of the update is.

        Args:
            prompts: Prompts of this process's N samples.
            scored: Scores of the samples; the ceiling is of the same rewards.
        """
        self._read({prompt.key: prompt for prompt in prompts if prompt.key not in self._scores})
        names = {term.name for term in scored.terms}
        values = [sum(self._scores[prompt.key].get(name, torch.nan) for name in names) for prompt in prompts]
        own = torch.tensor(values, device=scored.total.device, dtype=scored.total.dtype)
        known = own.isfinite()
        sums = sum_over({"sum": float(own[known].sum()), "count": float(known.sum())}, self._world)
        mean = sums["sum"] / sums["count"] if sums["count"] else torch.inf
        return torch.where(known, own, mean).clamp(min=mean)

    @torch.no_grad()
    def _read(self, new: Mapping[str, Prompt]) -> None:
        self._scores |= {key: {} for key in new}
        prompts = list(new.values())
        answers = self._real.answers(prompts, device=self._policy.normalizer.mean.device) if prompts else None
        if answers is None:
            return
        for term in self._rewards.score(answers.motions, answers.prompts).terms:
            totals = torch.where(term.scores.applying, term.weight * term.scores.total, torch.nan).tolist()
            for place, value in zip(answers.places, totals, strict=True):
                known = self._scores[prompts[place].key]
                known[term.name] = known.get(term.name, 0.0) + value


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
        joints = joint_velocity_loss(
            predicted, x0, mask, normalizer=policy.normalizer, skeleton=policy.skeleton, fps=policy.fps
        )
        losses = (
            diffusion_loss(predicted, x0, mask)
            + _RECIPE.velocity * velocity_loss(predicted, x0, mask)
            + _RECIPE.joint_velocity * joints
        )
        weight = policy.schedule.snr.clamp(1.0, _RECIPE.max_weight)[timestep].to(losses)
        return (weight * losses).mean()
