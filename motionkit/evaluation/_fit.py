"""Whether a policy can be asked what a dataset asks."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.datasets.joining import MIN_SEGMENT
from motionkit.errors import MotionkitError
from motionkit.policies.base import DiffusionPolicy
from motionkit.text import Prompt


def require_fit(policy: DiffusionPolicy, prompts: Sequence[Prompt], *, fps: float, label: str) -> None:
    """Refuse prompts that the policy has too few frames for, or that count frames at another rate.

    Args:
        policy: What will be asked.
        prompts: What it will be asked.
        fps: Frames per second of the prompts' lengths.
        label: Name of the dataset, for messages.

    Raises:
        MotionkitError: They do not fit.
    """
    if abs(policy.fps - fps) > 1e-6:
        raise MotionkitError(
            f"{label} has {fps:g} frames per second, the policy {policy.fps:g}.",
            why="a prompt's length in frames would be another time.",
            fix="choose a dataset and a checkpoint of the same rate.",
        )
    longest = max(prompts, key=lambda prompt: prompt.length, default=None)
    if longest is not None and longest.length > policy.max_length:
        raise MotionkitError(
            f"{label} asks for {longest.length} frames ({longest.text!r}), the policy makes at most "
            f"{policy.max_length}.",
            fix=f"use prompts of at most {policy.max_length} frames ({_compose(longest, policy.max_length)}), or a "
            "policy of longer motions.",
        )


def _compose(prompt: Prompt, most: int) -> str:
    """Return how prompts that fit are composed: shorter ones, or of fewer segments where these leave no room."""
    command, fitting = f"motionkit compose --target-length {most}", most // MIN_SEGMENT
    if len(prompt.segments) <= fitting:
        return command
    return f"{command} --k-segments {fitting}: {len(prompt.segments)} segments of {MIN_SEGMENT} frames are longer"
