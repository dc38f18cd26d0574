"""Motions of a policy for a list of prompts, the same whatever the batch size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion import MotionBatch
from motionkit.policies.base import BlockwisePolicy, Condition, DiffusionPolicy
from motionkit.rl import NoiseSource, Predict, Rollout, StepNoise, StepPlan, length_mask, rollout, stable_hash
from motionkit.text import Prompt

Walk = Callable[[Predict, Tensor, StepNoise], Rollout]
"""``walk(predict, x_start [N, T, D], noise)`` goes from noise to motion."""


@dataclass(frozen=True, eq=False)
class Samples:
    """N = P x S motions, prompt after prompt.

    Attributes:
        prompts: Prompt of each sample.
        condition: Encoded prompts, N rows.
        lengths: ``[N]`` int64.
        groups: ``[N]`` int64; the number of the prompt within the batch, so that equal texts stay apart.
        mask: ``[N, T]`` bool, True = valid.
        motions: The finished motions, unnormalised.
        rollout: Final states, and the visited ones where they were recorded.
    """

    prompts: list[Prompt]
    condition: Condition
    lengths: Tensor
    groups: Tensor
    mask: Tensor
    motions: MotionBatch
    rollout: Rollout


def sample(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    plan: StepPlan,
    noise: NoiseSource,
    *,
    samples: int = 1,
    guidance: float = 1.0,
    step: int = 0,
    walk: Walk | None = None,
) -> Samples:
    """Sample every prompt `samples` times in one batch; the caller says ``torch.no_grad()`` where no graph is wanted.

    Args:
        policy: What is sampled.
        prompts: P prompts.
        plan: Reverse steps; one without noise is the deterministic sampler.
        noise: Where noise comes from; keyed by prompt key, sample number and `step`.
        samples: S, motions per prompt.
        guidance: Classifier-free guidance scale.
        step: Part of the noise key; 0 everywhere outside training.
        walk: How an algorithm goes through the steps, and what it keeps of them; None keeps nothing.

    Raises:
        MotionkitError: `walk` with a policy that makes a motion block by block.
    """
    device = policy.normalizer.mean.device
    groups = torch.arange(len(prompts), device=device).repeat_interleave(samples)
    numbers = torch.arange(samples, device=device).repeat(len(prompts))
    keys = torch.tensor([stable_hash(prompt.key) for prompt in prompts], device=device)[groups]
    lengths = torch.tensor([prompt.length for prompt in prompts], device=device)[groups]
    condition = policy.condition(prompts).select(groups)
    frames = policy.frames(lengths)
    if walk is not None:
        refuse_blocks(policy)
    go = walk or (lambda predict, start, draw: rollout(predict, plan, start, draw, record=False))

    def made(condition: Condition, keys: Tensor, frames: int, lengths: Tensor) -> Rollout:
        shape = (frames, policy.normalizer.mean.shape[-1])
        return go(
            lambda x, t: policy.predict(x, t, condition, lengths, guidance=guidance),
            noise.start(step, keys, numbers, shape),
            noise.steps(step, keys, numbers, shape, lengths),
        )

    if isinstance(policy, BlockwisePolicy):
        size, blocks, current = policy.block, [], condition
        for number in range(frames // size):
            # Each block has noise of its own, so that a longer motion begins like a shorter one.
            blocks.append(made(current, keys + number, size, torch.full_like(lengths, size)).x0)
            current = policy.continued(current, blocks[-1])
        frames = int(lengths.max())  # the last block is cut
        done = Rollout(torch.cat(blocks, dim=1)[:, :frames], None)
    else:
        done = made(condition, keys, frames, lengths)
    return Samples(
        prompts=[prompt for prompt in prompts for _ in range(samples)],
        condition=condition,
        lengths=lengths,
        groups=groups,
        mask=length_mask(lengths, frames),
        motions=MotionBatch(policy.normalizer.denormalize(done.x0), lengths, skeleton=policy.skeleton, fps=policy.fps),
        rollout=done,
    )


def refuse_blocks(policy: DiffusionPolicy) -> None:
    """Refuse to train a policy that makes a motion block by block.

    Raises:
        MotionkitError: It does.
    """
    if isinstance(policy, BlockwisePolicy):
        raise MotionkitError(
            f"the policy is DiP, which makes a motion in blocks of {policy.block} frames; motionkit does not train it.",
            why="an update learns from one chain of reverse steps per motion, and here every block has one.",
            fix="train one without context_len, such as humanml_trans_dec_512_bert; DiP is for generate and eval.",
        )


def segment_bounds(prompts: Sequence[Prompt], device: torch.device) -> Tensor:
    """Return ``[N, K, 2]`` int64 frame ranges of the segments, padded with (0, 0) where a prompt has fewer."""
    most = max(len(prompt.segments) for prompt in prompts)
    rows = [[*prompt.bounds, *[(0, 0)] * (most - len(prompt.segments))] for prompt in prompts]
    return torch.tensor(rows, dtype=torch.int64, device=device)
