"""What a text-to-motion diffusion policy is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor, nn

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord, MotionBatch, Normalizer, Representation
from motionkit.nn import add_adapters
from motionkit.page.wording import joined
from motionkit.rl import Schedule, StepNoise, StepPlan, rollout
from motionkit.text import KnownTexts, Prompt

GUIDANCE = 2.5  # default guidance scale, that of released MDM checkpoints


class Condition(Protocol):
    """Encoded prompts, one row each; only the policy that made it reads its content."""

    def __len__(self) -> int: ...

    def select(self, index: Tensor) -> Self:
        """Return the rows `index` (``[N]`` int64), repeats allowed."""
        ...


class Measures(Protocol):
    """What a policy has measured of its motions, beside physics: rows of `grpo`'s tables, and of eval without clips.

    Each is defined as ``heldout/NAME``, `short`, by ``Component(metrics=...)`` of the policy.
    """

    def parts(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> Mapping[str, Tensor]:
        """Return what `figures` reads of N motions and their prompts, ``[N, ...]`` by name."""
        ...

    def figures(self, parts: Mapping[str, Tensor], prompts: Sequence[Prompt]) -> Mapping[str, Tensor | str]:
        """Return figures by NAME.

        Args:
            parts: Those of N motions, one of each prompt.
            prompts: N prompts.

        Returns:
            ``[N]`` values of the motions, NaN where one has none; ``[]``, a value of the set; or why there is none.
        """
        ...


class DiffusionPolicy(Protocol):
    """A text-to-motion diffusion model that predicts x0 in normalised feature space; ``Component(gives="diffusion")``.

    Only its abstract methods and the attributes without a value need be there. A class that derives from
    `motionkit.text_to_motion.generating.TextToMotionPolicy` has ``generate`` as well.

    The options of its plugin may have ``checkpoint``, and also ``reference``, a second checkpoint: ``grpo`` then opens
    both and measures the KL between them. A class attribute ``gpu`` of the options replaces sizes of ``--preset gpu``,
    such as ``{"rollout.micro_batch": 16}``.

    Attributes:
        network: The trainable module, always in eval mode (no dropout, no condition dropout).
        schedule: The noise schedule it was trained with.
        normalizer: Statistics of its feature space.
        skeleton: What its features are: `motionkit.motion.HUMANML`, or a representation of its own.
        fps: Frames per second.
        max_length: Longest motion in frames.
        autocast: Type of the network's body under mixed precision, None for float32; its head stays float32.
        guidance: Guidance scale for sampling that is stored with it; None if there is none.
        sampling_steps: Number of steps for sampling that is stored with it; None takes all that it was trained with.
        spacing: How its own number of steps is spaced, see `motionkit.rl.Schedule.visited`.
        sampler: Its usual sampler: ``ddpm``, ancestral, or ``ddim``, deterministic.
        padding: ``exact`` if the frames past a motion's length change nothing, ``full`` if they are attended to.
        joins: Whether predictions of overlapping blocks may be averaged, for motions longer than `max_length`. They
            may not where features hold places in the world: the path would tear.
        block: Frames of a block, for a policy that samples a motion block by block (DiP): `predict` is called with
            whole blocks. 0 for all others.
        extras: What it reads of `motionkit.text.Prompt.extras`; prompts with others are refused.
        measures: What it has measured of its motions, if anything.
        lora: What `adapt` was called with; None without adapters.
        trained_on: Dataset it was trained on, if known.
    """

    network: nn.Module
    schedule: Schedule
    normalizer: Normalizer
    skeleton: Representation
    fps: float
    max_length: int
    autocast: torch.dtype | None
    guidance: float | None = None
    sampling_steps: int | None = None
    spacing: Literal["early", "even"] = "early"
    sampler: Literal["ddpm", "ddim"] = "ddpm"
    joins: bool = True
    padding: Literal["exact", "full"] = "exact"
    block: int = 0
    extras: tuple[str, ...] = ()
    measures: Measures | None = None
    lora: Mapping[str, Any] | None = None
    trained_on: DataRecord | None = None

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return next(self.network.parameters()).device

    def frames(self, lengths: Tensor) -> int:
        """Return the padded number of frames T for sampling motions of `lengths` (``[N]``): their maximum."""
        return int(lengths.max())

    @abstractmethod
    def condition(self, prompts: Sequence[Prompt]) -> Condition:
        """Encode prompts; each distinct text is encoded once and cached for the life of the policy."""
        ...

    @abstractmethod
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

    def denoise(
        self,
        x: Tensor,
        plan: StepPlan,
        condition: Condition,
        lengths: Tensor,
        *,
        guidance: float = 1.0,
        noise: StepNoise | None = None,
    ) -> Tensor:
        """Take all steps of a plan: at each ask `predict`, then ``x <- c_x0 x0 + c_xt x + sigma eps``.

        A policy may override it with a faster way to the same result, up to rounding.

        Args:
            x: ``[N, T, D]`` standard normal start; no gradient goes to it.
            plan: Reverse steps.
            condition: N rows.
            lengths: ``[N]`` int64 on x's device.
            guidance: As of `predict`.
            noise: ``noise(timestep) -> [N, T, D]``, for a plan that adds noise.

        Returns:
            ``[N, T, D]`` float32 motions, with a graph through all steps unless gradients are off.
        """

        def predict(x: Tensor, timestep: Tensor) -> Tensor:
            return self.predict(x, timestep, condition, lengths, guidance=guidance)

        return rollout(predict, plan, x, noise or _no_noise, record=False).x0

    def adapt(
        self, *, r: int, alpha: float, dropout: float = 0.0, targets: Sequence[str] = ("attn", "ffn"), seed: int = 0
    ) -> None:
        """Add low-rank adapters, which change nothing until they are trained, and freeze all other weights.

        By `motionkit.nn.add_adapters`, which says what the arguments are.
        """
        add_adapters(self.network, r=r, alpha=alpha, dropout=dropout, targets=targets, seed=seed)
        self.lora = {"r": r, "alpha": alpha, "dropout": dropout, "targets": list(targets)}

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint by name, with adapters separate."""
        return dict(self.network.state_dict())

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the values that `tensors` returned, in place; strict."""
        weights.load_strict(self.network, tensors, "the checkpoint")

    @abstractmethod
    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write the policy as a folder; without `tensors` only its description, for a run folder."""
        ...

    def to(self, device: torch.device | str) -> Self:
        """Move network and statistics to a device."""
        self.network.to(device)
        self.normalizer = self.normalizer.to(device)
        return self

    @property
    def inputs(self) -> Mapping[str, str] | None:
        """Fingerprints of its files by the option that names them; None if they are not known."""
        return None

    def continued(self, condition: Any, x0: Tensor) -> Any:
        """Return the condition of the block after `x0` (``[N, block, D]``, normalised)."""
        return condition

    def spare(self, length: int) -> int:
        """Return how many frames more than `length` to sample, which are cut off afterwards; 0 for sound lengths."""
        return 0

    def known_texts(self) -> KnownTexts | None:
        """Return the texts that it was trained on; None if they are not known."""
        return None

    def read_as(self, captions: Mapping[str, str]) -> None:
        """From now on read a text (key) as a known one; what was given before is forgotten."""
        return


def _no_noise(timestep: int) -> Tensor:
    raise ValueError(f"the plan adds noise at timestep {timestep}, and none was given.")


def refuse_extras(policy: DiffusionPolicy, prompts: Sequence[Prompt]) -> None:
    """Refuse prompts that ask for what the policy does not read."""
    for prompt in prompts:
        if unread := [name for name in prompt.extras if name not in policy.extras]:
            raise MotionkitError(
                f"{prompt.text!r} asks for {joined(unread)} too, which the policy does not read.",
                why=f"it reads {joined(policy.extras) if policy.extras else 'the text alone'}.",
                fix="leave that out of the prompts, or choose a policy that reads it.",
            )


def guidance_of(policy: DiffusionPolicy) -> float:
    """Return the guidance scale of a policy, else `GUIDANCE`."""
    return GUIDANCE if policy.guidance is None else policy.guidance


def stores_guidance(policy: DiffusionPolicy) -> bool:
    """Whether a policy has a guidance scale of its own, which is saved with it."""
    return "guidance" in vars(policy)
