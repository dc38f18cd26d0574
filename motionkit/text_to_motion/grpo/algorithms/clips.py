"""What an objective asks of the dataset's clips: reward, jerk and skate of reference clips, and the supervised loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.contracts.dataset import TextClip
from motionkit.contracts.policy import DiffusionPolicy
from motionkit.kernels import physics_sums
from motionkit.metrics import joint_speed
from motionkit.motion import MotionBatch
from motionkit.rl import length_mask
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.mdm.settings import MdmTrainSettings
from motionkit.text_to_motion.mdm.train import MdmBatches, diffusion_loss, joint_velocity_loss, velocity_loss
from motionkit.text_to_motion.rewards.mix import RewardMix, Scored
from motionkit.training.world import World, share_of

_RECIPE = MdmTrainSettings()  # weights of the supervised loss
_JERK_FLOOR = 1e-3  # m/s^3; keeps the logarithm of a still motion finite
_SPEED_FLOOR = 1e-2  # m/s; the same


@dataclass(frozen=True)
class Real:
    """A reference clip of a prompt."""

    scores: dict[str, float]  # weighted score by the name of the reward
    physics: tuple[float, float]  # log of jerk per speed, and skate; minus infinity if they are not known


class RealClips:
    """The reference clips that training prompts are compared with; each prompt's is scored once.

    Args:
        real: Reference clips of the prompts' split.
        rewards: What they are scored by.
        policy: The policy, whose device is used.
    """

    def __init__(self, real: RealMotions, rewards: RewardMix, policy: DiffusionPolicy) -> None:
        self._real, self._rewards = real, rewards
        self._policy = policy
        self._known: dict[str, Real | None] = {}

    def of(self, prompts: Sequence[Prompt]) -> list[Real | None]:
        """Return the reference clip of each prompt; None where the data have none."""
        if new := list({prompt.key: prompt for prompt in prompts if prompt.key not in self._known}.values()):
            self._read(new)
        return [self._known[prompt.key] for prompt in prompts]

    @torch.no_grad()
    def _read(self, prompts: Sequence[Prompt]) -> None:
        self._known |= dict.fromkeys((prompt.key for prompt in prompts), None)
        answers = self._real.answers(prompts, device=self._policy.normalizer.mean.device)
        if answers is None:
            return
        scored = self._rewards.score(answers.motions, answers.prompts)
        rough, skate, finite = jerk_and_skate(answers.motions)
        physics = torch.full((len(finite), 2), -torch.inf)
        physics[finite.cpu()] = torch.stack([rough, skate], dim=1).cpu()
        for row, place in enumerate(answers.places):
            scores: dict[str, float] = {}
            for term in scored.terms:
                if bool(term.scores.applying[row]):
                    value = term.weight * float(term.scores.total[row])
                    scores[term.name] = scores.get(term.name, 0.0) + value
            least = float(physics[row, 0]), float(physics[row, 1])
            self._known[prompts[place].key] = Real(scores, least)

    def ceilings(self, prompts: Sequence[Prompt], scored: Scored) -> Tensor:
        """Return the reward of each prompt's reference clip, ``[N]``; infinity where it is not known.

        Args:
            prompts: N prompts.
            scored: Scores of N samples; the ceiling is the sum of the same rewards.
        """
        names = {term.name for term in scored.terms}
        values = [
            sum(real.scores.get(name, torch.inf) for name in names) if real is not None else torch.inf
            for real in self.of(prompts)
        ]
        result = torch.tensor(values, device=scored.total.device, dtype=scored.total.dtype)
        return torch.where(result.isfinite(), result, torch.inf)


def jerk_and_skate(motions: MotionBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Return log of jerk per speed ``[M]`` and skate in m/s ``[M]`` of finite motions, and which of the N they are.

    The ratio does not change with the size of a motion, like the dimensionless jerk (Hogan and Sternad 2009): the jerk
    alone is lowered most easily by moving less. The speed is that of the joints relative to the root, so that walking
    faster does not lower the ratio.
    """
    joints, lengths, fps = motions.joints, motions.lengths, motions.fps
    skate, jerk = physics_sums(joints, lengths, fps=fps, feet=motions.skeleton.feet)
    known = skate.isfinite() & jerk.isfinite()
    moving = joints[known]
    speed = joint_speed(moving - moving[:, :, :1], lengths[known], fps)
    return (jerk[known] + _JERK_FLOOR).log() - (speed + _SPEED_FLOOR).log(), skate[known], known


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
