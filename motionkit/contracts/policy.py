"""The protocols of policies: diffusion policies, motion predictors and region policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from motionkit.motion import Normalizer, Skeleton
from motionkit.motion.prediction import MotionState
from motionkit.rl import Schedule
from motionkit.text import Prompt

GUIDANCE = 2.5  # default guidance scale, that of released MDM checkpoints
REGION_ARTIFACT = "policy"  # folder of the trained region policy in a run


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


class Predictor(Protocol):
    """A motion predictor; ``Component(gives="predictor")``.

    It gets known frames and predicts the following ones. It never sees later true frames; all that it may know of the
    future is the `command`. In evaluation, frame h of a free run is frame h of one call, and teacher forcing
    asks for one frame after the true ones.

    Attributes:
        names: Joint names of its skeleton.
        fps: Frames per second.
        past: Number of known frames it reads, at least 2.
    """

    names: tuple[str, ...]
    fps: float
    past: int

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow.

        Args:
            known: ``[N, P, ...]`` float64 on the CPU, P at least `past`. A clip with fewer frames is padded in front
                with its first frame.
            frames: Number of frames to predict.
            command: ``[N, F, 3]``, F at least `frames`: the path that the root should follow, as the steps of
                `motionkit.motion.prediction.MotionState`; None for no path.

        Returns:
            ``[N, frames, ...]``, float32 or 64, on the CPU.
        """
        ...


@dataclass(frozen=True, eq=False)
class Captions:
    """Sampled captions of N regions."""

    ids: Tensor  # [N, L] int64 token ids of the policy
    texts: list[str]  # the same as text, without special tokens
    ended: Tensor  # [N] bool, whether the caption ended before the maximum length


@dataclass(frozen=True, eq=False)
class WordScores:
    """A policy's scores of given words."""

    log_prob: Tensor  # [N, L] log-probability of each word, with graph; 0 outside of the mask
    entropy: Tensor  # [N, L] entropy of the distribution each was drawn from; 0 outside of the mask
    # [N, L] bool, True up to and including the end token; False for words that the policy can never say
    mask: Tensor
    # [N, L, K] log-probabilities of all words, if requested; minus infinity for words that are never sampled.
    whole: Tensor | None = None


class SeenRegions(Protocol):
    """A region policy's encoding of N images; only the policy that made it reads its content."""

    def __len__(self) -> int: ...

    def select(self, index: Tensor) -> Self:
        """Return the rows `index` (``[N]`` int64), repeats allowed."""
        ...


@dataclass(frozen=True, eq=False)
class Candidates:
    """Several masks of N prompts."""

    logits: Tensor  # [N, K, h, w] mask logits, with graph; above 0 is inside
    scores: Tensor  # [N, K] logits of the policy's estimate of each mask's quality, with graph


@runtime_checkable
class OffersMasks(Protocol):
    """A region policy whose mask decoder offers several masks of a prompt, as SAM's does."""

    def candidates(self, seen: Any, prompts: Tensor) -> Candidates:
        """Return the masks of prompts ``[N, Z]``."""
        ...


@runtime_checkable
class PlansMemory(Protocol):
    """Options of a region policy that can estimate the memory of a run before it is opened."""

    def memory(self, *, regions: int, group: int, device: str) -> list[str]:
        """Return lines for the user, for a step of `regions` regions with `group` samples each; empty if unknown."""
        ...


@runtime_checkable
class ChecksItself(Protocol):
    """A region policy with additional checks, for ``sa2va-rl --check``."""

    def checks(self) -> Sequence[tuple[str, bool, str]]:
        """Return name, whether it passes, and details of each check."""
        ...


@runtime_checkable
class HasLimits(Protocol):
    """A region policy with a fixed image size and a limited vocabulary."""

    @property
    def sees(self) -> str:
        """The image size in words, such as ``every image squeezed to 48 x 48 pixels``."""
        ...

    def known_words(self, texts: Sequence[str]) -> float:
        """Return the fraction of the words of texts that it knows, from 0 to 1."""
        ...


class RegionPolicy(Protocol):
    """A model that captions regions of images and draws masks of captions; ``Component(gives="regions")``.

    Attributes:
        device: Its device.
        mask_size: ``(height, width)`` of the masks.
        action_size: Width Z of a segmentation prompt, the projected hidden state at the token [SEG].
        longest: Most words of a sampled caption, including the end token.
        groups: Trainable parts: readable name to patterns of parameter names, such as ``mlp1.*`` or
            ``language_model.*lora_*`` (`fnmatch`).
    """

    device: torch.device
    mask_size: tuple[int, int]
    action_size: int
    longest: int
    groups: Mapping[str, tuple[str, ...]]

    @property
    def network(self) -> nn.Module:
        """The module with all weights, in eval mode."""
        ...

    def see(self, images: Sequence[NDArray[np.uint8]]) -> Any:
        """Encode N images ``[H, W, 3]`` with the frozen encoders; returns `SeenRegions`."""
        ...

    def sample_captions(
        self, seen: Any, masks: Tensor, *, temperature: float = 1.0, noise: Tensor | None = None
    ) -> Captions:
        """Caption regions, without a graph.

        Args:
            seen: N images.
            masks: ``[N, h, w]`` bool.
            temperature: Sampling temperature; 0 takes the most likely word.
            noise: ``[N, longest]`` uniform numbers from 0 to 1 that choose the words, so that a caption does not
                depend on the rest of the batch; drawn by default.
        """
        ...

    def score_words(
        self, seen: Any, masks: Tensor, ids: Tensor, *, temperature: float = 1.0, whole: bool = False
    ) -> WordScores:
        """Score captions, from logits divided by the temperature without further processing.

        Args:
            seen: N images.
            masks: ``[N, h, w]`` bool.
            ids: ``[N, L]`` words.
            temperature: The temperature they were sampled with.
            whole: Whether to return the log-probabilities of all words too.
        """
        ...

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Return the token ids ``[N, L]`` of captions, for `score_words`."""
        ...

    def prompts(self, seen: Any, texts: Sequence[str]) -> Tensor:
        """Return the segmentation prompts ``[N, Z]`` of captions, with graph."""
        ...

    def draw(self, seen: Any, prompts: Tensor) -> Tensor:
        """Return mask logits ``[N, h, w]``; above 0 is inside."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return the trainable weights by name."""
        ...

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore these weights; strict."""
        ...

    def save(self, folder: Path, *, tensors: Mapping[str, Tensor] | None) -> None:
        """Write a folder that the option ``checkpoint`` of its plugin opens.

        Args:
            folder: Created if absent; in a run the artifact `REGION_ARTIFACT`.
            tensors: As returned by `tensors`; None for a run whose checkpoints hold them.
        """
        ...
