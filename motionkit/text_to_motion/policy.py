"""What a text-to-motion diffusion policy is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from motionkit.motion import Normalizer, Skeleton
from motionkit.rl import Schedule
from motionkit.text import Prompt

GUIDANCE = 2.5  # default guidance scale, that of released MDM checkpoints


class Condition(Protocol):
    """Encoded prompts, one row each; only the policy that made it reads its content."""

    def __len__(self) -> int: ...

    def select(self, index: Tensor) -> Self:
        """Return the rows `index` (``[N]`` int64), repeats allowed."""
        ...


@runtime_checkable
class StoresGuidance(Protocol):
    """A policy that stores its guidance scale for sampling.

    Attributes:
        guidance: The scale; None if it has none.
    """

    guidance: float | None


def guidance_of(policy: object) -> float:
    """Return the guidance scale of a policy, else `GUIDANCE`."""
    stored = policy.guidance if isinstance(policy, StoresGuidance) else None
    return GUIDANCE if stored is None else stored


@runtime_checkable
class StoresSteps(Protocol):
    """A policy that stores its number of sampling steps.

    Attributes:
        sampling_steps: Steps, spaced as by `motionkit.rl.Schedule.early`; None takes all that it was trained with.
    """

    sampling_steps: int | None


class DiffusionPolicy(Protocol):
    """A text-to-motion diffusion model that predicts x0 in normalised feature space; ``Component(gives="diffusion")``.

    A class that derives from `motionkit.text_to_motion.generating.TextToMotionPolicy` has ``generate`` as well.

    The options of its plugin may have ``checkpoint``, and also ``reference``, a second checkpoint: ``grpo`` then opens
    both and measures the KL between them.

    Attributes:
        network: The trainable module, always in eval mode (no dropout, no condition dropout).
        schedule: The noise schedule it was trained with.
        normalizer: Statistics of its feature space.
        skeleton: Body of its features.
        fps: Frames per second.
        max_length: Longest motion in frames.
        autocast: Type of the network's body under mixed precision, None for float32; its head stays float32.
    """

    network: nn.Module
    schedule: Schedule
    normalizer: Normalizer
    skeleton: Skeleton
    fps: float
    max_length: int
    autocast: torch.dtype | None

    def frames(self, lengths: Tensor) -> int:
        """Return the padded number of frames T for sampling motions of `lengths` (``[N]``)."""
        ...

    def condition(self, prompts: Sequence[Prompt]) -> Condition:
        """Encode prompts; each distinct text is encoded once and cached for the life of the policy."""
        ...

    def predict(
        self, x: Tensor, timestep: Tensor, condition: Condition, lengths: Tensor, *, guidance: float = 1.0
    ) -> Tensor:
        """Predict x0 for noisy motions.

        Args:
            x: ``[N, T, D]`` float32, normalised; padding may hold anything.
            timestep: ``[N]`` int64 indices into `schedule`.
            condition: N rows.
            lengths: ``[N]`` int64 on x's device.
            guidance: Classifier-free guidance scale; conditional and unconditional pass share one batch unless 1.

        Returns:
            ``[N, T, D]`` float32.
        """
        ...

    def adapt(self, *, r: int, alpha: float, dropout: float, targets: Sequence[str], seed: int) -> None:
        """Add low-rank adapters, which change nothing until they are trained, and freeze all other weights."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint by name."""
        ...

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the values that `tensors` returned, in place; strict."""
        ...

    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write the policy as a folder; without `tensors` only its description, for a run folder."""
        ...

    def to(self, device: torch.device | str) -> Self:
        """Move network and statistics to a device."""
        ...


@runtime_checkable
class BlockwisePolicy(Protocol):
    """A diffusion policy that samples a motion block by block (DiP).

    `motionkit.text_to_motion.generating.sample` then calls ``predict`` with whole blocks.

    Attributes:
        block: Frames of a block.
    """

    block: int

    def continued(self, condition: Any, x0: Tensor) -> Any:
        """Return the condition of the block after `x0` (``[N, block, D]``, normalised)."""
        ...


@runtime_checkable
class NeedsSpare(Protocol):
    """What a diffusion policy has besides whose network makes the last frames of some lengths badly."""

    def spare(self, length: int) -> int:
        """Return how many frames more than `length` to sample, which are cut off afterwards; 0 for sound lengths."""
        ...
