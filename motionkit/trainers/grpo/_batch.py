"""The samples of one update: what was asked, what came out, what it earned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.motion import MotionBatch
from motionkit.policies.base import Condition, DiffusionPolicy
from motionkit.rl import NoiseSource, StepPlan, Trajectory, Visited, length_mask, rollout, stable_hash
from motionkit.text import Prompt


@dataclass(frozen=True)
class Batch:
    """N = P x G samples, group after group.

    Attributes:
        prompts: Prompt of each sample.
        condition: Encoded prompts, N rows.
        lengths: ``[N]`` int64.
        groups: ``[N]`` int64; the number of the prompt within the batch, so that equal texts stay apart.
        bounds: ``[N, K, 2]`` frame ranges of the segments, (0, 0) where a sample has fewer.
        mask: ``[N, T]`` bool, True = valid.
        motions: The finished motions, unnormalised.
        trajectory: The scored steps.
        rest: The deterministic steps.
    """

    prompts: list[Prompt]
    condition: Condition
    lengths: Tensor
    groups: Tensor
    bounds: Tensor
    mask: Tensor
    motions: MotionBatch
    trajectory: Trajectory
    rest: Visited


def segment_bounds(prompts: Sequence[Prompt], device: torch.device) -> Tensor:
    """Return ``[N, K, 2]`` int64 frame ranges, padded with (0, 0)."""
    most = max(len(prompt.segments) for prompt in prompts)
    rows = [[*prompt.bounds, *[(0, 0)] * (most - len(prompt.segments))] for prompt in prompts]
    return torch.tensor(rows, dtype=torch.int64, device=device)


def collect(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    plan: StepPlan,
    noise: NoiseSource,
    *,
    group_size: int,
    guidance: float,
    step: int,
) -> Batch:
    """Sample every prompt `group_size` times in one batch, without a graph, keeping the scored steps.

    Args:
        policy: What is sampled, as it is: its network must be in eval mode.
        prompts: P prompts.
        plan: Reverse steps with at least one stochastic one.
        noise: Where noise comes from.
        group_size: G.
        guidance: Classifier-free guidance scale, part of the policy.
        step: Training step, part of the noise key.
    """
    device = policy.normalizer.mean.device
    groups = torch.arange(len(prompts), device=device).repeat_interleave(group_size)
    numbers = torch.arange(group_size, device=device).repeat(len(prompts))
    keys = torch.tensor([stable_hash(prompt.key) for prompt in prompts], device=device)[groups]
    lengths = torch.tensor([prompt.length for prompt in prompts], device=device)[groups]
    condition = policy.condition(prompts).select(groups)
    frames = policy.frames(lengths)
    shape = (frames, policy.normalizer.mean.shape[-1])
    done = rollout(
        lambda x, t: policy.predict(x, t, condition, lengths, guidance=guidance),
        plan,
        noise.start(step, keys, numbers, shape),
        noise.steps(step, keys, numbers, shape),
    )
    if done.trajectory is None or done.rest is None:
        raise AssertionError("rollout was asked to record")
    return Batch(
        prompts=[prompt for prompt in prompts for _ in range(group_size)],
        condition=condition,
        lengths=lengths,
        groups=groups,
        bounds=segment_bounds(prompts, device)[groups],
        mask=length_mask(lengths, frames),
        motions=MotionBatch(policy.normalizer.denormalize(done.x0), lengths, skeleton=policy.skeleton, fps=policy.fps),
        trajectory=done.trajectory,
        rest=done.rest,
    )
