"""The protocols that policies follow: diffusion policies, and motion predictors."""

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


class Condition(Protocol):
    """Encoded prompts, one row each; only the policy that made it reads its content."""

    def __len__(self) -> int: ...

    def select(self, index: Tensor) -> Self:
        """Return the rows `index` (``[N]`` int64), repeats allowed."""
        ...


GUIDANCE = 2.5  # guidance scale that a policy is sampled with where it stores none, as released MDM checkpoints are


@runtime_checkable
class StoresGuidance(Protocol):
    """A policy that remembers which guidance scale it is meant to be sampled with.

    Attributes:
        guidance: The scale; None if it does not know one.
    """

    guidance: float | None


def guidance_of(policy: object) -> float:
    """Return the guidance scale that ``motionkit generate`` samples a policy with: its own, else `GUIDANCE`."""
    own = policy.guidance if isinstance(policy, StoresGuidance) else None
    return GUIDANCE if own is None else own


@runtime_checkable
class StoresSteps(Protocol):
    """A policy that remembers in how many steps it is meant to be sampled.

    Attributes:
        sampling_steps: Steps, spaced as `motionkit.rl.Schedule.early` does; None takes all that it was trained with.
    """

    sampling_steps: int | None


class DiffusionPolicy(Protocol):
    """A text-to-motion diffusion model that predicts x0 in normalised feature space; ``Component(gives="diffusion")``.

    A class that derives from `motionkit.contracts.generating.TextToMotionPolicy` has ``generate`` as well.

    The options of its plugin may have ``checkpoint``, and beside it ``reference``, a second checkpoint: ``grpo`` then
    opens both and measures the KL between them.

    Attributes:
        network: The trainable module, always in eval mode (no dropout, no condition drop).
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
        """Return the padded number of frames T to sample motions of `lengths` (``[N]``) at."""
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
        """Add low-rank adapters, which change nothing until they are trained, and freeze the rest."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return everything a checkpoint of the policy needs, by name."""
        ...

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` returned, in place; strict."""
        ...

    def save(self, folder: Path, *, tensors: bool = True) -> Path:
        """Write the policy as a folder that opens again; without `tensors` only its description, for a run folder."""
        ...

    def to(self, device: torch.device | str) -> Self:
        """Move network and statistics."""
        ...


@runtime_checkable
class BlockwisePolicy(Protocol):
    """What a diffusion policy that makes a motion block by block (DiP) has besides.

    `motionkit.contracts.generating.sample` then calls ``predict`` with whole blocks.

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

    It is given known frames and returns what follows on its own. It never sees a later frame of the truth: what may
    be known of the future is the `command` alone. So that is how it is evaluated: frame h of a free run is frame h of
    one call; teacher forcing asks for one frame after the true ones.

    Attributes:
        names: Joint names of its skeleton.
        fps: Frames per second.
        past: Known frames it reads, at least 2.
    """

    names: tuple[str, ...]
    fps: float
    past: int

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow.

        Args:
            known: ``[N, P, ...]`` float64 on the CPU, P at least `past`. A clip that begins later stands still in its
                first frame before.
            frames: How many frames to predict.
            command: ``[N, F, 3]``, F at least `frames`: the path that the root is asked to follow, as the steps of
                `motionkit.motion.prediction.MotionState`; None without one.

        Returns:
            ``[N, frames, ...]``, float32 or 64, on the CPU.
        """
        ...


@dataclass(frozen=True, eq=False)
class Captions:
    """Sampled captions of N regions."""

    ids: Tensor  # [N, L] int64 numbers of words; the policy that made them reads them
    texts: list[str]  # the same as text, without special words
    ended: Tensor  # [N] bool: the caption came to its end before the longest length


@dataclass(frozen=True, eq=False)
class WordScores:
    """What a policy says of given words."""

    log_prob: Tensor  # [N, L] log-probability of each word, with graph; 0 behind the end
    entropy: Tensor  # [N, L] entropy of the distribution each was drawn from; 0 behind the end
    mask: Tensor  # [N, L] bool, True for words up to the end, that included
    # [N, L, K] log-probabilities of all words, where they were asked for; minus infinity for words that are never
    # said.
    whole: Tensor | None = None


class SeenRegions(Protocol):
    """What a region policy saw of N images; only the policy that made it reads its content."""

    def __len__(self) -> int: ...

    def select(self, index: Tensor) -> Self:
        """Return the rows `index` (``[N]`` int64), repeats allowed."""
        ...


@dataclass(frozen=True, eq=False)
class Candidates:
    """Several masks of N prompts."""

    logits: Tensor  # [N, K, h, w] mask logits, with graph; above 0 is inside
    scores: Tensor  # [N, K] logits of how good the policy takes each to be, with graph


@runtime_checkable
class OffersMasks(Protocol):
    """A region policy whose mask decoder offers several masks of a prompt, as SAM's does."""

    def candidates(self, seen: Any, prompts: Tensor) -> Candidates:
        """Return the masks of prompts ``[N, Z]``."""
        ...


@runtime_checkable
class PlansMemory(Protocol):
    """Options of a region policy that say before it is opened what a run on it will take."""

    def memory(self, *, regions: int, group: int, device: str) -> list[str]:
        """Return lines for people, for a step of so many regions with so many samples each; empty if unknown."""
        ...


@runtime_checkable
class ChecksItself(Protocol):
    """A region policy with checks of its own, for ``sa2va-rl --check``."""

    def checks(self) -> Sequence[tuple[str, bool, str]]:
        """Return name, whether it holds, and what was found."""
        ...


@runtime_checkable
class HasLimits(Protocol):
    """A region policy that sees images at one size, and reads and says some words only."""

    @property
    def sees(self) -> str:
        """At what size it sees images, in a few words, such as ``every image squeezed to 48 x 48 pixels``."""
        ...

    def known_words(self, texts: Sequence[str]) -> float:
        """Return the share of the words of texts that it knows, from 0 to 1."""
        ...


REGION_ARTIFACT = "policy"  # folder of a run that holds the region policy which was trained


class RegionPolicy(Protocol):
    """A model that captions regions of images and draws masks of captions; ``Component(gives="regions")``.

    Attributes:
        device: Where it computes.
        mask_size: ``(height, width)`` of the masks.
        action_size: Numbers Z of a segmentation prompt, the state at the word [SEG] after its projection.
        longest: Words of the longest caption that is sampled, its end included.
        groups: What may be trained: for people's name of a part, patterns of the names of its parameters, such as
            ``mlp1.*`` or ``language_model.*lora_*`` (`fnmatch`).
    """

    device: torch.device
    mask_size: tuple[int, int]
    action_size: int
    longest: int
    groups: Mapping[str, tuple[str, ...]]

    @property
    def network(self) -> nn.Module:
        """All of its weights, in eval mode."""
        ...

    def see(self, images: Sequence[NDArray[np.uint8]]) -> Any:
        """Look at N images ``[H, W, 3]`` with the encoders that are not trained; returns `SeenRegions`."""
        ...

    def sample_captions(
        self, seen: Any, masks: Tensor, *, temperature: float = 1.0, noise: Tensor | None = None
    ) -> Captions:
        """Caption regions, without a graph.

        Args:
            seen: N images.
            masks: ``[N, h, w]`` bool.
            temperature: Of the sampling; 0 takes the likeliest word.
            noise: ``[N, longest]`` uniform numbers from 0 to 1 that choose the words, so that a caption does not
                depend on those beside it; drawn anew by default.
        """
        ...

    def score_words(
        self, seen: Any, masks: Tensor, ids: Tensor, *, temperature: float = 1.0, whole: bool = False
    ) -> WordScores:
        """Return what the policy says of captions, from logits divided by the temperature and processed no further.

        Args:
            seen: N images.
            masks: ``[N, h, w]`` bool.
            ids: ``[N, L]`` words.
            temperature: The one that they were sampled with.
            whole: Whether the log-probabilities of all words are wanted too.
        """
        ...

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Return the numbers ``[N, L]`` of captions, as `score_words` takes them."""
        ...

    def prompts(self, seen: Any, texts: Sequence[str]) -> Tensor:
        """Return the segmentation prompts ``[N, Z]`` of captions, with graph."""
        ...

    def draw(self, seen: Any, prompts: Tensor) -> Tensor:
        """Return mask logits ``[N, h, w]``; above 0 is inside."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return by name the weights that training may change."""
        ...

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put those weights back; strict."""
        ...

    def save(self, folder: Path, *, tensors: Mapping[str, Tensor] | None) -> None:
        """Write a folder that the option ``checkpoint`` of its plugin opens.

        Args:
            folder: Created when absent; in a run the artifact `REGION_ARTIFACT`.
            tensors: Such as `tensors` returns; None for a run whose checkpoints hold them.
        """
        ...
