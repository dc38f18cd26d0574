"""Motions of a policy for a list of prompts, the same whatever the batch size."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motionkit.motion import MotionBatch
from motionkit.policies.base import DiffusionPolicy
from motionkit.rl import NoiseSource, StepPlan, rollout, stable_hash
from motionkit.text import Prompt


def sample_motions(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    plan: StepPlan,
    noise: NoiseSource,
    *,
    samples: int = 1,
    guidance: float = 1.0,
    step: int = 0,
) -> tuple[MotionBatch, list[Prompt]]:
    """Sample every prompt `samples` times in one batch.

    Args:
        policy: What is sampled.
        prompts: P prompts.
        plan: Reverse steps; one without noise is the deterministic sampler.
        noise: Where noise comes from; keyed by prompt key, sample number and `step`.
        samples: Motions per prompt.
        guidance: Classifier-free guidance scale.
        step: Part of the noise key; 0 everywhere outside training.

    Returns:
        ``P * samples`` unnormalised motions, prompt after prompt, and the prompt of each.
    """
    device = policy.normalizer.mean.device
    condition = policy.condition(prompts)
    rows = torch.arange(len(prompts), device=device).repeat_interleave(samples)
    numbers = torch.arange(samples, device=device).repeat(len(prompts))
    keys = torch.tensor([stable_hash(prompt.key) for prompt in prompts], device=device)[rows]
    lengths = torch.tensor([prompt.length for prompt in prompts], device=device)[rows]
    repeated = condition.select(rows)
    shape = (policy.frames(lengths), policy.normalizer.mean.shape[-1])
    result = rollout(
        lambda x, t: policy.predict(x, t, repeated, lengths, guidance=guidance),
        plan,
        noise.start(step, keys, numbers, shape),
        noise.steps(step, keys, numbers, shape),
        record=False,
    )
    motions = MotionBatch(policy.normalizer.denormalize(result.x0), lengths, skeleton=policy.skeleton, fps=policy.fps)
    return motions, [prompt for prompt in prompts for _ in range(samples)]
