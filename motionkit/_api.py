"""The Python API: what the command line calls, with names instead of flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from motionkit.config import choose_one

if TYPE_CHECKING:
    from motionkit.datasets.base import TextMotionDataset
    from motionkit.policies.base import DiffusionPolicy
    from motionkit.rewards.base import Reward


def load_policy(
    checkpoint: str | Path = "starter",
    *,
    name: str = "mdm",
    dataset: TextMotionDataset | None = None,
    device: str = "cpu",
    **options: Any,
) -> DiffusionPolicy:
    """Load a text-to-motion policy.

    Args:
        checkpoint: ``"starter"``, a run folder, or a checkpoint file of the policy's own format.
        name: Policy plugin.
        dataset: Where the feature statistics come from when the checkpoint has none (released MDM files).
        device: ``cpu``, ``cuda``, ``cuda:1``, ...
        **options: Other options of the plugin (``motionkit plugins show policies mdm`` lists them).

    Raises:
        MotionkitError: An option or the checkpoint is refused.

    Example:
        >>> from motionkit import load_policy
        >>> policy = load_policy("starter")
        >>> policy.fps, policy.skeleton.name
        (20.0, 'humanml')
    """
    policy: DiffusionPolicy = choose_one("policies", name, {"checkpoint": str(checkpoint)} | options).build(
        device=device, dataset=dataset
    )
    return policy


def load_reward(
    name: str = "tmr-dense", *, dataset: TextMotionDataset | None = None, device: str = "cpu", **options: Any
) -> Reward:
    """Load a reward by name, such as ``load_reward("tmr-dense", alpha=0.5)``.

    Args:
        name: Reward plugin.
        dataset: Reference statistics for rewards that need them (physics).
        device: Where to score.
        **options: Options of the plugin.

    Raises:
        MotionkitError: An option or a weight file is refused.

    Example:
        >>> from motionkit import load_reward
        >>> reward = load_reward("tmr-dense", alpha=0.5)
        >>> reward.name
        'tmr-dense'
    """
    reward: Reward = choose_one("rewards", name, options).build(device=device, dataset=dataset)
    return reward


def load_dataset(name: str = "starter", **options: Any) -> TextMotionDataset:
    """Open a text-motion dataset by name, such as ``load_dataset("humanml", root="dataset/HumanML3D")``.

    Raises:
        MotionkitError: An option or the data is refused.

    Example:
        >>> from motionkit import load_dataset
        >>> dataset = load_dataset("starter")
        >>> dataset.prompts("train")[0].segments
        ('the person kicks backward with the right leg.', 'a man waves the left hand.')
    """
    dataset: TextMotionDataset = choose_one("datasets", name, options).build()
    return dataset
